//! What an error of the client library, or a reply code of the broker, is in the contract's words.
//!
//! Says whom it concerns and why; whether a message is retried, refused or unknown depends on how far it had
//! got, and is `settle`'s to say. Must not: show what the library puts into errors from the handshake (secrets)
//! or from its parser (bytes of messages).

use lapin::protocol::{AMQPError, AMQPErrorKind, AMQPHardError, AMQPSoftError};
use lapin::{Error, ErrorKind};
use outrider_broker::{Cause, ErrorClass, Outcome, Refusal, Scope};

/// Longest part of a broker's text that is passed on, in characters.
const MAX_TEXT_CHARS: usize = 255;

/// Classifies an error after the connection was made.
pub(crate) fn cause(error: &Error) -> Cause {
    use ErrorClass::*;
    match error.kind() {
        ErrorKind::ProtocolError(reply) => self::reply(reply),
        ErrorKind::IOError(error) => {
            Cause::broker(Unreachable, format!("the connection broke: {}", line(&error.to_string())))
        }
        ErrorKind::MissingHeartbeatError => Cause::broker(
            Unreachable,
            "the broker sent nothing for two heartbeats; the connection was given up",
        ),
        ErrorKind::InvalidConnectionState(_) => Cause::broker(Unreachable, "the connection is closed"),
        ErrorKind::InvalidChannelState(..) => {
            Cause::event(Other, "the channel closed before the message was sent")
        }
        ErrorKind::ChannelsLimitReached => Cause::broker(
            ClientFull,
            "the broker allows no more channels on this connection: raise its `channel_max`",
        ),
        ErrorKind::InvalidProtocolVersion(version) => {
            Cause::broker(Other, format!("the server speaks AMQP {version} instead of 0.9.1"))
        }
        ErrorKind::AuthProviderError(_) => {
            Cause::broker(Authentication, "the broker's authentication mechanism does not fit `url`")
        }
        ErrorKind::InvalidChannel(_) => Cause::broker(ClientFatal, "the client lost track of its channels"),
        ErrorKind::ParsingError(_) => Cause::broker(ClientFatal, "the server's answer is not AMQP"),
        ErrorKind::SerialisationError(_) => Cause::broker(ClientFatal, "the client could not write a frame"),
        ErrorKind::FutureCompleted => Cause::broker(ClientFatal, "the client asked for a confirm twice"),
        ErrorKind::NoDefaultRuntime => Cause::broker(ClientFatal, "the client has no async runtime"),
        ErrorKind::RuntimeShutdownError(_) => Cause::broker(Local, "the client's async runtime has stopped"),
        // The library may add kinds in a patch release.
        _ => Cause::broker(Other, "the client failed in a way that this version does not know"),
    }
}

/// Classifies a broker's reply, as it comes with a closed channel or connection.
pub(crate) fn reply(reply: &AMQPError) -> Cause {
    use ErrorClass::*;
    let text = line(reply.get_message().as_str());
    let (scope, class, remedy) = match reply.kind() {
        AMQPErrorKind::Soft(soft) => match soft {
            AMQPSoftError::CONTENTTOOLARGE => (Scope::Event, TooLarge, "make the event smaller"),
            AMQPSoftError::NOROUTE => (Scope::Destination, Unroutable, "bind a queue"),
            AMQPSoftError::NOCONSUMERS => (Scope::Destination, Unavailable, "start a consumer"),
            AMQPSoftError::ACCESSREFUSED => {
                (Scope::Destination, Authorization, "grant the user write permission on the exchange")
            }
            AMQPSoftError::NOTFOUND => (Scope::Destination, UnknownDestination, "declare the exchange"),
            AMQPSoftError::RESOURCELOCKED => {
                (Scope::Destination, Unavailable, "free it from the connection that holds it")
            }
            AMQPSoftError::PRECONDITIONFAILED if size_limit(reply).is_some() => {
                (Scope::Event, TooLarge, "make the event smaller or raise the broker's `max_message_size`")
            }
            AMQPSoftError::PRECONDITIONFAILED => (Scope::Event, Invalid, "see the broker's log"),
        },
        AMQPErrorKind::Hard(hard) => match hard {
            AMQPHardError::CONNECTIONFORCED => {
                (Scope::Broker, Unreachable, "an operator or a restart closed the connection")
            }
            AMQPHardError::INVALIDPATH => (Scope::Broker, UnknownDestination, "check the virtual host"),
            AMQPHardError::NOTALLOWED if text.contains("not found") => {
                (Scope::Broker, UnknownDestination, "create the virtual host or correct `vhost` or `url`")
            }
            AMQPHardError::NOTALLOWED => {
                (Scope::Broker, Authorization, "grant the user access to the virtual host")
            }
            AMQPHardError::RESOURCEERROR => (Scope::Broker, Unavailable, "the broker is out of a resource"),
            AMQPHardError::INTERNALERROR => (Scope::Broker, Unavailable, "see the broker's log"),
            AMQPHardError::NOTIMPLEMENTED => (Scope::Broker, Other, "the broker lacks a feature"),
            AMQPHardError::FRAMEERROR
            | AMQPHardError::SYNTAXERROR
            | AMQPHardError::COMMANDINVALID
            | AMQPHardError::CHANNELERROR
            | AMQPHardError::UNEXPECTEDFRAME => (Scope::Broker, ClientFatal, "the connection is made anew"),
        },
    };
    Cause::new(scope, class, format!("the broker replied {} `{text}`: {remedy}", reply.get_id()))
}

/// Classifies what ended an attempt to connect: always broker trouble. `server` is `host:port`.
pub(crate) fn connect(error: &Error, server: &str, user: &str) -> Cause {
    match error.kind() {
        ErrorKind::ProtocolError(reply)
            if matches!(reply.kind(), AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)) =>
        {
            let text = format!(
                "`{server}` refused the credentials of user `{user}`: check user and password in `url`"
            );
            Cause::broker(ErrorClass::Authentication, text)
        }
        ErrorKind::IOError(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {
            let text = format!(
                "`{server}` closed the connection during the AMQP handshake: check the port, and whether it wants \
                 `amqps://`"
            );
            Cause::broker(ErrorClass::Unreachable, text)
        }
        ErrorKind::IOError(error) => {
            let text = format!("cannot connect to `{server}`: {}", line(&error.to_string()));
            Cause::broker(ErrorClass::Unreachable, text)
        }
        _ => {
            let cause = cause(error);
            Cause::broker(cause.class, format!("`{server}`: {}", cause.text))
        }
    }
}

/// What a channel's end means for the one message that was on it: the broker's own answer to that message.
/// `None` if the reply does not speak of messages.
pub(crate) fn verdict(reply: &AMQPError, payload_bytes: usize) -> Option<Outcome> {
    let AMQPErrorKind::Soft(soft) = reply.kind() else { return None };
    Some(match soft {
        AMQPSoftError::ACCESSREFUSED
        | AMQPSoftError::NOTFOUND
        | AMQPSoftError::RESOURCELOCKED
        | AMQPSoftError::NOROUTE
        | AMQPSoftError::NOCONSUMERS => Outcome::Retry(self::reply(reply)),
        AMQPSoftError::CONTENTTOOLARGE => {
            Outcome::Refused(Refusal { cause: self::reply(reply), permanent: true })
        }
        AMQPSoftError::PRECONDITIONFAILED => match size_limit(reply) {
            Some(limit) => too_large(payload_bytes, limit),
            None => Outcome::Refused(Refusal { cause: self::reply(reply), permanent: false }),
        },
    })
}

/// The outcome of a payload over a limit, whoever's limit it is.
pub(crate) fn too_large(payload_bytes: usize, limit: usize) -> Outcome {
    let text = format!(
        "the payload is {payload_bytes} bytes and the limit {limit}: make the event smaller, or raise the broker's \
         `max_message_size` and `max_message_bytes`"
    );
    Outcome::Refused(Refusal { cause: Cause::event(ErrorClass::TooLarge, text), permanent: true })
}

/// The limit in bytes that a reply about a message's size names
/// (`message size 1048577 is larger than configured max size 1048576`).
pub(crate) fn size_limit(reply: &AMQPError) -> Option<usize> {
    let (_, about_size) = reply.get_message().as_str().split_once("message size ")?;
    let (_, limit) = about_size.split_once("max size ")?;
    let digits = limit.find(|c: char| !c.is_ascii_digit()).unwrap_or(limit.len());
    limit[..digits].parse().ok()
}

/// Whether a reply names this exchange, and if it names a routing key too, this one.
pub(crate) fn names(reply: &AMQPError, exchange: &str, routing_key: &str) -> bool {
    let text = reply.get_message().as_str();
    // The broker's texts call the default exchange by this name.
    let exchange = if exchange.is_empty() { "amq.default" } else { exchange };
    let about_topic = text.contains("to topic '");
    text.contains(&format!("exchange '{exchange}'"))
        && (!about_topic || text.contains(&format!("topic '{routing_key}'")))
}

/// A text of the server's as one line of bounded length.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests;
