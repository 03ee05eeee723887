//! From librdkafka's reports to outcomes. Pure.
//!
//! Two things decide: what the code says (whose fault is it?), and what the client knows about the message's
//! bytes (may they be in the broker's log?). Where they may be, the outcome is unknown, whatever the code.

use outrider_broker::{Cause, ErrorClass, Outcome, Receipt, Refusal};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::batch::Report;
use crate::verdict::{self, Verdict, verdict};

/// Whether a message's bytes may be in the broker's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    No,
    Perhaps,
    Yes,
}

/// What a text has to name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) topic: &'a str,
    /// Size of the record as [`crate::record::size`] counts it.
    pub(crate) bytes: usize,
}

/// The outcome of a report. `health` is what keeps the client from its brokers, if anything does.
pub(crate) fn outcome(report: Report, subject: Subject<'_>, health: Option<&Cause>) -> Outcome {
    let (code, persistence) = match report {
        Report::Stored { partition, offset } => {
            let position = (offset >= 0).then(|| format!("{partition}/{offset}"));
            return Outcome::Confirmed(Receipt { position, duplicate: false });
        }
        Report::Failed { code, persistence } => (code, persistence),
    };
    let (cause, permanent) = match verdict(code) {
        Verdict::Refused { permanent, class } => {
            (Cause::event(class, verdict::text(code, subject)), Some(permanent))
        }
        Verdict::Destination(class) => (Cause::destination(class, verdict::text(code, subject)), None),
        Verdict::Broker(ErrorClass::ClientFatal) => (
            health
                .cloned()
                .unwrap_or_else(|| Cause::broker(ErrorClass::ClientFatal, verdict::text(code, subject))),
            None,
        ),
        Verdict::Broker(class) => (Cause::broker(class, verdict::text(code, subject)), None),
        Verdict::Stalled => (stalled(code, subject, health), None),
    };
    match (persistence, permanent) {
        // A report of failure for a record that is stored contradicts itself: not to be guessed at.
        (Persistence::Perhaps | Persistence::Yes, _) => unknown(cause),
        (Persistence::No, Some(permanent)) => Outcome::Refused(Refusal { cause, permanent }),
        (Persistence::No, None) if answered(code) => Outcome::Retry(cause),
        (Persistence::No, None) => Outcome::NotSent(cause),
    }
}

/// The outcome of a record that was overdue and asked back; `None`: not even that was answered.
pub(crate) fn overdue(report: Option<Report>, subject: Subject<'_>, health: Option<&Cause>) -> Outcome {
    use RDKafkaErrorCode::{MessageTimedOut, PurgeInflight, PurgeQueue};
    match report {
        Some(Report::Failed { code: PurgeQueue | PurgeInflight, persistence }) => {
            outcome(Report::Failed { code: MessageTimedOut, persistence }, subject, health)
        }
        Some(report) => outcome(report, subject, health),
        None => unknown(stalled(MessageTimedOut, subject, health)),
    }
}

/// The outcome of a record that found no place in the client.
pub(crate) fn full(health: Option<&Cause>) -> Outcome {
    Outcome::NotSent(health.cloned().unwrap_or_else(|| {
        Cause::broker(
            ErrorClass::ClientFull,
            "the client's queue was full until the deadline: lower `max_in_flight`, or raise \
             `queue.buffering.max.messages` and `queue.buffering.max.kbytes`",
        )
    }))
}

/// The outcome of a record that was refused together with others, when it is not known which is to blame.
pub(crate) fn suspect(subject: Subject<'_>) -> Outcome {
    let topic = subject.topic;
    let text =
        format!("topic `{topic}` refused a request for one of its records: to be sent again by itself");
    Outcome::Retry(Cause::event(ErrorClass::Other, text))
}

/// Why a broker did not answer a question.
pub(crate) fn unanswered(code: RDKafkaErrorCode, health: Option<Cause>) -> Cause {
    match health {
        Some(Cause { class, text, .. }) => Cause::broker(class, format!("no broker can be used: {text}")),
        None => Cause::broker(class(code), format!("no broker answered: {code}")),
    }
}

fn unknown(cause: Cause) -> Outcome {
    let text = format!("handed over without an answer: {}", cause.text);
    Outcome::Unknown(Cause { text, ..cause })
}

/// The cause behind a code that only says that the client gave up.
fn stalled(code: RDKafkaErrorCode, subject: Subject<'_>, health: Option<&Cause>) -> Cause {
    use RDKafkaErrorCode::{PurgeInflight, PurgeQueue};
    let topic = subject.topic;
    match health {
        Some(Cause { scope, class, text }) => {
            Cause::new(*scope, *class, format!("no broker took it: {text}"))
        }
        None if matches!(code, PurgeQueue | PurgeInflight) => {
            Cause::event(ErrorClass::Local, "taken back together with overdue records of another batch")
        }
        None => {
            let text = format!("topic `{topic}` did not take it in time: do its partitions have leaders?");
            Cause::destination(ErrorClass::Timeout, text)
        }
    }
}

/// The code inside an error of the Rust wrapper. What the wrapper itself finds wrong is an invalid argument.
pub(crate) fn code(error: &KafkaError) -> RDKafkaErrorCode {
    match error {
        KafkaError::Canceled => RDKafkaErrorCode::BrokerDestroy,
        error => error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::InvalidArgument),
    }
}

/// The class of a code, for errors that concern the client as a whole.
pub(crate) fn class(code: RDKafkaErrorCode) -> ErrorClass {
    match verdict(code) {
        Verdict::Refused { class, .. } | Verdict::Destination(class) | Verdict::Broker(class) => class,
        Verdict::Stalled => ErrorClass::Timeout,
    }
}

/// Whether the failure may be the fault of another record in the same request: a broker takes or refuses a
/// request's records of one partition together.
pub(crate) fn blames_the_request(report: Report) -> bool {
    use RDKafkaErrorCode as E;
    let Report::Failed { code, persistence: Persistence::No } = report else { return false };
    matches!(
        code,
        E::MessageSizeTooLarge
            | E::MessageBatchTooLarge
            | E::InvalidMessageSize
            | E::InvalidRecord
            | E::InvalidDifferentRecord
            | E::InvalidTimestamp
            | E::PolicyViolation
    )
}

/// Whether a broker said so. Codes of librdkafka's own are negative, and two of them pass on what a broker's
/// metadata says.
fn answered(code: RDKafkaErrorCode) -> bool {
    code as i32 > 0 || matches!(code, RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownPartition)
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
