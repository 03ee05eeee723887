//! What the server says without being asked: permissions that a user lacks, and why it closes a connection.
//!
//! These lines name no message, so what they mean for one is decided elsewhere. Must not guess from a text that
//! is not known.

use async_nats::ServerError;
use outrider_broker::{Cause, ErrorClass};

use crate::classify::excerpt;

/// What the server's complaint is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Complaint {
    /// The user may not publish to this subject. No other answer comes for the message.
    MayNotPublish(String),
    /// The user may not subscribe to this subject.
    MayNotSubscribe(String),
    /// Anything else. The server closes the connection after most of them.
    Other,
}

pub(crate) fn complaint(error: &ServerError) -> Complaint {
    let ServerError::Other(text) = error else { return Complaint::Other };
    let quoted = |rest: &str| rest.split('"').nth(1).map(str::to_owned);
    let to_publish = text.strip_prefix("Permissions Violation for Publish to ").and_then(quoted);
    let to_subscribe = text.strip_prefix("Permissions Violation for Subscription to ").and_then(quoted);
    match (to_publish, to_subscribe) {
        (Some(subject), _) => Complaint::MayNotPublish(subject),
        (None, Some(subject)) => Complaint::MayNotSubscribe(subject),
        (None, None) => Complaint::Other,
    }
}

/// Why a connection was lost. `said` is what the server complained about last, if it did.
pub(crate) fn lost(said: Option<&ServerError>) -> Cause {
    let Some(said) = said else {
        return Cause::broker(ErrorClass::Unreachable, "the connection to the server was lost");
    };
    let (class, text) = match said {
        ServerError::AuthorizationViolation => {
            (ErrorClass::Authentication, "Authorization Violation".to_owned())
        }
        ServerError::SlowConsumer(_) => (ErrorClass::Unreachable, "Slow Consumer".to_owned()),
        ServerError::Other(text) if text.to_lowercase().contains("authentication") => {
            (ErrorClass::Authentication, excerpt(text))
        }
        ServerError::Other(text) => (ErrorClass::Unreachable, excerpt(text)),
    };
    Cause::broker(class, format!("the server closed the connection: `{text}`"))
}

/// The user may not subscribe to the subject that acknowledgements come to.
pub(crate) fn no_inbox(subject: &str) -> Cause {
    let text = format!(
        "the user may not subscribe to `{}`, where acknowledgements come: allow it, or set `inbox_prefix` to what \
         the user may subscribe to",
        excerpt(subject)
    );
    Cause::broker(ErrorClass::Authorization, text)
}

#[cfg(test)]
mod tests {
    use outrider_broker::Scope;

    use super::*;

    #[test]
    fn complaints() {
        let other = |text: &str| ServerError::Other(text.to_owned());
        for (text, expected) in [
            (r#"Permissions Violation for Publish to "a.b""#, Complaint::MayNotPublish("a.b".to_owned())),
            (
                r#"Permissions Violation for Subscription to "_INBOX.x.*""#,
                Complaint::MayNotSubscribe("_INBOX.x.*".to_owned()),
            ),
            (
                r#"Permissions Violation for Subscription to "a" using queue "q""#,
                Complaint::MayNotSubscribe("a".to_owned()),
            ),
            (r#"Permissions Violation for Publish with Reply of "a""#, Complaint::Other),
            ("Maximum Payload Violation", Complaint::Other),
            ("Permissions Violation for Publish to ", Complaint::Other),
        ] {
            assert_eq!(complaint(&other(text)), expected, "{text}");
        }
        assert_eq!(complaint(&ServerError::AuthorizationViolation), Complaint::Other);
        for (said, class) in [
            (None, ErrorClass::Unreachable),
            (Some(ServerError::AuthorizationViolation), ErrorClass::Authentication),
            (Some(ServerError::SlowConsumer(1)), ErrorClass::Unreachable),
            (Some(other("User Authentication Expired")), ErrorClass::Authentication),
            (Some(other("Maximum Payload Violation")), ErrorClass::Unreachable),
        ] {
            assert_eq!(
                (lost(said.as_ref()).scope, lost(said.as_ref()).class),
                (Scope::Broker, class),
                "{said:?}"
            );
        }
    }
}
