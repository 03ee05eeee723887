//! Kafka topics. Partitions are assigned by hand: no group, so no rebalance and no committed offset in the way.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use outrider_broker::async_trait;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{Consumer as _, StreamConsumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::metadata::MetadataTopic;
use rdkafka::{Offset, TopicPartitionList};

use super::{Consume, Delivered};

const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

fn admin(bootstrap: &str) -> Result<(AdminClient<DefaultClientContext>, AdminOptions)> {
    let admin = client(bootstrap).create().context("failed to make a Kafka admin client")?;
    let options =
        AdminOptions::new().operation_timeout(Some(ADMIN_TIMEOUT)).request_timeout(Some(ADMIN_TIMEOUT));
    Ok((admin, options))
}

/// Makes topics with one replica each. One that is there already is an error. Returns when the broker answers
/// for each of them.
pub async fn create_topics(bootstrap: &str, topics: &[&str], partitions: i32) -> Result<()> {
    let (admin, options) = admin(bootstrap)?;
    let new = topics.iter().map(|topic| NewTopic::new(topic, partitions, TopicReplication::Fixed(1)));
    let new: Vec<NewTopic<'_>> = new.collect();
    for created in admin.create_topics(&new, &options).await.context("failed to ask Kafka for topics")? {
        created.map_err(|(topic, code)| anyhow::anyhow!("Kafka did not make the topic `{topic}`: {code}"))?;
    }
    // The controller has them then; the broker, asked for one, hears of it a moment later.
    let until = Instant::now() + ADMIN_TIMEOUT;
    for topic in topics {
        while !is_known(&admin, topic)? {
            ensure!(Instant::now() < until, "Kafka made the topic `{topic}`, but does not know it");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

fn is_known(admin: &AdminClient<DefaultClientContext>, topic: &str) -> Result<bool> {
    let metadata = admin.inner().fetch_metadata(Some(topic), ADMIN_TIMEOUT);
    let metadata = metadata.with_context(|| format!("failed to ask Kafka for the topic `{topic}`"))?;
    let leads = |topic: &MetadataTopic| {
        topic.error().is_none() && topic.partitions().iter().all(|partition| partition.leader() >= 0)
    };
    Ok(metadata.topics().first().is_some_and(leads))
}

/// Deletes topics; one that is not there is an error.
pub async fn delete_topics(bootstrap: &str, topics: &[&str]) -> Result<()> {
    let (admin, options) = admin(bootstrap)?;
    for deleted in admin.delete_topics(topics, &options).await.context("failed to ask Kafka to delete")? {
        deleted
            .map_err(|(topic, code)| anyhow::anyhow!("Kafka did not delete the topic `{topic}`: {code}"))?;
    }
    Ok(())
}

/// Reads all partitions of some topics.
pub struct Consumer {
    consumer: StreamConsumer,
}

impl Consumer {
    /// From the first message of each topic on. The topics have to be there.
    pub async fn open(bootstrap: &str, topics: &[&str]) -> Result<Consumer> {
        let consumer: StreamConsumer = client(bootstrap)
            .set("group.id", "outrider-test") // asked for by the client; nothing is committed
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "error")
            .set("fetch.wait.max.ms", "50")
            .create()
            .context("failed to make a Kafka consumer")?;
        let topics: Vec<String> = topics.iter().map(|&topic| topic.to_owned()).collect();
        // Fetching metadata blocks.
        let consumer = tokio::task::spawn_blocking(move || assign(consumer, &topics)).await??;
        Ok(Consumer { consumer })
    }
}

fn assign(consumer: StreamConsumer, topics: &[String]) -> Result<StreamConsumer> {
    let mut all = TopicPartitionList::new();
    for topic in topics {
        let metadata = consumer.fetch_metadata(Some(topic), ADMIN_TIMEOUT);
        let metadata = metadata.with_context(|| format!("failed to look up the topic `{topic}`"))?;
        let partitions = metadata.topics().first().map_or(&[][..], |found| found.partitions());
        ensure!(!partitions.is_empty(), "Kafka has no topic `{topic}`");
        for partition in partitions {
            all.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
        }
    }
    consumer.assign(&all).context("failed to assign partitions")?;
    Ok(consumer)
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}

#[async_trait]
impl Consume for Consumer {
    async fn next(&mut self, deadline: Instant) -> Result<Option<Delivered>> {
        match tokio::time::timeout_at(deadline.into(), self.consumer.recv()).await {
            Ok(received) => Ok(Some(delivered(&received.context("failed to read from Kafka")?)?)),
            Err(_) => Ok(None),
        }
    }

    async fn done(&mut self) -> Result<()> {
        Ok(())
    }
}

fn delivered(message: &BorrowedMessage<'_>) -> Result<Delivered> {
    let place = message.topic();
    let mut headers = Vec::new();
    for header in message.headers().iter().flat_map(|headers| headers.iter()) {
        let value = header.value.with_context(|| format!("header `{}` at `{place}` is null", header.key))?;
        headers.push((header.key.to_owned(), String::from_utf8(value.to_vec())?));
    }
    let payload = message.payload().with_context(|| format!("a message at `{place}` has a null value"))?;
    Ok(Delivered {
        place: place.to_owned(),
        key: message.key().map(|key| String::from_utf8(key.to_vec())).transpose()?,
        native_id: None,
        position: Some(format!("{}/{}", message.partition(), message.offset())),
        headers,
        payload: Bytes::copy_from_slice(payload),
    })
}
