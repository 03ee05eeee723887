//! What only NATS does.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use outrider_test_support::proxy::Mode;

use super::servers::refuse;
use crate::ground::Kind;
use crate::scene::Scene;

const LASTS: Duration = Duration::from_secs(8);

/// Longer than a publish may take: nothing is on its way any more.
const SILENCE: Duration = Duration::from_secs(4);

/// Messages that a stream still takes before it is full.
const ROOM: i64 = 20;

async fn context(scene: &Scene<'_>) -> Result<jetstream::Context> {
    let client = async_nats::connect(scene.ground.nats.address()).await.context("connect to NATS")?;
    Ok(jetstream::new(client))
}

async fn config(context: &jetstream::Context, name: &str) -> Result<Config> {
    let mut stream = context.get_stream(name).await.context("find the stream")?;
    Ok(stream.info().await.context("read the stream's config")?.config.clone())
}

/// The stream's messages are read before it goes. The ids that it remembered go with it, so a copy may come again.
pub(super) async fn stream_deleted(scene: &mut Scene<'_>) -> Result<()> {
    refuse(scene, Kind::Nats);
    tokio::time::sleep(SILENCE).await;
    scene.collect(Kind::Nats).await?;
    let context = context(scene).await?;
    let before = config(&context, &scene.run).await?;
    context.delete_stream(&scene.run).await.context("delete the stream")?;
    scene.ways(Kind::Nats, Mode::Pass);
    tokio::time::sleep(LASTS).await;
    context.create_stream(before).await.context("make the stream again")?;
    Ok(())
}

pub(super) async fn stream_full(scene: &mut Scene<'_>) -> Result<()> {
    let context = context(scene).await?;
    let before = config(&context, &scene.run).await?;
    let mut stream = context.get_stream(&scene.run).await.context("find the stream")?;
    let messages = stream.info().await.context("count the stream's messages")?.state.messages;
    // Above what is in it: a limit below that removes messages.
    let limit = i64::try_from(messages).context("count the stream's messages")? + ROOM;
    let full = Config { max_messages: limit, discard: DiscardPolicy::New, ..before.clone() };
    context.update_stream(full).await.context("fill the stream")?;
    tokio::time::sleep(LASTS).await;
    context.update_stream(before).await.context("make room in the stream")?;
    Ok(())
}

pub(super) async fn subject_unbound(scene: &mut Scene<'_>) -> Result<()> {
    let context = context(scene).await?;
    let before = config(&context, &scene.run).await?;
    let elsewhere = Config { subjects: vec![format!("elsewhere.{}.>", scene.run)], ..before.clone() };
    context.update_stream(elsewhere).await.context("take the subjects away")?;
    tokio::time::sleep(LASTS).await;
    context.update_stream(before).await.context("give the subjects back")?;
    Ok(())
}
