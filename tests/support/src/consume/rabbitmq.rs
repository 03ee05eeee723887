//! RabbitMQ exchanges and queues. A queue forgets what is acknowledged: [`Consume::done`] does that.

use std::fmt;
use std::time::Instant;

use anyhow::{Context, Result};
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, ExchangeDeclareOptions, ExchangeDeleteOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use outrider_broker::async_trait;

use super::{Consume, Delivered};

/// Messages that the server sends ahead of their acknowledgement.
const PREFETCH: u16 = 1000;

/// A header that quorum queues add to a message that comes again.
const DELIVERY_COUNT: &str = "x-delivery-count";

async fn open(url: &str) -> Result<(Connection, Channel)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await;
    let connection = connection.context("failed to connect to RabbitMQ")?;
    let channel = connection.create_channel().await.context("failed to open a channel")?;
    Ok((connection, channel))
}

fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..Default::default() }
}

/// A durable topic exchange with a quorum queue bound to it by `pattern` (`#` takes everything).
pub async fn declare(url: &str, exchange: &str, queue: &str, pattern: &str) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    declare_with(url, exchange, queue, pattern, arguments).await
}

/// The same with a classic queue that takes everything, holds at most `messages` and has the broker answer nack to what
/// is more.
pub async fn declare_bounded(url: &str, exchange: &str, queue: &str, messages: u32) -> Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongUInt(messages));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    declare_with(url, exchange, queue, "#", arguments).await
}

async fn declare_with(
    url: &str,
    exchange: &str,
    queue: &str,
    pattern: &str,
    arguments: FieldTable,
) -> Result<()> {
    let (connection, channel) = open(url).await?;
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    channel
        .exchange_declare(exchange.into(), ExchangeKind::Topic, options, FieldTable::default())
        .await
        .with_context(|| format!("failed to declare the exchange `{exchange}`"))?;
    channel
        .queue_declare(queue.into(), durable(), arguments)
        .await
        .with_context(|| format!("failed to declare the queue `{queue}`"))?;
    channel
        .queue_bind(
            queue.into(),
            exchange.into(),
            pattern.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        )
        .await
        .with_context(|| format!("failed to bind `{queue}` to `{exchange}`"))?;
    connection.close(200, "done".into()).await.context("failed to close the connection")
}

/// How many messages wait in a queue.
pub async fn length(url: &str, queue: &str) -> Result<u32> {
    let (connection, channel) = open(url).await?;
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    let found = channel.queue_declare(queue.into(), options, FieldTable::default()).await;
    let length = found.with_context(|| format!("failed to find the queue `{queue}`"))?.message_count();
    connection.close(200, "done".into()).await.context("failed to close the connection")?;
    Ok(length)
}

/// Deletes both with everything in them; what is not there is no error.
pub async fn delete(url: &str, exchange: &str, queue: &str) -> Result<()> {
    let (connection, channel) = open(url).await?;
    channel
        .queue_delete(queue.into(), QueueDeleteOptions::default())
        .await
        .context("failed to delete a queue")?;
    channel
        .exchange_delete(exchange.into(), ExchangeDeleteOptions::default())
        .await
        .context("failed to delete an exchange")?;
    connection.close(200, "done".into()).await.context("failed to close the connection")
}

/// Reads one queue. What was not done goes back to the queue when this is dropped.
pub struct Consumer {
    _connection: Connection,
    consumer: lapin::Consumer,
    last: Option<Delivery>,
}

impl Consumer {
    pub async fn open(url: &str, queue: &str) -> Result<Consumer> {
        let (connection, channel) = open(url).await?;
        channel
            .basic_qos(PREFETCH, BasicQosOptions::default())
            .await
            .context("failed to set the prefetch")?;
        let consumer = channel
            .basic_consume(queue.into(), "".into(), BasicConsumeOptions::default(), FieldTable::default())
            .await
            .with_context(|| format!("failed to read the queue `{queue}`"))?;
        Ok(Consumer { _connection: connection, consumer, last: None })
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").finish_non_exhaustive()
    }
}

#[async_trait]
impl Consume for Consumer {
    async fn next(&mut self, deadline: Instant) -> Result<Option<Delivered>> {
        let Ok(next) = tokio::time::timeout_at(deadline.into(), self.consumer.next()).await else {
            return Ok(None);
        };
        let delivery =
            next.context("the queue ended: was it deleted?")?.context("failed to read the queue")?;
        let delivered = delivered(&delivery)?;
        self.last = Some(delivery);
        Ok(Some(delivered))
    }

    async fn done(&mut self) -> Result<()> {
        if let Some(last) = self.last.take() {
            last.ack(BasicAckOptions { multiple: true }).await.context("failed to acknowledge")?;
        }
        Ok(())
    }
}

fn delivered(delivery: &Delivery) -> Result<Delivered> {
    let place = delivery.routing_key.to_string();
    let mut headers = Vec::new();
    if let Some(table) = delivery.properties.headers() {
        let sent = table.inner().iter().filter(|(name, _)| name.as_str() != DELIVERY_COUNT);
        for (name, value) in sent {
            let value = match value {
                AMQPValue::LongString(value) => String::from_utf8(value.as_bytes().to_vec())?,
                other => anyhow::bail!("header `{name}` at `{place}` is not text but {:?}", other.get_type()),
            };
            headers.push((name.to_string(), value));
        }
    }
    let key = headers.iter().find(|(name, _)| name == "ce_subject").map(|(_, key)| key.clone());
    Ok(Delivered {
        place,
        key,
        native_id: delivery.properties.message_id().as_ref().map(ToString::to_string),
        position: None,
        headers,
        payload: delivery.data.clone().into(),
    })
}
