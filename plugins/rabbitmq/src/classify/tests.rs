//! Every error kind of the library and every reply code of the protocol, as tables.

use std::io;
use std::sync::Arc;

use lapin::types::generation::{GenError, gen_long_uint};
use lapin::types::parsing::parse_long_uint;
use lapin::{ChannelState, ConnectionState};
use outrider_broker::ErrorClass::*;

use super::*;

fn soft(code: AMQPSoftError, text: &str) -> AMQPError {
    AMQPError::new(code.into(), text.into())
}

fn hard(code: AMQPHardError, text: &str) -> AMQPError {
    AMQPError::new(code.into(), text.into())
}

const SIZE: &str = "PRECONDITION_FAILED - message size 1048577 is larger than configured max size 1048576";

#[test]
fn every_kind_of_error() {
    let io = |kind| Arc::new(io::Error::from(kind));
    let parser = parse_long_uint(&[][..]).expect_err("nothing to parse");
    let generator = match gen_long_uint(7)((&mut [0_u8; 0][..]).into()) {
        Ok(_) => GenError::NotYetImplemented,
        Err(error) => error,
    };
    let table: Vec<(ErrorKind, Scope, ErrorClass)> = vec![
        (ErrorKind::ChannelsLimitReached, Scope::Broker, ClientFull),
        (ErrorKind::InvalidChannel(7), Scope::Broker, ClientFatal),
        (ErrorKind::InvalidChannelState(ChannelState::Closed, "basic.publish"), Scope::Event, Other),
        (ErrorKind::InvalidConnectionState(ConnectionState::Closed), Scope::Broker, Unreachable),
        (ErrorKind::IOError(io(io::ErrorKind::ConnectionReset)), Scope::Broker, Unreachable),
        (ErrorKind::RuntimeShutdownError(io(io::ErrorKind::Other)), Scope::Broker, Local),
        (ErrorKind::ParsingError(parser), Scope::Broker, ClientFatal),
        (
            ErrorKind::ProtocolError(soft(AMQPSoftError::NOTFOUND, "x")),
            Scope::Destination,
            UnknownDestination,
        ),
        (ErrorKind::SerialisationError(Arc::new(generator)), Scope::Broker, ClientFatal),
        (ErrorKind::AuthProviderError("s3cret".to_owned()), Scope::Broker, Authentication),
        (ErrorKind::FutureCompleted, Scope::Broker, ClientFatal),
        (ErrorKind::NoDefaultRuntime, Scope::Broker, ClientFatal),
        (ErrorKind::MissingHeartbeatError, Scope::Broker, Unreachable),
    ];
    for (kind, scope, class) in table {
        let error = Error::from(kind);
        let cause = cause(&error);
        assert_eq!((cause.scope, cause.class), (scope, class), "{error:?}");
        assert!(!cause.text.is_empty() && !cause.text.contains("s3cret"), "{cause}");
        // While connecting, everything concerns the broker.
        let connect = connect(&error, "mq:5672", "app");
        assert_eq!(connect.scope, Scope::Broker);
        assert!(connect.text.contains("`mq:5672`") && !connect.text.contains("s3cret"), "{connect}");
    }
}

#[test]
fn every_reply_code() {
    use AMQPHardError::*;
    use AMQPSoftError::*;
    let softs = [
        (CONTENTTOOLARGE, "", Scope::Event, TooLarge),
        (NOROUTE, "", Scope::Destination, Unroutable),
        (NOCONSUMERS, "", Scope::Destination, Unavailable),
        (ACCESSREFUSED, "", Scope::Destination, Authorization),
        (NOTFOUND, "", Scope::Destination, UnknownDestination),
        (RESOURCELOCKED, "", Scope::Destination, Unavailable),
        (PRECONDITIONFAILED, "PRECONDITION_FAILED - invalid message", Scope::Event, Invalid),
        (PRECONDITIONFAILED, SIZE, Scope::Event, TooLarge),
    ];
    for (code, text, scope, class) in softs {
        let cause = reply(&soft(code.clone(), text));
        assert_eq!((cause.scope, cause.class), (scope, class), "{code:?} {text}");
        assert!(cause.text.contains(text), "{cause}");
    }
    let hards = [
        (CONNECTIONFORCED, "", Unreachable),
        (INVALIDPATH, "", UnknownDestination),
        (FRAMEERROR, "", ClientFatal),
        (SYNTAXERROR, "", ClientFatal),
        (COMMANDINVALID, "", ClientFatal),
        (CHANNELERROR, "", ClientFatal),
        (UNEXPECTEDFRAME, "", ClientFatal),
        (RESOURCEERROR, "", Unavailable),
        (NOTALLOWED, "NOT_ALLOWED - vhost x not found", UnknownDestination),
        (NOTALLOWED, "NOT_ALLOWED - access to vhost 'x' refused for user 'u'", Authorization),
        (NOTIMPLEMENTED, "", Other),
        (INTERNALERROR, "", Unavailable),
    ];
    for (code, text, class) in hards {
        let cause = reply(&hard(code.clone(), text));
        assert_eq!((cause.scope, cause.class), (Scope::Broker, class), "{code:?} {text}");
        assert_eq!(verdict(&hard(code, text), 1), None, "a connection's end says nothing about one message");
    }
}

/// The broker closes with the code of a missing permission when it refuses a login.
#[test]
fn refused_credentials() {
    let error =
        Error::from(ErrorKind::ProtocolError(soft(AMQPSoftError::ACCESSREFUSED, "Login was refused")));
    let cause = connect(&error, "mq:5672", "app");
    assert_eq!((cause.scope, cause.class), (Scope::Broker, Authentication));
    assert!(cause.text.contains("`app`") && cause.text.contains("`url`"), "{cause}");
}

#[test]
fn verdicts_on_a_message_that_was_alone() {
    use AMQPSoftError::*;
    for code in [ACCESSREFUSED, NOTFOUND, RESOURCELOCKED, NOROUTE, NOCONSUMERS] {
        assert!(matches!(verdict(&soft(code.clone(), ""), 1), Some(Outcome::Retry(_))), "{code:?}");
    }
    let permanent = |reply| match verdict(&reply, 1_048_577) {
        Some(Outcome::Refused(refusal)) => refusal.permanent,
        other => panic!("{other:?}"),
    };
    assert!(permanent(soft(CONTENTTOOLARGE, "")));
    assert!(permanent(soft(PRECONDITIONFAILED, SIZE)));
    assert!(!permanent(soft(PRECONDITIONFAILED, "PRECONDITION_FAILED - invalid message")));
}

/// C42
#[test]
fn limits_that_replies_name() {
    for (text, limit) in [
        (SIZE, Some(1_048_576)),
        ("PRECONDITION_FAILED - message size 600 is larger than max size 512", Some(512)),
        ("PRECONDITION_FAILED - message size 600 is larger than configured max size", None),
        ("PRECONDITION_FAILED - max size 5", None),
        ("", None),
    ] {
        assert_eq!(size_limit(&soft(AMQPSoftError::PRECONDITIONFAILED, text)), limit, "{text}");
    }
}

/// C41
#[test]
fn exchanges_that_replies_name() {
    let missing = soft(AMQPSoftError::NOTFOUND, "NOT_FOUND - no exchange 'a' in vhost '/'");
    assert!(names(&missing, "a", "k") && !names(&missing, "ab", "k") && !names(&missing, "", "k"));
    let refused = "ACCESS_REFUSED - access to exchange 'amq.default' in vhost '/' refused for user 'u'";
    assert!(names(&soft(AMQPSoftError::ACCESSREFUSED, refused), "", "any"));
    let topic = "ACCESS_REFUSED - access to topic 'k' in exchange 'a' in vhost '/' refused for user 'u'";
    let topic = soft(AMQPSoftError::ACCESSREFUSED, topic);
    assert!(names(&topic, "a", "k") && !names(&topic, "a", "other") && !names(&topic, "b", "k"));
}

#[test]
fn texts_of_the_server_become_one_line() {
    assert_eq!(line("a\r\nb\u{0}c"), "a  b c");
    assert_eq!(line(&"é".repeat(300)).chars().count(), 255);
}
