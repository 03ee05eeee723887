//! async-nats and JetStream's acknowledgements.

use anyhow::{Context, Result};
use async_nats::HeaderMap;
use async_nats::jetstream;
use async_nats::jetstream::context::PublishError;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt, TryFutureExt};
use outrider_test_support::consume::Delivered;

use super::{Confirms, WINDOW};

pub(super) async fn publish(
    url: &str,
    subject: &str,
    messages: &[Delivered],
    confirms: &Confirms,
) -> Result<()> {
    let client = async_nats::connect(url).await.context("connect to NATS")?;
    let context = jetstream::new(client);
    let subject = subject.to_owned();
    let mut unanswered = FuturesUnordered::new();
    for message in messages {
        if unanswered.len() >= WINDOW {
            answered(unanswered.next().await, confirms)?;
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &message.headers {
            headers.insert(name.as_str(), value.as_str());
        }
        if let Some(id) = &message.native_id {
            headers.insert("Nats-Msg-Id", id.as_str());
        }
        let ack = context.publish_with_headers(subject.clone(), headers, message.payload.clone()).await?;
        unanswered.push(ack.into_future().map_ok(drop));
    }
    while let Some(ack) = unanswered.next().await {
        answered(Some(ack), confirms)?;
    }
    Ok(())
}

fn answered(ack: Option<Result<(), PublishError>>, confirms: &Confirms) -> Result<()> {
    if ack.transpose().context("have a message acknowledged")?.is_some() {
        confirms.add();
    }
    Ok(())
}
