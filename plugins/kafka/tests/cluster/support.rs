//! What the tests share: topics, a consumer, messages, connections.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use outrider_broker::{ConnectOptions, Connection, Message, Outcome, Params, Plugin};
use outrider_kafka::Kafka;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use uuid::Uuid;

/// Longest wait for something that should happen soon, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The server that the tests share.
pub(crate) fn bootstrap() -> String {
    outrider_servers::address::kafka()
}

pub(crate) fn unique(name: &str) -> String {
    format!("{name}-{}", Uuid::now_v7())
}

fn admin(bootstrap: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", bootstrap).create().unwrap()
}

/// Creates a topic on the shared server and waits until it can be used.
pub(crate) async fn create_topic(topic: &str, partitions: i32, settings: &[(&str, &str)]) {
    let mut new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    for (name, value) in settings {
        new = new.set(name, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let admin = admin(&bootstrap());
    let created = admin.create_topics([&new], &options).await.unwrap();
    assert!(created.iter().all(Result::is_ok), "{created:?}");
    // The controller has it then; the broker, asked for it, hears of it a moment later.
    let until = Instant::now() + PATIENCE;
    let known = || {
        let metadata = admin.inner().fetch_metadata(Some(topic), PATIENCE).unwrap();
        let topic = &metadata.topics()[0];
        topic.error().is_none() && topic.partitions().iter().all(|partition| partition.leader() >= 0)
    };
    while !known() {
        assert!(Instant::now() < until, "the broker does not know `{topic}`");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn delete_topic(topic: &str) {
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    admin(&bootstrap()).delete_topics(&[topic], &options).await.unwrap();
}

/// A record as it is on the server.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) partition: i32,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) timestamp: Option<i64>,
}

impl Record {
    pub(crate) fn seq(&self) -> i64 {
        let (_, value) = self.headers.iter().find(|(name, _)| name == "ce_sequence").unwrap();
        std::str::from_utf8(value).unwrap().parse().unwrap()
    }
}

/// Reads a topic from its beginning: at least `count` records, or all there are when the deadline has passed.
pub(crate) async fn read(bootstrap: &str, topic: &str, count: usize, deadline: Instant) -> Vec<Record> {
    let (bootstrap, topic) = (bootstrap.to_owned(), topic.to_owned());
    tokio::task::spawn_blocking(move || read_blocking(&bootstrap, &topic, count, deadline)).await.unwrap()
}

fn read_blocking(bootstrap: &str, topic: &str, count: usize, deadline: Instant) -> Vec<Record> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", unique("test"))
        .set("enable.partition.eof", "true")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap();
    let partitions = metadata.topics()[0].partitions().len();
    let mut assigned = TopicPartitionList::new();
    for partition in 0..partitions {
        let partition = i32::try_from(partition).unwrap();
        assigned.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assigned).unwrap();
    let mut records = Vec::new();
    let mut ends = std::collections::BTreeSet::new();
    // The ends of all partitions, so that a record too many is seen as well.
    while (ends.len() < partitions || records.len() < count) && Instant::now() < deadline {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) => records.push(Record {
                partition: record.partition(),
                key: record.key().map(<[u8]>::to_vec),
                payload: record.payload().expect("a null value instead of a payload").to_vec(),
                headers: record
                    .headers()
                    .map(|headers| {
                        headers
                            .iter()
                            .map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec()))
                            .collect()
                    })
                    .unwrap_or_default(),
                timestamp: record.timestamp().to_millis(),
            }),
            Some(Err(rdkafka::error::KafkaError::PartitionEOF(partition))) => drop(ends.insert(partition)),
            Some(Err(error)) => println!("reading back: {error}"),
            None => {}
        }
    }
    records
}

pub(crate) fn message(topic: &str, seq: i64, key: Option<&str>, payload: impl Into<Bytes>) -> Message {
    Message {
        id: Uuid::now_v7(),
        seq,
        destination: Arc::new(BTreeMap::from([("topic".to_owned(), topic.to_owned())])),
        key: key.map(Arc::from),
        kind: Arc::from("test.thing-happened.v1"),
        content_type: Arc::from("text/plain"),
        occurred_at: SystemTime::now(),
        headers: vec![(Arc::from("ce_sequence"), seq.to_string())],
        payload: payload.into(),
        redelivery: false,
    }
}

/// Messages with a key of their own each.
pub(crate) fn messages(topic: &str, count: i64, size: usize) -> Vec<Message> {
    (0..count).map(|seq| message(topic, seq, Some(&format!("key-{seq}")), vec![b'x'; size])).collect()
}

pub(crate) fn params(bootstrap: &str, extra: &[(&str, Value)]) -> Params {
    let mut params = Params::new();
    params.insert("bootstrap.servers".to_owned(), json!(bootstrap));
    params.extend(extra.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    params
}

pub(crate) fn options(publish_deadline: Duration) -> ConnectOptions {
    ConnectOptions { client_name: "outrider/test".to_owned(), timeout: PATIENCE, publish_deadline }
}

pub(crate) async fn connect(
    bootstrap: &str,
    extra: &[(&str, Value)],
    publish_deadline: Duration,
) -> Arc<dyn Connection> {
    let broker = Kafka.parse(&params(bootstrap, extra)).unwrap();
    broker.connect(options(publish_deadline)).await.unwrap()
}

/// Publishes and checks that it returns in time.
pub(crate) async fn publish(
    connection: &dyn Connection,
    batch: Vec<Message>,
    time: Duration,
) -> Vec<Outcome> {
    let count = batch.len();
    let deadline = Instant::now() + time;
    let outcomes = connection.publish(batch, deadline).await;
    let late = Instant::now().saturating_duration_since(deadline);
    assert!(late < Duration::from_millis(500), "{late:?} after the deadline");
    assert_eq!(outcomes.len(), count);
    outcomes
}

/// How many outcomes there are of each name.
pub(crate) fn tally(outcomes: &[Outcome]) -> BTreeMap<&'static str, usize> {
    let mut tally = BTreeMap::new();
    for outcome in outcomes {
        *tally.entry(outcome.name()).or_default() += 1;
    }
    tally
}

#[track_caller]
pub(crate) fn assert_all(outcomes: &[Outcome], name: &str) {
    let other = outcomes.iter().find(|outcome| outcome.name() != name);
    assert!(other.is_none(), "{:?} instead of {name} alone: {other:?}", tally(outcomes));
}

/// Publishes until everything is confirmed, as outrider does.
pub(crate) async fn publish_until_confirmed(connection: &dyn Connection, mut batch: Vec<Message>) {
    let until = Instant::now() + PATIENCE;
    while !batch.is_empty() {
        let outcomes = publish(connection, batch.clone(), Duration::from_secs(8)).await;
        let mut outcomes = outcomes.iter();
        batch.retain(|_| !matches!(outcomes.next(), Some(Outcome::Confirmed(_))));
        let left = batch.len();
        assert!(batch.is_empty() || Instant::now() < until, "{left} messages did not get through");
        tokio::task::yield_now().await;
    }
}
