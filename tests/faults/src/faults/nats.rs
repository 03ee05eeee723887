//! What only NATS does.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_nats::jetstream;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use outrider_servers::nats;
use outrider_test_support::proxy::Mode;

use super::servers::refuse;
use crate::ground::Kind;
use crate::scene::{MAX_UNKNOWN, Scene, TENANTS};

const LASTS: Duration = Duration::from_secs(8);

/// Longer than a publish may take: nothing is on its way any more.
const SILENCE: Duration = Duration::from_secs(4);

/// Messages that a stream still takes before it is full.
const ROOM: i64 = 20;

async fn context(scene: &Scene) -> Result<jetstream::Context> {
    let client = async_nats::connect(scene.ground.address(Kind::Nats)).await.context("connect to NATS")?;
    Ok(jetstream::new(client))
}

async fn config(context: &jetstream::Context, name: &str) -> Result<Config> {
    let mut stream = context.get_stream(name).await.context("find the stream")?;
    Ok(stream.info().await.context("read the stream's config")?.config.clone())
}

/// The stream's messages are read before it goes. The ids that it remembered go with it, so a copy may come again.
pub(super) async fn stream_deleted(scene: &Scene) -> Result<()> {
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

pub(super) async fn stream_full(scene: &Scene) -> Result<()> {
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

pub(super) async fn subject_unbound(scene: &Scene) -> Result<()> {
    let context = context(scene).await?;
    let before = config(&context, &scene.run).await?;
    let elsewhere = Config { subjects: vec![format!("elsewhere.{}.>", scene.run)], ..before.clone() };
    context.update_stream(elsewhere).await.context("take the subjects away")?;
    tokio::time::sleep(LASTS).await;
    context.update_stream(before).await.context("give the subjects back")?;
    Ok(())
}

/// Somebody listens on the subject of one type who never answers, and no stream takes it: no confirm, and no word that
/// there is none. Other events of the same topic are confirmed meanwhile: without them the topic would be in trouble, and
/// no event to blame.
pub(super) async fn confirm_never_comes(scene: &Scene) -> Result<()> {
    let context = context(scene).await?;
    let before = config(&context, &scene.run).await?;
    let subjects = vec![format!("{}.*.shipping.requested.faults.happened.>", scene.run)];
    context.update_stream(Config { subjects, ..before.clone() }).await.context("narrow the stream")?;
    let listener = async_nats::connect(scene.ground.address(Kind::Nats)).await.context("connect to NATS")?;
    let heard = listener
        .subscribe(format!("{}.*.shipping.requested.faults.silent.>", scene.run))
        .await
        .context("listen")?;
    listener.flush().await.context("listen")?;
    for tenant in TENANTS {
        let id = scene.write_poison(tenant, "shipping.requested", "faults.silent.v1", 10).await?;
        let (attempts, reason) = scene.dead(tenant, id).await?;
        ensure!(attempts >= MAX_UNKNOWN, "try `{id}` {MAX_UNKNOWN} times: it was tried {attempts} times");
        ensure!(reason.contains("alone"), "say that `{id}` was tried alone: {reason}");
        // What had to wait while the event was tried alone.
        scene.caught_up().await?;
    }
    drop(heard);
    context.update_stream(before).await.context("widen the stream")?;
    scene.expect_poison();
    Ok(())
}

/// A restart with a lower limit: what was fine is refused now, and says so; before and afterwards it passes.
pub(super) async fn max_payload_lowered(scene: &Scene) -> Result<()> {
    const LOWERED: usize = 64 * 1024;
    const BETWEEN: usize = 200 * 1024;
    let topic = "shipping.requested";
    for tenant in TENANTS {
        scene.write(tenant, topic, "faults.large.v1", BETWEEN).await?;
    }
    scene.caught_up().await.context("send what is below the limit")?;
    limit(scene, LOWERED)?;
    for tenant in TENANTS {
        let id = scene.write_poison(tenant, topic, "faults.large.v1", BETWEEN).await?;
        let (_, reason) = scene.dead(tenant, id).await?;
        ensure!(reason.contains(&LOWERED.to_string()), "name the limit of {LOWERED} bytes: {reason}");
    }
    limit(scene, nats::MAX_PAYLOAD)?;
    for tenant in TENANTS {
        scene.write(tenant, topic, "faults.large.v1", BETWEEN).await?;
    }
    scene.expect_poison();
    Ok(())
}

fn limit(scene: &Scene, bytes: usize) -> Result<()> {
    scene.hit();
    scene.ground.with(Kind::Nats, |server| {
        nats::limit_payload(server, bytes)?;
        server.restart()
    })
}
