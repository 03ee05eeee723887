//! What is refused before the client sees it, and that sizes are counted as librdkafka counts them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord};
use uuid::Uuid;

use super::*;

fn message(topic: &str, key: Option<&str>, payload: usize, headers: &[(&str, usize)]) -> Message {
    Message {
        id: Uuid::nil(),
        seq: 1,
        destination: Arc::new(BTreeMap::from([("topic".to_owned(), topic.to_owned())])),
        key: key.map(Arc::from),
        kind: Arc::from("k"),
        content_type: Arc::from("text/plain"),
        occurred_at: SystemTime::now(),
        headers: headers.iter().map(|(name, length)| (Arc::from(*name), "v".repeat(*length))).collect(),
        payload: Bytes::from(vec![b'x'; payload]),
        redelivery: false,
    }
}

#[test]
fn impossible_topics_are_refused_for_good() {
    let long = "t".repeat(250);
    for topic in ["", ".", "..", "a/b", "a\nb", "ключ", long.as_str()] {
        let refusal = check(&message(topic, None, 1, &[]), 1000).unwrap_err();
        assert!(refusal.permanent);
        assert_eq!(refusal.cause.class, ErrorClass::Invalid);
        assert!(!refusal.cause.text.contains('\n'));
    }
    let mut without = message("t", None, 1, &[]);
    without.destination = Arc::default();
    assert!(check(&without, 1000).is_err());
}

/// C32: with headers, key and framing; exactly at the limit passes, one byte more does not, here as in the client.
#[test]
fn the_size_limit_is_the_clients_own() {
    const LIMIT: usize = 5000;
    let client: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", "127.0.0.1:1")
        .set("message.max.bytes", LIMIT.to_string())
        .create()
        .unwrap();
    let taken = |message: &Message| {
        let mut headers = OwnedHeaders::new();
        for (name, value) in &message.headers {
            headers = headers.insert(Header { key: name, value: Some(value.as_str()) });
        }
        let mut record: BaseRecord<'_, str, [u8]> =
            BaseRecord::to("t").payload(&message.payload[..]).headers(headers);
        if let Some(key) = &message.key {
            record = record.key(&**key);
        }
        match client.send(record) {
            Ok(()) => true,
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge), _)) => false,
            Err((error, _)) => panic!("{error}"),
        }
    };
    for (key, headers) in [
        (None, &[][..]),
        (Some("key"), &[][..]),
        (Some(""), &[("h", 63), ("h", 64), ("", 0)][..]),
        (Some("k"), &[("trace", 55), ("long", 3000)][..]),
    ] {
        let other = size(&message("t", key, 0, headers));
        let at_limit = message("t", key, LIMIT - other, headers);
        assert_eq!(size(&at_limit), LIMIT);
        assert!(check(&at_limit, LIMIT).is_ok() && taken(&at_limit));
        let over = message("t", key, LIMIT - other + 1, headers);
        assert!(!taken(&over));
        let refusal = check(&over, LIMIT).unwrap_err();
        assert!(refusal.permanent && refusal.cause.class == ErrorClass::TooLarge);
        for number in [LIMIT, LIMIT + 1] {
            assert!(refusal.cause.text.contains(&number.to_string()), "{}", refusal.cause.text);
        }
    }
}

#[test]
fn times_before_1970_become_the_first_that_kafka_has() {
    let mut message = message("t", None, 1, &[]);
    for (occurred_at, expected) in [
        (UNIX_EPOCH + Duration::from_millis(1_700_000_000_123), 1_700_000_000_123),
        (UNIX_EPOCH, 1),
        (UNIX_EPOCH - Duration::from_secs(5), 1),
    ] {
        message.occurred_at = occurred_at;
        assert_eq!(timestamp(&message), expected);
    }
}
