//! Every kind of error the client has, and the server's codes that a publisher can meet.

use std::io;

use outrider_broker::ErrorClass::*;
use outrider_broker::Scope::{self, Broker, Destination, Event};
use serde_json::json;

use super::*;

type Expected = (&'static str, Scope, ErrorClass);

fn seen(outcome: &Outcome) -> Expected {
    let cause = outcome.cause().unwrap();
    let name = match outcome {
        Outcome::Refused(refusal) if refusal.permanent => "dead",
        other => other.name(),
    };
    (name, cause.scope, cause.class)
}

fn api_error(status: usize, code: u64, description: &str) -> jetstream::Error {
    serde_json::from_value(json!({ "code": status, "err_code": code, "description": description })).unwrap()
}

#[test]
fn connect_errors() {
    for (kind, class) in [
        (ConnectErrorKind::ServerParse, Other),
        (ConnectErrorKind::Dns, Unreachable),
        (ConnectErrorKind::Authentication, Authentication),
        (ConnectErrorKind::AuthorizationViolation, Authentication),
        (ConnectErrorKind::TimedOut, Timeout),
        (ConnectErrorKind::Tls, Unreachable),
        (ConnectErrorKind::Io, Unreachable),
        (ConnectErrorKind::MaxReconnects, Unreachable),
    ] {
        let cause = connect(&ConnectError::with_source(kind, io::Error::other("the\nreason")), "h:4222");
        assert_eq!((cause.scope, cause.class), (Broker, class), "{kind:?}");
        assert!(cause.text.contains("`h:4222`") && cause.text.contains("the\\nreason"), "{cause}");
    }
}

#[test]
fn messages_that_the_client_did_not_take() {
    let over = Cause::broker(Unreachable, "over");
    for (kind, expected) in [
        (PublishErrorKind::StreamNotFound, ("not_sent", Broker, Unreachable)),
        (PublishErrorKind::WrongLastMessageId, ("not_sent", Broker, Unreachable)),
        (PublishErrorKind::WrongLastSequence, ("not_sent", Broker, Unreachable)),
        (PublishErrorKind::TimedOut, ("not_sent", Broker, Timeout)),
        (PublishErrorKind::BrokenPipe, ("not_sent", Broker, Unreachable)),
        (PublishErrorKind::MaxAckPending, ("not_sent", Broker, Timeout)),
        (PublishErrorKind::MaxPayloadExceeded, ("dead", Event, TooLarge)),
        (PublishErrorKind::Other, ("not_sent", Broker, Unreachable)),
    ] {
        assert_eq!(seen(&not_taken(&PublishError::new(kind), Some(over.clone()))), expected, "{kind:?}");
    }
    let outcome = not_taken(&PublishError::new(PublishErrorKind::Other), None);
    assert_eq!(seen(&outcome), ("not_sent", Broker, ClientFatal));
}

#[test]
fn answers_that_are_no_acknowledgement() {
    for (kind, expected) in [
        (PublishErrorKind::StreamNotFound, ("retry", Destination, UnknownDestination)),
        (PublishErrorKind::WrongLastMessageId, ("refused", Event, Invalid)),
        (PublishErrorKind::WrongLastSequence, ("refused", Event, Invalid)),
        (PublishErrorKind::TimedOut, ("unknown", Broker, Timeout)),
        (PublishErrorKind::BrokenPipe, ("unknown", Broker, Unreachable)),
        (PublishErrorKind::MaxAckPending, ("unknown", Broker, Timeout)),
        (PublishErrorKind::MaxPayloadExceeded, ("dead", Event, TooLarge)),
        (PublishErrorKind::Other, ("unknown", Destination, ErrorClass::Other)),
    ] {
        let outcome = answer(Err(PublishError::new(kind)), "orders", 1, None);
        assert_eq!(seen(&outcome), expected, "{kind:?}");
    }
}

#[test]
fn acknowledgements() {
    for duplicate in [false, true] {
        let ack = PublishAck { stream: "S".to_owned(), sequence: 7, duplicate, ..PublishAck::default() };
        let receipt = Receipt { position: Some("7".to_owned()), duplicate };
        assert_eq!(answer(Ok(ack), "orders", 1, None), Outcome::Confirmed(receipt));
    }
}

#[test]
fn jetstreams_codes() {
    for (status, code, description, expected) in [
        (503, 10076, "JetStream not enabled", ("retry", Broker, Unavailable)),
        (503, 10039, "JetStream not enabled for account", ("retry", Broker, Unavailable)),
        (503, 10035, "account not found", ("retry", Broker, Unavailable)),
        (503, 10023, "insufficient resources", ("retry", Broker, Unavailable)),
        (500, 10047, "insufficient storage resources available", ("retry", Broker, Unavailable)),
        (500, 10028, "insufficient memory resources available", ("retry", Broker, Unavailable)),
        (400, 10060, "expected stream does not match", ("retry", Destination, UnknownDestination)),
        (
            400,
            10056,
            "stream name in subject does not match request",
            ("retry", Destination, UnknownDestination),
        ),
        (404, 10059, "stream not found", ("retry", Destination, UnknownDestination)),
        (503, 10077, "maximum messages exceeded", ("retry", Destination, Unavailable)),
        (503, 10077, "no space left on device", ("retry", Destination, Unavailable)),
        (400, 10002, "resource limits exceeded for account", ("retry", Destination, Unavailable)),
        (500, 10053, "stream limits", ("retry", Destination, Unavailable)),
        (400, 10122, "stream max bytes exceeds account limit", ("retry", Destination, Unavailable)),
        (400, 10109, "invalid operation on sealed stream", ("retry", Destination, Unavailable)),
        (500, 10118, "stream is offline", ("retry", Destination, Unavailable)),
        (500, 10194, "stream is offline: unsupported", ("retry", Destination, Unavailable)),
        (429, 10167, "too many requests", ("retry", Destination, Unavailable)),
        (503, 10008, "JetStream system temporarily unavailable", ("retry", Destination, Unavailable)),
        (500, 10009, "JetStream cluster can not handle request", ("retry", Destination, Unavailable)),
        (500, 10006, "JetStream not in clustered mode", ("retry", Destination, Unavailable)),
        (500, 10007, "JetStream cluster not assigned to this server", ("retry", Destination, Unavailable)),
        (400, 10005, "no suitable peers for placement", ("retry", Destination, Unavailable)),
        (503, 10004, "incomplete results", ("retry", Destination, Unavailable)),
        (500, 10041, "raft error", ("retry", Destination, Unavailable)),
        (409, 10158, "duplicate message id is in process", ("retry", Event, Unavailable)),
        (400, 10054, "message size exceeds maximum allowed", ("dead", Event, TooLarge)),
        (400, 10097, "header size exceeds maximum allowed of 64k", ("dead", Event, TooLarge)),
        (400, 10003, "bad request", ("refused", Event, ErrorClass::Other)),
        (400, 19999, "a code of tomorrow", ("refused", Event, ErrorClass::Other)),
        (500, 10051, "general stream failure", ("retry", Destination, ErrorClass::Other)),
        (503, 19999, "a code of tomorrow", ("retry", Destination, ErrorClass::Other)),
    ] {
        let error = api_error(status, code, description);
        let outcome =
            answer(Err(PublishError::with_source(PublishErrorKind::Other, error)), "orders", 4711, None);
        assert_eq!(seen(&outcome), expected, "{code} {description}");
        let text = &outcome.cause().unwrap().text;
        assert!(text.contains(description) && text.contains(&code.to_string()), "{text}");
    }
}

#[test]
fn the_accounts_answer() {
    let message = |payload: &str| Message {
        subject: "inbox".into(),
        reply: None,
        payload: payload.to_owned().into(),
        headers: None,
        status: None,
        description: None,
        length: 0,
    };
    let ask = |reply| {
        account(reply, "$JS.API.INFO").map_err(|cause| {
            assert_eq!(cause.scope, Broker);
            cause.class
        })
    };
    assert_eq!(ask(Ok(message("{\"memory\":0}"))), Ok(()));
    assert_eq!(ask(Ok(message("{\"error\":{\"code\":503,\"err_code\":10039}}"))), Err(Unavailable));
    assert_eq!(ask(Ok(message("{\"error\":\"?\"}"))), Err(Unavailable));
    assert_eq!(ask(Ok(message("thanks"))), Err(ErrorClass::Other));
    for (kind, class) in [
        (RequestErrorKind::TimedOut, Timeout),
        (RequestErrorKind::NoResponders, Unavailable),
        (RequestErrorKind::InvalidSubject, ErrorClass::Other),
        (RequestErrorKind::MaxPayloadExceeded, ErrorClass::Other),
        (RequestErrorKind::Other, Unreachable),
    ] {
        assert_eq!(ask(Err(RequestError::new(kind))), Err(class), "{kind:?}");
    }
}

#[test]
fn texts_from_outside_stay_on_one_line() {
    assert_eq!(excerpt("a\r\nb\0ü"), "a\\r\\nb\\u{0}ü");
    let long = excerpt("ü".repeat(10_000));
    assert!(long.len() < 300 && long.ends_with('…'), "{long}");
    let outcome = overdue(true, &"s".repeat(1024));
    assert!(outcome.cause().unwrap().text.len() < 1000);
}
