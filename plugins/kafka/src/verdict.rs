//! What each of librdkafka's error codes means for a message that is being sent, as a rule and as a text. Pure.

use outrider_broker::ErrorClass;
use rdkafka::error::RDKafkaErrorCode;

use crate::classify::Subject;

/// What an error code says by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The record cannot be stored. `permanent`: not unchanged, ever.
    Refused { permanent: bool, class: ErrorClass },
    /// The topic or partition cannot take it.
    Destination(ErrorClass),
    /// The cluster or this client cannot take it.
    Broker(ErrorClass),
    /// The client gave up or was told to; the reason is not in the code.
    Stalled,
}

/// Every code, by what it means for a message that a producer sends. Codes of consumers, groups, transactions
/// and administration cannot come; they are listed so that nothing is classified by accident.
pub(crate) fn verdict(code: RDKafkaErrorCode) -> Verdict {
    use ErrorClass as C;
    use RDKafkaErrorCode as E;
    use Verdict::{Broker, Destination, Refused, Stalled};
    match code {
        E::MessageSizeTooLarge | E::MessageBatchTooLarge | E::InvalidMessageSize => {
            Refused { permanent: true, class: C::TooLarge }
        }
        E::InvalidTopic | E::KeySerialization | E::ValueSerialization => {
            Refused { permanent: true, class: C::Invalid }
        }
        // The topic's settings decide, and they can be changed.
        E::InvalidRecord | E::InvalidTimestamp | E::PolicyViolation | E::InvalidArgument => {
            Refused { permanent: false, class: C::Invalid }
        }

        E::UnknownTopicOrPartition | E::UnknownTopic | E::UnknownPartition | E::UnknownTopicId => {
            Destination(C::UnknownDestination)
        }
        E::TopicAuthorizationFailed => Destination(C::Authorization),
        E::RequestTimedOut => Destination(C::Timeout),
        E::LeaderNotAvailable
        | E::NotLeaderForPartition
        | E::ReplicaNotAvailable
        | E::NotEnoughReplicas
        | E::NotEnoughReplicasAfterAppend
        | E::ISRInsufficient
        | E::KafkaStorageError
        | E::LogDirNotFound
        | E::FencedLeaderEpoch
        | E::UnknownLeaderEpoch
        | E::OffsetNotAvailable
        | E::PreferredLeaderNotAvailable
        | E::EligibleLeadersNotAvailable
        | E::ReassignmentInProgress
        | E::InvalidDifferentRecord
        | E::InvalidMessage => Destination(C::Unavailable),
        E::UnsupportedForMessageFormat | E::UnsupportedCompressionType | E::InvalidRequiredAcks => {
            Destination(C::Other)
        }

        E::MessageTimedOut | E::OperationTimedOut | E::TimedOutQueue | E::PurgeQueue | E::PurgeInflight => {
            Stalled
        }

        E::BrokerTransportFailure
        | E::Resolve
        | E::AllBrokersDown
        | E::NetworkException
        | E::SSL
        | E::BrokerDestroy
        | E::DestroyBroker
        | E::UnknownBroker
        | E::ListenerNotFound
        | E::RebootstrapRequired => Broker(C::Unreachable),
        E::Authentication
        | E::SaslAuthenticationFailed
        | E::UnsupportedSASLMechanism
        | E::IllegalSASLState
        | E::SecurityDisabled
        | E::UnacceptableCredential
        | E::DelegationTokenAuthDisabled
        | E::DelegationTokenNotFound
        | E::DelegationTokenOwnerMismatch
        | E::DelegationTokenRequestNotAllowed
        | E::DelegationTokenExpired => Broker(C::Authentication),
        E::ClusterAuthorizationFailed
        | E::GroupAuthorizationFailed
        | E::TransactionalIdAuthorizationFailed
        | E::DelegationTokenAuthorizationFailed => Broker(C::Authorization),
        E::BrokerNotAvailable
        | E::CoordinatorLoadInProgress
        | E::CoordinatorNotAvailable
        | E::NotCoordinator
        | E::NotController
        | E::StaleControllerEpoch
        | E::StaleBrokerEpoch
        | E::WaitingForCoordinator
        | E::ConcurrentTransactions
        | E::ThrottlingQuotaExceeded => Broker(C::Unavailable),
        E::QueueFull => Broker(C::ClientFull),
        E::Fatal
        | E::OutOfOrderSequenceNumber
        | E::DuplicateSequenceNumber
        | E::UnknownProducerId
        | E::InvalidProducerEpoch
        | E::InvalidProducerIdMapping
        | E::ProducerFenced
        | E::Fenced
        | E::GaplessGuarantee
        | E::Inconsistent
        | E::State
        | E::CriticalSystemResource => Broker(C::ClientFatal),

        E::Begin
        | E::BadMessage
        | E::BadCompression
        | E::Fail
        | E::PartitionEOF
        | E::FileSystem
        | E::NodeUpdate
        | E::UnknownGroup
        | E::InProgress
        | E::PreviousInProgress
        | E::ExistingSubscription
        | E::AssignPartitions
        | E::RevokePartitions
        | E::Conflict
        | E::UnknownProtocol
        | E::NotImplemented
        | E::NoOffset
        | E::Outdated
        | E::UnsupportedFeature
        | E::WaitCache
        | E::Interrupted
        | E::KeyDeserialization
        | E::ValueDeserialization
        | E::Partial
        | E::ReadOnly
        | E::NoEnt
        | E::Underflow
        | E::InvalidType
        | E::Retry
        | E::PollExceeded
        | E::NotConfigured
        | E::Application
        | E::AssignmentLost
        | E::Noop
        | E::AutoOffsetReset
        | E::LogTruncation
        | E::End
        | E::Unknown
        | E::NoError
        | E::OffsetOutOfRange
        | E::OffsetMetadataTooLarge
        | E::IllegalGeneration
        | E::InconsistentGroupProtocol
        | E::InvalidGroupId
        | E::UnknownMemberId
        | E::InvalidSessionTimeout
        | E::RebalanceInProgress
        | E::InvalidCommitOffsetSize
        | E::UnsupportedVersion
        | E::TopicAlreadyExists
        | E::InvalidPartitions
        | E::InvalidReplicationFactor
        | E::InvalidReplicaAssignment
        | E::InvalidConfig
        | E::InvalidRequest
        | E::InvalidTransactionalState
        | E::InvalidTransactionTimeout
        | E::TransactionCoordinatorFenced
        | E::OperationNotAttempted
        | E::InvalidPrincipalType
        | E::NonEmptyGroup
        | E::GroupIdNotFound
        | E::FetchSessionIdNotFound
        | E::InvalidFetchSessionEpoch
        | E::TopicDeletionDisabled
        | E::MemberIdRequired
        | E::GroupMaxSizeReached
        | E::FencedInstanceId
        | E::ElectionNotNeeded
        | E::NoReassignmentInProgress
        | E::GroupSubscribedToTopic
        | E::UnstableOffsetCommit
        | E::ResourceNotFound
        | E::DuplicateResource
        | E::InconsistentVoterSet
        | E::InvalidUpdateVersion
        | E::FeatureUpdateFailed
        | E::PrincipalDeserializationFailure
        | E::FencedMemberEpoch
        | E::UnreleasedInstanceId
        | E::UnsupportedAssignor
        | E::StaleMemberEpoch
        | E::UnknownSubscriptionId
        | E::TelemetryTooLarge
        | E::EndAll => Broker(C::Other),
        // The enum may grow with the library; a code that is not known here blames nobody's event.
        _ => Broker(C::Other),
    }
}

/// One line for people, with the remedy where there is one.
pub(crate) fn text(code: RDKafkaErrorCode, subject: Subject<'_>) -> String {
    use RDKafkaErrorCode as E;
    let Subject { topic, bytes } = subject;
    match code {
        E::MessageSizeTooLarge | E::MessageBatchTooLarge | E::InvalidMessageSize => format!(
            "record of {bytes} bytes is larger than topic `{topic}` takes: make the event smaller, or raise the \
             topic's `max.message.bytes` (by default 1048588 bytes) and the topic's segment size"
        ),
        E::InvalidTopic => format!("`{topic}` is not a topic name that Kafka takes: correct the route"),
        E::InvalidRecord => format!(
            "topic `{topic}` does not take the record: a compacted topic needs a key in every event, and the \
             topic may limit how old or new a time may be"
        ),
        E::InvalidTimestamp => format!(
            "topic `{topic}` does not take the event's time: see its `message.timestamp.before.max.ms` and \
             `message.timestamp.after.max.ms`"
        ),
        E::UnknownTopicOrPartition | E::UnknownTopic | E::UnknownPartition | E::UnknownTopicId => format!(
            "topic `{topic}` does not exist: create it (`kafka-topics.sh --create --topic {topic}`) or correct \
             the route"
        ),
        E::TopicAuthorizationFailed => {
            format!("not authorized to write to topic `{topic}`: grant WRITE and DESCRIBE on it")
        }
        E::ClusterAuthorizationFailed => {
            "not authorized for idempotent writes: grant IDEMPOTENT_WRITE on the cluster, which brokers before \
             3.0 ask for"
                .to_owned()
        }
        E::QueueFull => "the client's queue was full until the deadline: see `queue.buffering.max.messages` and \
                         `queue.buffering.max.kbytes`"
            .to_owned(),
        E::UnsupportedCompressionType => {
            format!("topic `{topic}` does not take the compression: change `compression.type`")
        }
        code => format!("topic `{topic}`: {code}"),
    }
}
