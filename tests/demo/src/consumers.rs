//! The consumers: for each broker one that reads in batches, asks the inbox, lets what is new have its effect, and only
//! then tells the broker to forget. Inbox and effect are one transaction.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outrider_test_support::consume::{Consume, Delivered, kafka, nats, rabbitmq};
use outrider_test_support::verify::Seen;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::stage::{BROKERS, Stage};
use crate::tally::{self, Tally};

/// Messages in one transaction of a consumer, at most.
const BATCH: usize = 500;

/// How long a batch waits for more messages.
const GATHER: Duration = Duration::from_millis(20);

/// A wait for the first message of a batch begins again this often.
const IDLE: Duration = Duration::from_secs(3600);

/// One of two statements: what is new goes on. A copy within the batch and one that came before fare alike.
const ASK_INBOX: &str = "INSERT INTO inbox (event_id, consumer) SELECT unnest($1::uuid[]), $2 ON CONFLICT DO NOTHING RETURNING event_id";
const WRITE_JOURNAL: &str = "INSERT INTO journal (event_id, consumer) SELECT unnest($1::uuid[]), $2";

/// Starts a consumer for each broker. While `announce` is set, each message is shown on stderr.
pub(crate) async fn start(
    stage: &Stage,
    tally: &Arc<Tally>,
    announce: &Arc<AtomicBool>,
) -> Result<JoinSet<Result<()>>> {
    let mut consumers = JoinSet::new();
    for broker in BROKERS {
        let source: Box<dyn Consume> = match broker {
            "kafka" => {
                let topics = stage.kafka_topics();
                let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
                Box::new(kafka::Consumer::open(&stage.kafka, &topics).await.context("read Kafka")?)
            }
            "rabbitmq" => Box::new(
                rabbitmq::Consumer::open(&stage.rabbitmq, &stage.run).await.context("read RabbitMQ")?,
            ),
            _ => Box::new(nats::Consumer::open(&stage.nats, &stage.run).await.context("read NATS")?),
        };
        let database =
            PgConnection::connect(&stage.database_url("consumer")).await.context("connect a consumer")?;
        let (tally, announce) = (Arc::clone(tally), Arc::clone(announce));
        let consumer = Consumer { broker, source, database, tally, announce };
        consumers.spawn(async move {
            consumer.consume().await.with_context(|| format!("consume from `{broker}`"))
        });
    }
    Ok(consumers)
}

/// Effects in the journal, of all consumers: what was really done, whatever this process believes.
pub(crate) async fn journal_lines(stage: &Stage) -> Result<u64> {
    let mut database =
        PgConnection::connect(&stage.database_url("consumer")).await.context("read the journal")?;
    let lines: i64 = sqlx::query_scalar("SELECT count(*) FROM journal").fetch_one(&mut database).await?;
    u64::try_from(lines).context("count the journal")
}

struct Consumer {
    broker: &'static str,
    source: Box<dyn Consume>,
    database: PgConnection,
    tally: Arc<Tally>,
    announce: Arc<AtomicBool>,
}

impl Consumer {
    /// Never ends by itself, except with an error.
    async fn consume(mut self) -> Result<()> {
        loop {
            let batch = self.batch().await?;
            if batch.is_empty() {
                continue;
            }
            let ids: Vec<Uuid> = batch.iter().map(Delivered::id).collect::<Result<_>>()?;
            let mut new = self.handle(&ids).await?;
            self.source.done().await?;
            // The first copy in the batch is the one that had the effect.
            let seen: Vec<Seen> = ids.iter().map(|&id| Seen { id, effect: new.remove(&id) }).collect();
            if self.announce.load(Ordering::Relaxed) {
                for (message, seen) in batch.iter().zip(&seen) {
                    eprintln!("{}", tally::describe(self.broker, message, seen.effect));
                }
            }
            self.tally.consumed(self.broker, seen);
        }
    }

    async fn batch(&mut self) -> Result<Vec<Delivered>> {
        let mut batch: Vec<Delivered> = self.source.next(Instant::now() + IDLE).await?.into_iter().collect();
        let deadline = Instant::now() + GATHER;
        while batch.len() < BATCH
            && let Some(message) = self.source.next(deadline).await?
        {
            batch.push(message);
        }
        Ok(batch)
    }

    /// Returns which of them had an effect.
    async fn handle(&mut self, ids: &[Uuid]) -> Result<HashSet<Uuid>> {
        let mut transaction = self.database.begin().await?;
        let asked = sqlx::query_scalar(ASK_INBOX).bind(ids).bind(self.broker);
        let new: Vec<Uuid> = asked.fetch_all(&mut *transaction).await.context("ask the inbox")?;
        let written = sqlx::query(WRITE_JOURNAL).bind(&new).bind(self.broker);
        written.execute(&mut *transaction).await.context("write the journal")?;
        transaction.commit().await?;
        Ok(new.into_iter().collect())
    }
}
