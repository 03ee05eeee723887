//! Every code that the client has, by its outcome.

use std::collections::BTreeMap;

use outrider_broker::Scope;
use rdkafka::error::RDKafkaErrorCode as E;
use rdkafka::types::RDKafkaRespErr;

use super::*;

const SUBJECT: Subject<'_> = Subject { topic: "orders", bytes: 1234 };

/// All codes of the library, from its lowest to above its highest.
fn codes() -> Vec<E> {
    (-300..1000).filter_map(|number| RDKafkaRespErr::try_from(number).ok()).map(E::from).collect()
}

fn failed(code: E, persistence: Persistence) -> Report {
    Report::Failed { code, persistence }
}

/// Name of the outcome, class and scope when the record is certainly not stored.
fn not_stored(code: E) -> (&'static str, ErrorClass, Scope) {
    let outcome = outcome(failed(code, Persistence::No), SUBJECT, None);
    let cause = outcome.cause().expect("a failure has a cause");
    (outcome.name(), cause.class, cause.scope)
}

#[test]
fn the_table() {
    use ErrorClass as C;
    use Scope::{Broker, Destination, Event};
    for (code, expected) in [
        (E::MessageSizeTooLarge, ("refused", C::TooLarge, Event)),
        (E::MessageBatchTooLarge, ("refused", C::TooLarge, Event)),
        (E::InvalidTopic, ("refused", C::Invalid, Event)),
        (E::InvalidRecord, ("refused", C::Invalid, Event)),
        (E::InvalidTimestamp, ("refused", C::Invalid, Event)),
        (E::PolicyViolation, ("refused", C::Invalid, Event)),
        (E::InvalidArgument, ("refused", C::Invalid, Event)),
        (E::UnknownTopicOrPartition, ("retry", C::UnknownDestination, Destination)),
        (E::UnknownTopic, ("retry", C::UnknownDestination, Destination)),
        (E::UnknownPartition, ("retry", C::UnknownDestination, Destination)),
        (E::TopicAuthorizationFailed, ("retry", C::Authorization, Destination)),
        (E::NotEnoughReplicas, ("retry", C::Unavailable, Destination)),
        (E::LeaderNotAvailable, ("retry", C::Unavailable, Destination)),
        (E::NotLeaderForPartition, ("retry", C::Unavailable, Destination)),
        (E::KafkaStorageError, ("retry", C::Unavailable, Destination)),
        (E::RequestTimedOut, ("retry", C::Timeout, Destination)),
        (E::ClusterAuthorizationFailed, ("retry", C::Authorization, Broker)),
        (E::SaslAuthenticationFailed, ("retry", C::Authentication, Broker)),
        (E::ThrottlingQuotaExceeded, ("retry", C::Unavailable, Broker)),
        (E::OutOfOrderSequenceNumber, ("retry", C::ClientFatal, Broker)),
        (E::InvalidProducerEpoch, ("retry", C::ClientFatal, Broker)),
        (E::Authentication, ("not_sent", C::Authentication, Broker)),
        (E::AllBrokersDown, ("not_sent", C::Unreachable, Broker)),
        (E::Resolve, ("not_sent", C::Unreachable, Broker)),
        (E::SSL, ("not_sent", C::Unreachable, Broker)),
        (E::BrokerTransportFailure, ("not_sent", C::Unreachable, Broker)),
        (E::QueueFull, ("not_sent", C::ClientFull, Broker)),
        (E::Fatal, ("not_sent", C::ClientFatal, Broker)),
        (E::MessageTimedOut, ("not_sent", C::Timeout, Destination)),
        (E::PurgeQueue, ("not_sent", C::Local, Event)),
        (E::Unknown, ("not_sent", C::Other, Broker)),
    ] {
        assert_eq!(not_stored(code), expected, "{code:?}");
    }
}

#[test]
fn only_a_record_that_can_never_be_stored_is_refused_for_good() {
    let permanent: Vec<E> = codes()
        .into_iter()
        .filter(|code| {
            let outcome = outcome(failed(*code, Persistence::No), SUBJECT, None);
            matches!(outcome, Outcome::Refused(Refusal { permanent: true, .. }))
        })
        .collect();
    let expected = [
        E::ValueSerialization,
        E::KeySerialization,
        E::InvalidMessageSize,
        E::MessageSizeTooLarge,
        E::InvalidTopic,
        E::MessageBatchTooLarge,
    ];
    assert_eq!(permanent.len(), expected.len(), "{permanent:?}");
    assert!(expected.iter().all(|code| permanent.contains(code)), "{permanent:?}");
}

#[test]
fn every_code_has_an_outcome_that_fits_what_is_known() {
    let codes = codes();
    assert!(codes.len() > 150, "{} codes", codes.len());
    let mut other = BTreeMap::new();
    for code in codes {
        // Bytes that may be stored are never called not sent, to be retried, or refused.
        for persistence in [Persistence::Perhaps, Persistence::Yes] {
            let outcome = outcome(failed(code, persistence), SUBJECT, None);
            assert_eq!(outcome.name(), "unknown", "{code:?}");
        }
        // Only what a broker said is an answer.
        let (name, class, _) = not_stored(code);
        let broker_said = code as i32 > 0 || matches!(code, E::UnknownTopic | E::UnknownPartition);
        match name {
            "retry" => assert!(broker_said, "{code:?}"),
            "not_sent" => assert!(!broker_said, "{code:?}"),
            "refused" => {}
            _ => panic!("{code:?} ends as {name}"),
        }
        if class == ErrorClass::Other {
            *other.entry(name).or_insert(0) += 1;
        }
        let outcome = outcome(failed(code, Persistence::No), SUBJECT, None);
        let text = &outcome.cause().unwrap().text;
        assert!(!text.contains('\n') && !text.contains("  ") && text.len() < 400, "{code:?}: {text}");
    }
    // What a producer's record can meet has a class of its own.
    assert!(other["retry"] < 60 && other["not_sent"] < 45, "{other:?}");
}

/// C33: the reason comes from the client's error callback, not from the record's report.
#[test]
fn a_client_that_gave_up_says_why() {
    let health = Cause::broker(ErrorClass::Authentication, "authentication failed: wrong password");
    let report = failed(E::MessageTimedOut, Persistence::No);
    let Outcome::NotSent(cause) = outcome(report, SUBJECT, Some(&health)) else { panic!() };
    assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Authentication));
    assert!(cause.text.contains("wrong password"));
    // An answer of its own needs no other reason.
    let report = failed(E::UnknownTopic, Persistence::No);
    let Outcome::Retry(cause) = outcome(report, SUBJECT, Some(&health)) else { panic!() };
    assert_eq!(cause.class, ErrorClass::UnknownDestination);
    assert!(cause.text.contains("`orders`") && cause.text.contains("--create"));
}

#[test]
fn what_is_asked_back_is_not_sent_only_if_it_never_left() {
    let purged = |persistence| overdue(Some(failed(E::PurgeQueue, persistence)), SUBJECT, None);
    let Outcome::NotSent(cause) = purged(Persistence::No) else { panic!() };
    assert_eq!((cause.scope, cause.class), (Scope::Destination, ErrorClass::Timeout));
    assert_eq!(purged(Persistence::Perhaps).name(), "unknown");
    assert_eq!(overdue(None, SUBJECT, None).name(), "unknown");
    let stored = Report::Stored { partition: 3, offset: 1042 };
    assert_eq!(overdue(Some(stored), SUBJECT, None), outcome(stored, SUBJECT, None));
}

#[test]
fn a_receipt_has_the_position_where_the_broker_told_it() {
    let position = |offset| match outcome(Report::Stored { partition: 3, offset }, SUBJECT, None) {
        Outcome::Confirmed(receipt) => receipt.position,
        other => panic!("{other:?}"),
    };
    assert_eq!(position(1042).as_deref(), Some("3/1042"));
    assert_eq!(position(-1), None);
}

#[test]
fn errors_of_the_wrapper_have_a_code() {
    let nul = std::ffi::CString::new("a\0b").unwrap_err();
    for (error, expected) in [
        (KafkaError::MessageProduction(E::QueueFull), E::QueueFull),
        (KafkaError::Global(E::Fatal), E::Fatal),
        (KafkaError::MetadataFetch(E::BrokerTransportFailure), E::BrokerTransportFailure),
        (KafkaError::Flush(E::OperationTimedOut), E::OperationTimedOut),
        (KafkaError::AdminOp(E::UnknownTopic), E::InvalidArgument),
        (KafkaError::Canceled, E::BrokerDestroy),
        (KafkaError::Nul(nul), E::InvalidArgument),
        (KafkaError::NoMessageReceived, E::InvalidArgument),
    ] {
        assert_eq!(code(&error), expected, "{error:?}");
    }
}
