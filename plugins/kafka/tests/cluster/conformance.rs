//! The conformance suite against the real server.

use std::net::SocketAddr;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use outrider_broker::{Message, Params, Plugin};
use outrider_broker_testkit::{Features, Harness, MARKER, Received, To, exercise};
use outrider_kafka::Kafka;
use serde_json::json;

use crate::support::{bootstrap, create_topic, params, read, unique};

struct RealKafka;

fn topic_of(to: &To) -> &str {
    &to["topic"]
}

#[async_trait]
impl Harness for RealKafka {
    fn plugin(&self) -> &dyn Plugin {
        &Kafka
    }

    fn features(&self) -> Features {
        Features { id: false, kind: false, content_type: false, removes_duplicates: false, ..Features::ALL }
    }

    fn params(&self) -> Params {
        params(&bootstrap(), &[("compression.type", json!("lz4"))])
    }

    fn new_destination(&self) -> To {
        To::from([("topic".to_owned(), unique("conformance"))])
    }

    async fn create(&self, to: &To) {
        create_topic(topic_of(to), 4, &[]).await;
    }

    async fn read(&self, to: &To, count: usize, deadline: Instant) -> Vec<Received> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let records = read(&bootstrap(), topic_of(to), count, deadline).await;
        records
            .into_iter()
            .map(|record| Received {
                key: record.key.map(text),
                headers: record.headers.into_iter().map(|(name, value)| (name, text(value))).collect(),
                payload: Bytes::from(record.payload),
                ..Received::default()
            })
            .collect()
    }

    fn params_at(&self, address: SocketAddr) -> Option<Params> {
        Some(params(
            &address.to_string(),
            &[
                ("security.protocol", json!("sasl_plaintext")),
                ("sasl.mechanism", json!("PLAIN")),
                ("sasl.username", json!("outrider")),
                ("sasl.password", json!(MARKER)),
            ],
        ))
    }

    fn size_limit(&self) -> Option<usize> {
        Some(1_000_000)
    }

    fn invalid(&self) -> Vec<(&'static str, fn(&mut Message))> {
        fn topic(message: &mut Message, name: &str) {
            message.destination = To::from([("topic".to_owned(), name.to_owned())]).into();
        }
        vec![
            ("a topic with a slash", |message| topic(message, "a/b")),
            ("a topic of 250 characters", |message| topic(message, &"t".repeat(250))),
            ("an empty topic", |message| topic(message, "")),
            ("a topic with a NUL", |message| topic(message, "a\0b")),
            ("the topic `..`", |message| topic(message, "..")),
        ]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_plugin_keeps_the_contract() {
    exercise(&RealKafka).await;
}
