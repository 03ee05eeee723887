//! A scene's topic, queue and stream: made, read from the outside, and removed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outrider_test_support::consume::{Consume, kafka, nats, rabbitmq};
use uuid::Uuid;

use crate::ground::{Ground, Kind};

/// What is confirmed is in the broker, so it comes to a reader within this.
const ALL_WITHIN: Duration = Duration::from_secs(30);

/// A reader that has it all waits for so long for further copies.
const QUIET: Duration = Duration::from_millis(1500);

const ACKNOWLEDGE: usize = 100;

const DUPLICATE_WINDOW: Duration = Duration::from_secs(3600);

const PARTITIONS: i32 = 3;

/// Names of a scene's destinations.
#[derive(Clone, Debug)]
pub(crate) struct Destinations {
    /// Exchange, queue, stream, and the first word of its subjects.
    pub(crate) run: String,
}

impl Destinations {
    pub(crate) fn kafka_topic(&self) -> String {
        format!("{}-orders", self.run)
    }

    /// A topic with one partition, in the one fault that makes Kafka lose what it had confirmed.
    pub(crate) fn ledger_topic(&self) -> String {
        format!("{}-ledger", self.run)
    }

    pub(crate) async fn make(&self, ground: &Ground) -> Result<()> {
        kafka::create_topics(&ground.address(Kind::Kafka), &[&self.kafka_topic()], PARTITIONS).await?;
        rabbitmq::declare(&ground.address(Kind::Rabbitmq), &self.run, &self.run, "#").await?;
        let subjects = format!("{}.>", self.run);
        nats::create_stream(&ground.address(Kind::Nats), &self.run, &[&subjects], DUPLICATE_WINDOW).await
    }

    pub(crate) async fn remove(&self, ground: &Ground) {
        let _ = kafka::delete_topics(&ground.address(Kind::Kafka), &[&self.kafka_topic()]).await;
        let _ = rabbitmq::delete(&ground.address(Kind::Rabbitmq), &self.run, &self.run).await;
        let _ = nats::delete_stream(&ground.address(Kind::Nats), &self.run).await;
    }

    /// Reads from a broker until everything wanted has come, and then until nothing comes any more.
    pub(crate) async fn read(&self, ground: &Ground, from: Kind, wanted: HashSet<Uuid>) -> Result<Vec<Uuid>> {
        let address = ground.address(from);
        let ids = match from {
            Kind::Kafka => {
                let consumer = kafka::Consumer::open(&address, &[&self.kafka_topic()]).await;
                drain(&mut consumer?, wanted).await
            }
            Kind::Rabbitmq => drain(&mut rabbitmq::Consumer::open(&address, &self.run).await?, wanted).await,
            _ => drain(&mut nats::Consumer::open(&address, &self.run).await?, wanted).await,
        };
        ids.with_context(|| format!("read from {}", from.name()))
    }
}

async fn drain(consumer: &mut dyn Consume, mut wanted: HashSet<Uuid>) -> Result<Vec<Uuid>> {
    let mut ids = Vec::new();
    let all_by = Instant::now() + ALL_WITHIN;
    loop {
        let quiet_at = Instant::now() + QUIET;
        let deadline = if wanted.is_empty() { quiet_at } else { all_by.max(quiet_at) };
        let Some(message) = consumer.next(deadline).await? else { break };
        let id = message.id()?;
        wanted.remove(&id);
        ids.push(id);
        // RabbitMQ gives only so many that are not acknowledged.
        if ids.len() % ACKNOWLEDGE == 0 {
            consumer.done().await?;
        }
    }
    consumer.done().await?;
    Ok(ids)
}
