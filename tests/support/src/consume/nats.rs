//! NATS JetStream streams, read by an ordered consumer: nothing to acknowledge, nothing left on the server.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use futures_util::StreamExt;
use outrider_broker::async_trait;

use super::{Consume, Delivered};

async fn open(url: &str) -> Result<jetstream::Context> {
    let client = async_nats::connect(url).await.context("failed to connect to NATS")?;
    Ok(jetstream::new(client))
}

/// Makes a stream on disk that takes these subjects and remembers ids for `duplicate_window`. One of that name with
/// another configuration is an error.
pub async fn create_stream(
    url: &str,
    name: &str,
    subjects: &[&str],
    duplicate_window: Duration,
) -> Result<()> {
    let config = jetstream::stream::Config {
        subjects: subjects.iter().map(|&subject| subject.to_owned()).collect(),
        duplicate_window,
        ..on_disk(name)
    };
    create(url, config).await
}

/// A stream of one subject that holds at most `messages` and answers with an error to what is more.
pub async fn create_bounded_stream(url: &str, name: &str, subject: &str, messages: i64) -> Result<()> {
    let config = jetstream::stream::Config {
        subjects: vec![subject.to_owned()],
        max_messages: messages,
        discard: jetstream::stream::DiscardPolicy::New,
        ..on_disk(name)
    };
    create(url, config).await
}

fn on_disk(name: &str) -> jetstream::stream::Config {
    jetstream::stream::Config {
        name: name.to_owned(),
        storage: jetstream::stream::StorageType::File,
        ..Default::default()
    }
}

async fn create(url: &str, config: jetstream::stream::Config) -> Result<()> {
    let name = config.name.clone();
    let created = open(url).await?.create_stream(config).await;
    created.with_context(|| format!("failed to make the stream `{name}`"))?;
    Ok(())
}

/// Deletes a stream with everything in it.
pub async fn delete_stream(url: &str, name: &str) -> Result<()> {
    let deleted = open(url).await?.delete_stream(name).await;
    deleted.with_context(|| format!("failed to delete the stream `{name}`"))?;
    Ok(())
}

/// Reads one stream.
pub struct Consumer {
    messages: pull::Ordered,
}

impl Consumer {
    /// From the stream's first message on.
    pub async fn open(url: &str, stream: &str) -> Result<Consumer> {
        let context = open(url).await?;
        let found = context.get_stream(stream).await;
        let found = found.with_context(|| format!("failed to find the stream `{stream}`"))?;
        let config = pull::OrderedConfig { deliver_policy: DeliverPolicy::All, ..Default::default() };
        let consumer = found.create_consumer(config).await.context("failed to make a consumer")?;
        let messages = consumer.messages().await.context("failed to read the stream")?;
        Ok(Consumer { messages })
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
        let Ok(next) = tokio::time::timeout_at(deadline.into(), self.messages.next()).await else {
            return Ok(None);
        };
        let message = next.context("the stream ended")?.context("failed to read the stream")?;
        let info =
            message.info().map_err(|error| anyhow::anyhow!("a message without a position: {error}"))?;
        let position = Some(info.stream_sequence.to_string());
        let mut headers = Vec::new();
        for (name, values) in message.headers.iter().flat_map(|headers| headers.iter()) {
            headers.extend(values.iter().map(|value| (name.to_string(), value.as_str().to_owned())));
        }
        let header =
            |wanted: &str| headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        Ok(Some(Delivered {
            place: message.subject.to_string(),
            key: header("ce_subject"),
            native_id: header("Nats-Msg-Id"),
            position,
            payload: message.payload.clone(),
            headers,
        }))
    }

    async fn done(&mut self) -> Result<()> {
        Ok(())
    }
}
