//! Events as they are stored, and the messages they become.

use std::collections::BTreeMap;

use bytes::Bytes;
use outrider_broker::Scope;
use time::macros::datetime;
use uuid::Uuid;

use super::*;
use crate::outbox::event::Body;

const ID: Uuid = Uuid::from_u128(0x0198_a9b2_5d4e_7c31_8f00_1234_5678_9abc);
const ID_TEXT: &str = "0198a9b2-5d4e-7c31-8f00-123456789abc";

fn event(headers: Option<&str>) -> Event {
    Event {
        seq: 42,
        topic: "orders".into(),
        key: Some("order-7".into()),
        attempts: 0,
        refusals: 0,
        body: Some(Body {
            id: ID,
            kind: "orders.order-created.v1".into(),
            content_type: "application/json".into(),
            headers: headers.map(str::to_owned),
            occurred_at: datetime!(2026-03-01 12:30:00.25 +2),
            payload: Bytes::from_static(b"{\"b\":12345678901234567890123,\"c\":1.10,\"d\":1e400}"),
        }),
    }
}

fn body(event: &mut Event) -> &mut Body {
    event.body.as_mut().expect("the test's events have one")
}

fn message(event: &Event, shape: Shape) -> Message {
    compose("acme", event, shape, Destination::default()).expect("a good event")
}

fn pairs(message: &Message) -> Vec<(&str, &str)> {
    message.headers.iter().map(|(name, value)| (name.as_ref(), value.as_str())).collect()
}

/// The application's headers as they leave, in the plain shape.
fn leaving(headers: &str) -> Result<Vec<(String, String)>, Refusal> {
    let message = compose("acme", &event(Some(headers)), Shape::Plain, Destination::default())?;
    Ok(message.headers.into_iter().skip(2).map(|(name, value)| (name.to_string(), value)).collect())
}

#[test]
fn every_shape_carries_the_id_and_the_sequence() {
    let event = event(None);
    let cloud_events = [
        ("ce_specversion", "1.0"),
        ("ce_id", ID_TEXT),
        ("ce_source", "/outrider/acme"),
        ("ce_type", "orders.order-created.v1"),
        ("ce_time", "2026-03-01T10:30:00.25Z"),
        ("ce_sequence", "42"),
        ("ce_subject", "order-7"),
    ];
    assert_eq!(pairs(&message(&event, Shape::CloudEvents)), cloud_events);
    assert_eq!(pairs(&message(&event, Shape::Debezium)), [("id", ID_TEXT), ("outrider-sequence", "42")]);
    assert_eq!(
        pairs(&message(&event, Shape::Plain)),
        [("outrider-id", ID_TEXT), ("outrider-sequence", "42")]
    );
    assert_eq!(Shape::default(), Shape::CloudEvents);
}

#[test]
fn the_rest_of_the_event_goes_as_it_is() {
    let mut event = event(None);
    let destination: Destination = Arc::new(BTreeMap::from([("topic".into(), "acme.orders".into())]));
    for shape in [Shape::CloudEvents, Shape::Debezium, Shape::Plain] {
        let message = compose("acme", &event, shape, destination.clone()).unwrap();
        assert_eq!((message.id, message.seq), (ID, 42));
        assert!(Arc::ptr_eq(&message.destination, &destination));
        assert_eq!(message.key.as_deref(), Some("order-7"));
        assert_eq!(message.kind.as_ref(), "orders.order-created.v1");
        assert_eq!(message.content_type.as_ref(), "application/json");
        assert_eq!(message.occurred_at, SystemTime::from(datetime!(2026-03-01 10:30:00.25 UTC)));
        assert_eq!(message.payload, event.body.as_ref().unwrap().payload);
        assert!(!message.redelivery);
    }
    event.attempts = 1;
    assert!(message(&event, Shape::Plain).redelivery);
}

#[test]
fn what_cloud_events_cannot_say_is_left_out() {
    for key in [None, Some(""), Some("a\u{0}b"), Some("a\nb"), Some("a\u{85}b")] {
        let mut event = event(None);
        event.key = key.map(Into::into);
        let message = message(&event, Shape::CloudEvents);
        assert!(!pairs(&message).iter().any(|(name, _)| *name == "ce_subject"), "{key:?}");
        assert_eq!(message.key.as_deref(), key, "the key itself still goes");
    }
    for occurred_at in [
        datetime!(-1-12-31 0:00 UTC),
        OffsetDateTime::new_in_offset(
            time::Date::MIN,
            time::Time::MIDNIGHT,
            UtcOffset::from_hms(5, 0, 0).unwrap(),
        ),
    ] {
        let mut event = event(None);
        body(&mut event).occurred_at = occurred_at;
        assert!(!pairs(&message(&event, Shape::CloudEvents)).iter().any(|(name, _)| *name == "ce_time"));
    }
}

#[test]
fn an_empty_type_is_the_topic() {
    let mut event = event(None);
    body(&mut event).kind = "".into();
    let message = message(&event, Shape::CloudEvents);
    assert_eq!(message.kind.as_ref(), "orders");
    assert!(pairs(&message).contains(&("ce_type", "orders")));
}

#[test]
fn the_source_is_a_uri_reference() {
    for (tenant, expected) in [
        ("acme-eu_1", "/outrider/acme-eu_1"),
        ("a b/c?d#e%", "/outrider/a%20b%2Fc%3Fd%23e%25"),
        ("\u{e9}", "/outrider/%C3%A9"),
        ("", "/outrider/"),
    ] {
        assert_eq!(source(tenant), expected);
    }
}

// C75: numbers leave as they are written.
#[test]
fn headers_leave_as_text() {
    let table = [
        (
            r#"{"a":9007199254740993,"b":12345678901234567890123}"#,
            vec![("a", "9007199254740993"), ("b", "12345678901234567890123")],
        ),
        (r#"{"c": 1.10 , "d": 1e400, "e": -0.0}"#, vec![("c", "1.10"), ("d", "1e400"), ("e", "-0.0")]),
        (r#"{"yes":true,"no":false,"none":null}"#, vec![("yes", "true"), ("no", "false")]),
        (
            r#"{"f":"é","g":"\u00e9\ud83d\ude00","h":"","i":"a \"b\" \\ c"}"#,
            vec![("f", "é"), ("g", "é😀"), ("h", ""), ("i", r#"a "b" \ c"#)],
        ),
        (
            r#"{"t\u0072aceparent":"00-1-2-01","tracestate":"a=1"}"#,
            vec![("traceparent", "00-1-2-01"), ("tracestate", "a=1")],
        ),
        (r#"{"twice":1,"twice":2}"#, vec![("twice", "1"), ("twice", "2")]),
        ("{}", vec![]),
        ("null", vec![]),
        (" { } ", vec![]),
    ];
    for (headers, expected) in table {
        let leaving = leaving(headers).unwrap_or_else(|refusal| panic!("{headers}: {refusal:?}"));
        let leaving: Vec<_> = leaving.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(leaving, expected, "{headers}");
    }
}

#[test]
fn names_that_outrider_owns_are_overruled() {
    let headers = r#"{"ce_id":"x","CE_Id":"x","ce_sequence":1,"ce_subject":"x","id":"i","outrider-id":"o",
                      "Outrider-Sequence":"s","ce_partitionkey":"p","traceparent":"t"}"#;
    let mut event = event(Some(headers));
    event.key = None;
    let table = [
        (
            Shape::CloudEvents,
            vec![
                ("id", "i"),
                ("outrider-id", "o"),
                ("Outrider-Sequence", "s"),
                ("ce_partitionkey", "p"),
                ("traceparent", "t"),
            ],
        ),
        (
            Shape::Debezium,
            vec![
                ("ce_id", "x"),
                ("CE_Id", "x"),
                ("ce_sequence", "1"),
                ("ce_subject", "x"),
                ("outrider-id", "o"),
                ("ce_partitionkey", "p"),
                ("traceparent", "t"),
            ],
        ),
        (
            Shape::Plain,
            vec![
                ("ce_id", "x"),
                ("CE_Id", "x"),
                ("ce_sequence", "1"),
                ("ce_subject", "x"),
                ("id", "i"),
                ("ce_partitionkey", "p"),
                ("traceparent", "t"),
            ],
        ),
    ];
    for (shape, passed) in table {
        let message = message(&event, shape);
        let pairs = pairs(&message);
        let own = if shape == Shape::CloudEvents { 6 } else { 2 };
        assert_eq!(pairs[own..], passed, "{shape:?}");
        assert!(pairs[..own].iter().any(|(_, value)| *value == ID_TEXT));
    }
}

// C74: what no header can carry makes the event dead, with a reason that can be stored and holds no value.
#[test]
fn impossible_headers_are_refused_for_good() {
    let not_an_object = "`headers` is not a JSON object; write an object of strings, numbers and booleans";
    let table = [
        (r#"["secret"]"#, not_an_object),
        (r#""secret""#, not_an_object),
        ("12", not_an_object),
        ("true", not_an_object),
        ("", not_an_object),
        (r#"{"a":"secret""#, not_an_object),
        (r#"{"a":"secret"} {}"#, not_an_object),
        (r#"{"\ud800":"secret"}"#, not_an_object),
        (r#"{"a":["secret"]}"#, "header `a` is not a string, number or boolean"),
        (r#"{"ok":1,"a":{"b":"secret"}}"#, "header `a` is not a string, number or boolean"),
        (r#"{"":"secret"}"#, "a header has an empty name"),
        (r#"{"":null}"#, "a header has an empty name"),
        (r#"{"a\u0000b":"secret"}"#, r"the name of header `a\0b` holds a control character"),
        (r#"{"a\r\nb":"secret"}"#, r"the name of header `a\r\nb` holds a control character"),
        (r#"{"a":"secret\u0000"}"#, "header `a` holds a control character"),
        (r#"{"a":"secret\r\nb: c"}"#, "header `a` holds a control character"),
        (r#"{"a":"secret\u007f"}"#, "header `a` holds a control character"),
        (r#"{"a":"secret\ud800"}"#, "header `a` is not valid Unicode"),
        (r#"{"ce_id":["secret"]}"#, "header `ce_id` is not a string, number or boolean"),
    ];
    for (headers, reason) in table {
        let refusal = leaving(headers).expect_err(headers);
        assert_eq!(refusal.cause.text, reason, "{headers}");
        assert!(refusal.permanent);
        assert_eq!((refusal.cause.scope, refusal.cause.class), (Scope::Event, ErrorClass::Invalid));
    }
}

#[test]
fn a_reason_stays_short() {
    let refusal = leaving(&format!(r#"{{"{}":[]}}"#, "é".repeat(1_000_000))).expect_err("an array");
    assert_eq!(
        refusal.cause.text,
        format!("header `{}…` is not a string, number or boolean", "é".repeat(80))
    );
}

#[test]
fn an_event_without_its_row_or_with_an_impossible_type_is_refused_for_good() {
    let mut gone = event(None);
    gone.body = None;
    for shape in [Shape::CloudEvents, Shape::Debezium, Shape::Plain] {
        let refusal = compose("acme", &gone, shape, Destination::default()).expect_err("nothing to send");
        assert!(refusal.permanent);
        assert_eq!(refusal.cause.text, "the payload row is gone; discard the event");
    }
    let mut odd = event(None);
    body(&mut odd).kind = "orders\n".into();
    let refusal =
        compose("acme", &odd, Shape::CloudEvents, Destination::default()).expect_err("a line break");
    assert!(refusal.permanent && refusal.cause.class == ErrorClass::Invalid);
    assert!(compose("acme", &odd, Shape::Plain, Destination::default()).is_ok(), "no header is made of it");
}

#[test]
fn names_that_most_messages_have_are_shared() {
    let event = event(Some(r#"{"traceparent":"t"}"#));
    let (first, second) = (message(&event, Shape::CloudEvents), message(&event, Shape::CloudEvents));
    for ((a, _), (b, _)) in first.headers.iter().zip(&second.headers) {
        assert!(Arc::ptr_eq(a, b), "{a}");
    }
}
