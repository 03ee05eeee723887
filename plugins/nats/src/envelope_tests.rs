//! Envelopes: which headers go out, what is refused and how, and the size on the wire.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use outrider_broker::Scope;
use uuid::Uuid;

use super::*;

const LIMIT: usize = 1024;

fn message(to: &[(&str, &str)], headers: &[(&str, &str)]) -> Message {
    let to: BTreeMap<String, String> =
        to.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Message {
        id: Uuid::nil(),
        seq: 1,
        destination: Arc::new(to),
        key: Some(Arc::from("key")),
        kind: Arc::from("test.event.v1"),
        content_type: Arc::from("application/json"),
        occurred_at: SystemTime::UNIX_EPOCH,
        headers: headers.iter().map(|(name, value)| (Arc::from(*name), (*value).to_owned())).collect(),
        payload: vec![b'x'; 10].into(),
        redelivery: false,
    }
}

fn orders(headers: &[(&str, &str)]) -> Message {
    message(&[("subject", "orders")], headers)
}

fn sealed_headers(message: &Message) -> Vec<(String, String)> {
    let headers = headers(message, message.destination.get(STREAM).map(String::as_str)).unwrap();
    let mut lines: Vec<(String, String)> = headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.to_string())))
        .collect();
    lines.sort_by(|(one, _), (other, _)| one.cmp(other));
    lines
}

fn lines(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn headers_go_out_as_they_are() {
    let id = Uuid::nil().to_string();
    let sent = orders(&[("x-b", " v: \"ü\" "), ("X-A", ""), ("x-b", "second")]);
    let expected = lines(&[
        ("Content-Type", "application/json"),
        ("Nats-Msg-Id", &id),
        ("X-A", ""),
        ("x-b", " v: \"ü\" "),
        ("x-b", "second"),
    ]);
    assert_eq!(sealed_headers(&sent), expected);

    let sent = message(&[("subject", "orders"), ("stream", "ORDERS")], &[("content-type", "text/plain")]);
    let expected =
        lines(&[("Nats-Expected-Stream", "ORDERS"), ("Nats-Msg-Id", &id), ("content-type", "text/plain")]);
    assert_eq!(sealed_headers(&sent), expected);
}

#[test]
fn what_can_never_be_sent() {
    let bad_content_type = Message { content_type: Arc::from("a\nb"), ..orders(&[]) };
    for (bad, class) in [
        (message(&[], &[]), ErrorClass::Invalid),
        (message(&[("subject", "a.>")], &[]), ErrorClass::Invalid),
        (message(&[("subject", "a b")], &[]), ErrorClass::Invalid),
        (message(&[("subject", "a"), ("stream", "a.b")], &[]), ErrorClass::Invalid),
        (orders(&[("", "v")]), ErrorClass::Invalid),
        (orders(&[("a b", "v")]), ErrorClass::Invalid),
        (orders(&[("a:b", "v")]), ErrorClass::Invalid),
        (orders(&[("ä", "v")]), ErrorClass::Invalid),
        (orders(&[("a\r\nb", "v")]), ErrorClass::Invalid),
        (orders(&[("a", "secret\r\nb: c")]), ErrorClass::Invalid),
        (orders(&[("a", "secret\0")]), ErrorClass::Invalid),
        (orders(&[("Nats-Rollup", "all")]), ErrorClass::Invalid),
        (orders(&[("nats-ttl", "1s")]), ErrorClass::Invalid),
        (orders(&[("Nats-Msg-Id", "secret")]), ErrorClass::Invalid),
        (bad_content_type, ErrorClass::Invalid),
        (orders(&[("a", &"v".repeat(LIMIT))]), ErrorClass::TooLarge),
    ] {
        let refusal = seal(&bad, LIMIT).unwrap_err();
        let cause = &refusal.cause;
        assert!(refusal.permanent, "{cause}");
        assert_eq!((cause.scope, cause.class), (Scope::Event, class), "{cause}");
        assert!(!cause.text.contains(['\r', '\n', '\0']) && !cause.text.contains("secret"), "{cause}");
    }
}

#[test]
fn headers_count_against_the_limit() {
    let empty = Message { payload: Vec::new().into(), ..orders(&[("name", "value")]) };
    let head = "NATS/1.0\r\nname: value\r\nContent-Type: application/json\r\n".len()
        + "Nats-Msg-Id: 00000000-0000-0000-0000-000000000000\r\n\r\n".len();
    let of = |payload: usize| Message { payload: vec![b'x'; payload].into(), ..empty.clone() };
    assert_eq!(seal(&empty, LIMIT).unwrap().0.size, head);
    assert_eq!(seal(&of(LIMIT - head), LIMIT).unwrap().0.size, LIMIT);
    let text = seal(&of(LIMIT - head + 1), LIMIT).unwrap_err().cause.text;
    assert!(text.contains("1025 bytes") && text.contains("1024 bytes"), "{text}");
}
