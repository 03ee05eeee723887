//! The consumer's side of each broker, written apart from the plugins so that no mistake of theirs is repeated here.

pub mod kafka;
pub mod nats;
pub mod rabbitmq;

use std::time::Instant;

use anyhow::{Context, Result};
use bytes::Bytes;
use outrider_broker::async_trait;
use uuid::Uuid;

/// A message as it came.
#[derive(Clone, Debug, Default)]
pub struct Delivered {
    /// Kafka topic, RabbitMQ routing key or NATS subject.
    pub place: String,
    /// The protocol's own: Kafka's key; where there is none, `ce_subject`.
    pub key: Option<String>,
    /// The protocol's own (`message_id`, `Nats-Msg-Id`); Kafka has none.
    pub native_id: Option<String>,
    /// Place in the broker, where it has one: `partition/offset`, or the stream's sequence.
    pub position: Option<String>,
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
}

impl Delivered {
    /// The first header of that exact name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The event's id, by which an inbox knows a second copy: `ce_id`, else the protocol's own.
    pub fn id(&self) -> Result<Uuid> {
        let id = self.header("ce_id").or(self.native_id.as_deref());
        let id = id.with_context(|| format!("a message at `{}` has no id", self.place))?;
        Uuid::try_parse(id)
            .with_context(|| format!("a message at `{}` has the id `{id}`, not a UUID", self.place))
    }

    /// The event's place in its tenant's outbox.
    pub fn seq(&self) -> Result<i64> {
        let seq = self.header("ce_sequence");
        let seq = seq.with_context(|| format!("a message at `{}` has no `ce_sequence`", self.place))?;
        seq.parse().with_context(|| format!("a message at `{}` has the sequence `{seq}`", self.place))
    }
}

/// Reads messages one by one from the beginning.
#[async_trait]
pub trait Consume: Send {
    /// The next message, or `None` when the deadline passed without one. Cancel safe only by giving the consumer
    /// up.
    async fn next(&mut self, deadline: Instant) -> Result<Option<Delivered>>;

    /// Everything that [`Consume::next`] gave so far has had its effect: the broker may forget it, if it is one
    /// that forgets.
    async fn done(&mut self) -> Result<()>;
}

/// Reads until there are `count` messages or the deadline has passed.
pub async fn read(consumer: &mut dyn Consume, count: usize, deadline: Instant) -> Result<Vec<Delivered>> {
    let mut messages = Vec::new();
    while messages.len() < count
        && let Some(message) = consumer.next(deadline).await?
    {
        messages.push(message);
    }
    consumer.done().await?;
    Ok(messages)
}
