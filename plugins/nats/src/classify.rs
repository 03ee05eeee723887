//! What became of a message, from what the client and the server say. The only file that interprets errors.
//!
//! Matches are exhaustive over the client's kinds of error, so that a new one has to be decided here. The
//! server's codes are an open list; what is not in it goes by its HTTP-like status. Must not guess: what was
//! handed over and not answered is unknown.

use std::error::Error;
use std::fmt::Display;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{ConnectError, ConnectErrorKind, Message, RequestError, RequestErrorKind};
use outrider_broker::{Cause, ErrorClass, Outcome, Receipt, Refusal};
use serde_json::Value;

/// Bytes of somebody else's text that one of ours may hold.
const EXCERPT: usize = 200;

/// A text from outside, fit for one line: control characters escaped, length bounded.
pub(crate) fn excerpt(text: impl Display) -> String {
    let text = text.to_string();
    let mut escaped = String::new();
    for c in text.chars() {
        if escaped.len() >= EXCERPT {
            escaped.push('…');
            break;
        }
        match c {
            c if c.is_control() => escaped.extend(c.escape_default()),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Why no connection could be made to `addresses`.
pub(crate) fn connect(error: &ConnectError, addresses: &str) -> Cause {
    let (class, what) = match error.kind() {
        ConnectErrorKind::Authentication => {
            (ErrorClass::Authentication, "could not sign with the credentials or nkey given")
        }
        ConnectErrorKind::AuthorizationViolation => {
            (ErrorClass::Authentication, "the server refused the credentials")
        }
        ConnectErrorKind::TimedOut => (ErrorClass::Timeout, "no answer in time"),
        ConnectErrorKind::Dns => (ErrorClass::Unreachable, "a host name was not resolved"),
        ConnectErrorKind::Tls => (ErrorClass::Unreachable, "TLS could not be set up"),
        ConnectErrorKind::Io | ConnectErrorKind::MaxReconnects => (ErrorClass::Unreachable, "no connection"),
        ConnectErrorKind::ServerParse => (ErrorClass::Other, "a server address was not understood"),
    };
    let source = error.source().map(|source| format!(": {}", excerpt(source))).unwrap_or_default();
    Cause::broker(class, format!("cannot connect to `{addresses}`: {what}{source}"))
}

/// The user may not publish to `subject`. The server decides by user and subject, so this holds for every
/// message that waits there.
pub(crate) fn may_not_publish(subject: &str) -> Outcome {
    let text = format!(
        "the user may not publish to `{}`: allow it in the server's permissions, or correct the route",
        excerpt(subject)
    );
    Outcome::Retry(Cause::destination(ErrorClass::Authorization, text))
}

/// JetStream did not say anything about the account in time.
pub(crate) fn silent(info_subject: &str) -> Cause {
    let text = format!("no answer from JetStream on `{}` in time", excerpt(info_subject));
    Cause::broker(ErrorClass::Timeout, text)
}

/// What JetStream said about the account.
pub(crate) fn account(reply: Result<Message, RequestError>, info_subject: &str) -> Result<(), Cause> {
    let error = match reply {
        Ok(message) => return described(&message.payload),
        Err(error) => error,
    };
    Err(match error.kind() {
        RequestErrorKind::NoResponders => Cause::broker(
            ErrorClass::Unavailable,
            format!(
                "the server is there, but JetStream is not: nothing answers on `{}`; enable JetStream on the \
                 server and for the account, or correct `domain` or `api_prefix`",
                excerpt(info_subject)
            ),
        ),
        RequestErrorKind::TimedOut => silent(info_subject),
        RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => {
            Cause::broker(ErrorClass::Other, format!("cannot ask JetStream: {}", excerpt(error)))
        }
        RequestErrorKind::Other => {
            Cause::broker(ErrorClass::Unreachable, "the connection was lost before JetStream answered")
        }
    })
}

/// Looks for an error in JetStream's answer and at nothing else of it, which differs between its versions.
fn described(payload: &[u8]) -> Result<(), Cause> {
    let answer: Value = serde_json::from_slice(payload).map_err(|_| {
        Cause::broker(ErrorClass::Other, "something that is not JetStream answers on its subjects")
    })?;
    let Some(error) = answer.get("error") else { return Ok(()) };
    let text = match serde_json::from_value::<jetstream::Error>(error.clone()) {
        Ok(error) => excerpt(error),
        Err(_) => "an error of a form that is not known".to_owned(),
    };
    Err(Cause::broker(ErrorClass::Unavailable, format!("JetStream is not available: {text}")))
}

/// A message that the client did not take. `over` is why the connection ended, if it did.
pub(crate) fn not_taken(error: &PublishError, over: Option<Cause>) -> Outcome {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => {
            let cause = Cause::event(ErrorClass::TooLarge, excerpt(error));
            Outcome::Refused(Refusal { cause, permanent: true })
        }
        PublishErrorKind::MaxAckPending | PublishErrorKind::TimedOut => Outcome::NotSent(unanswered()),
        PublishErrorKind::BrokenPipe
        | PublishErrorKind::Other
        | PublishErrorKind::StreamNotFound
        | PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::WrongLastSequence => Outcome::NotSent(over.unwrap_or_else(|| {
            Cause::broker(ErrorClass::ClientFatal, format!("the client did not take it: {}", excerpt(error)))
        })),
    }
}

/// A message for which there was no room in time.
pub(crate) fn unanswered() -> Cause {
    let text = "not handed over before the deadline: earlier messages wait for their acknowledgement";
    Cause::broker(ErrorClass::Timeout, text)
}

/// A message that was handed over. `size` is what counts against limits, in bytes; `over` is why the connection
/// ended, if it did.
pub(crate) fn answer(
    answer: Result<PublishAck, PublishError>,
    subject: &str,
    size: usize,
    over: Option<Cause>,
) -> Outcome {
    let error = match answer {
        Ok(ack) => {
            let position = Some(ack.sequence.to_string());
            return Outcome::Confirmed(Receipt { position, duplicate: ack.duplicate });
        }
        Err(error) => error,
    };
    match error.kind() {
        PublishErrorKind::StreamNotFound => Outcome::Retry(Cause::destination(
            ErrorClass::UnknownDestination,
            format!("no stream takes the subject `{}`: add the subject to a stream", excerpt(subject)),
        )),
        PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence => {
            refused(ErrorClass::Invalid, false, format!("the stream refused it: {}", excerpt(error)))
        }
        PublishErrorKind::MaxPayloadExceeded => refused(ErrorClass::TooLarge, true, excerpt(error)),
        PublishErrorKind::BrokenPipe => Outcome::Unknown(over.unwrap_or_else(|| {
            Cause::broker(ErrorClass::Unreachable, "the connection was lost before the acknowledgement came")
        })),
        PublishErrorKind::TimedOut | PublishErrorKind::MaxAckPending => Outcome::Unknown(Cause::broker(
            ErrorClass::Timeout,
            "handed over, and no acknowledgement before the deadline",
        )),
        PublishErrorKind::Other => match error.source().and_then(|source| source.downcast_ref()) {
            Some(error) => said_no(error, size),
            None => Outcome::Unknown(Cause::destination(
                ErrorClass::Other,
                format!(
                    "a reply that is not JetStream's: something else answers on the subject `{}`",
                    excerpt(subject)
                ),
            )),
        },
    }
}

/// JetStream's own no.
fn said_no(error: &jetstream::Error, size: usize) -> Outcome {
    use ErrorCode as E;
    let text = excerpt(error);
    match error.error_code() {
        E::JETSTREAM_NOT_ENABLED
        | E::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
        | E::NO_ACCOUNT
        | E::INSUFFICIENT_RESOURCES
        | E::STORAGE_RESOURCES_EXCEEDED
        | E::MEMORY_RESOURCES_EXCEEDED => {
            let text = format!("JetStream does not take messages: {text}");
            Outcome::Retry(Cause::broker(ErrorClass::Unavailable, text))
        }
        E::STREAM_NOT_MATCH | E::STREAM_MISMATCH => Outcome::Retry(Cause::destination(
            ErrorClass::UnknownDestination,
            format!("the subject belongs to another stream than the route's `stream` says: {text}"),
        )),
        E::STREAM_NOT_FOUND => Outcome::Retry(Cause::destination(
            ErrorClass::UnknownDestination,
            format!("the stream is not there: {text}"),
        )),
        E::STREAM_STORE_FAILED
        | E::STREAM_LIMITS
        | E::ACCOUNT_RESOURCES_EXCEEDED
        | E::STREAM_MAX_STREAM_BYTES_EXCEEDED => Outcome::Retry(Cause::destination(
            ErrorClass::Unavailable,
            format!("the stream has no room: {text}; raise its limits or remove messages"),
        )),
        E::STREAM_SEALED
        | E::STREAM_OFFLINE
        | E::STREAM_OFFLINE_REASON
        | E::STREAM_TOO_MANY_REQUESTS
        | E::CLUSTER_NOT_AVAILABLE
        | E::CLUSTER_NOT_LEADER
        | E::CLUSTER_NOT_ACTIVE
        | E::CLUSTER_NOT_ASSIGNED
        | E::CLUSTER_NO_PEERS
        | E::CLUSTER_INCOMPLETE
        | E::RAFT_GENERAL => Outcome::Retry(Cause::destination(
            ErrorClass::Unavailable,
            format!("the stream does not take messages: {text}"),
        )),
        E::STREAM_DUPLICATE_MESSAGE_CONFLICT => Outcome::Retry(Cause::event(
            ErrorClass::Unavailable,
            format!("an earlier copy is being stored: {text}"),
        )),
        E::STREAM_MESSAGE_EXCEEDS_MAXIMUM => refused(
            ErrorClass::TooLarge,
            true,
            format!("payload and headers are {size} bytes, over the stream's `max_msg_size`: {text}"),
        ),
        E::STREAM_HEADER_EXCEEDS_MAXIMUM => refused(ErrorClass::TooLarge, true, text),
        _ if (400..500).contains(&error.code()) => {
            refused(ErrorClass::Other, false, format!("the stream refused it: {text}"))
        }
        _ => Outcome::Retry(Cause::destination(
            ErrorClass::Other,
            format!("the stream could not take it: {text}"),
        )),
    }
}

/// Handed over and not answered by the deadline. A server that answered others meanwhile is not to blame as a
/// whole, so then it concerns the destination: its stream has lost its quorum, or acknowledges nothing.
pub(crate) fn overdue(others_answered: bool, subject: &str) -> Outcome {
    Outcome::Unknown(if others_answered {
        let text = format!(
            "handed over, and no acknowledgement before the deadline, while others got theirs: has the stream of \
             `{}` a leader, and is its `no_ack` off?",
            excerpt(subject)
        );
        Cause::destination(ErrorClass::Timeout, text)
    } else {
        Cause::broker(ErrorClass::Timeout, "handed over, and no acknowledgement before the deadline")
    })
}

fn refused(class: ErrorClass, permanent: bool, text: String) -> Outcome {
    Outcome::Refused(Refusal { cause: Cause::event(class, text), permanent })
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
