//! What fits, to the byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lapin::protocol::basic::gen_properties;

use super::*;

const LIMITS: Limits = Limits { payload: None, frame: 131_072 };

fn message() -> Message {
    Message {
        id: Uuid::now_v7(),
        seq: 1,
        destination: Arc::new(BTreeMap::from([
            ("exchange".to_owned(), "orders".to_owned()),
            ("routing_key".to_owned(), "eu".to_owned()),
        ])),
        key: Some("key".into()),
        kind: "orders.order-created.v1".into(),
        content_type: "application/json".into(),
        occurred_at: UNIX_EPOCH + Duration::from_millis(1_700_000_000_999),
        headers: vec![("ce_id".into(), "1".to_owned()), ("x-note".into(), "Grüße".to_owned())],
        payload: Bytes::from_static(b"{}"),
        redelivery: false,
    }
}

fn refusal(message: &Message, limits: Limits) -> (ErrorClass, String) {
    match Envelope::new(message, true, limits) {
        Err(Outcome::Refused(Refusal { cause, permanent: true })) => (cause.class, cause.text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn properties() {
    let message = message();
    let envelope = Envelope::new(&message, true, LIMITS).unwrap();
    let properties = &envelope.properties;
    assert_eq!(properties.message_id().as_ref().unwrap().as_str(), message.id.to_string());
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), "orders.order-created.v1");
    assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/json");
    assert_eq!(properties.app_id().as_ref().unwrap().as_str(), "outrider");
    assert_eq!(*properties.timestamp(), Some(1_700_000_000));
    assert_eq!(*properties.delivery_mode(), Some(2));
    let headers = properties.headers().as_ref().unwrap().inner();
    assert_eq!(headers["x-note"], AMQPValue::LongString("Grüße".into()));
    assert_eq!(envelope.payload.as_ptr(), message.payload.as_ptr(), "the payload is not copied");

    let early = Message { occurred_at: UNIX_EPOCH - Duration::from_secs(1), ..message };
    let properties = Envelope::new(&early, false, LIMITS).unwrap().properties;
    assert_eq!((*properties.timestamp(), *properties.delivery_mode()), (None, None));
}

/// C44: 255 bytes fit, 256 do not, and bytes are what counts.
#[test]
fn short_strings() {
    type Put = fn(&mut Message, &str);
    fn to(message: &mut Message, part: &str, value: &str) {
        Arc::make_mut(&mut message.destination).insert(part.to_owned(), value.to_owned());
    }
    let places: [Put; 5] = [
        |message, value| to(message, "exchange", value),
        |message, value| to(message, "routing_key", value),
        |message, value| message.kind = value.into(),
        |message, value| message.content_type = value.into(),
        |message, value| message.headers.push((value.into(), "secret".to_owned())),
    ];
    for (index, put) in places.iter().enumerate() {
        for (value, fits) in [("a".repeat(255), true), ("a".repeat(256), false), ("世".repeat(86), false)] {
            let mut message = message();
            put(&mut message, &value);
            if fits {
                Envelope::new(&message, true, LIMITS).expect("255 bytes fit");
                continue;
            }
            let (class, text) = refusal(&message, LIMITS);
            assert_eq!(class, ErrorClass::Invalid);
            assert!(text.contains(&value.len().to_string()) && text.contains("255"), "place {index}: {text}");
            assert!(!text.contains("secret"), "{text}");
        }
    }
}

/// C42: refused before the wire, with both numbers.
#[test]
fn payload_limit() {
    let limits = |payload| Limits { payload: Some(payload), ..LIMITS };
    let message = Message { payload: vec![0; 100].into(), ..message() };
    Envelope::new(&message, true, limits(100)).expect("100 bytes fit");
    let (class, text) = refusal(&message, limits(99));
    assert_eq!(class, ErrorClass::TooLarge);
    assert!(text.contains("100") && text.contains("99"), "{text}");
}

#[test]
fn routing_headers() {
    for name in ["CC", "BCC"] {
        let mut message = message();
        message.headers.push((name.into(), "secret".to_owned()));
        let (class, text) = refusal(&message, LIMITS);
        assert!(class == ErrorClass::Invalid && text.contains(name) && !text.contains("secret"), "{text}");
    }
    let mut message = message();
    message.headers.push(("cc".into(), "fine".to_owned()));
    Envelope::new(&message, true, LIMITS).expect("the broker minds the case");
}

/// The size that is held against the frame is the encoded one.
#[test]
fn frame_limit() {
    let message = message();
    let envelope = Envelope::new(&message, true, LIMITS).unwrap();
    let encoded = gen_properties(&envelope.properties)(Vec::<u8>::new().into()).expect("writing to memory");
    let (buffer, _) = encoded.into_inner();
    // Class, weight and body size come before the properties.
    let exact = 2 + 2 + 8 + buffer.len();
    let limits = |frame| Limits { frame, ..LIMITS };
    Envelope::new(&message, true, limits(exact + FRAME_RESERVE_BYTES)).expect("fits to the byte");
    let (class, text) = refusal(&message, limits(exact + FRAME_RESERVE_BYTES - 1));
    assert!(class == ErrorClass::TooLarge && text.contains(&exact.to_string()), "{text}");
}

#[test]
fn an_incomplete_destination_is_the_default_exchange() {
    let message = Message { destination: Arc::default(), ..message() };
    let envelope = Envelope::new(&message, true, LIMITS).unwrap();
    assert_eq!((envelope.exchange.as_str(), envelope.routing_key.as_str()), ("", ""));
}
