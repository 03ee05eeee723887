//! What only RabbitMQ does.

use std::time::Duration;

use anyhow::{Context, Result};
use lapin::options::ExchangeDeleteOptions;
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use outrider_servers::rabbitmq::control;
use outrider_test_support::consume::rabbitmq;

use crate::ground::Kind;
use crate::scene::Scene;

const LASTS: Duration = Duration::from_secs(8);
const SHORT: Duration = Duration::from_secs(5);

pub(super) async fn memory_alarm(scene: &Scene) -> Result<()> {
    let set = |limit| {
        let arguments = ["set_vm_memory_high_watermark", "absolute", limit];
        scene.ground.with(Kind::Rabbitmq, |server| control(server, &arguments))
    };
    set("1MB")?;
    tokio::time::sleep(LASTS).await;
    set("1GB")?;
    // Publishes that were blocked end unknown at their deadline, and the broker takes them afterwards.
    scene.hit_times(LASTS.as_secs() / 3 + 1);
    Ok(())
}

pub(super) async fn queue_full(scene: &Scene) -> Result<()> {
    limit(scene, 1)?;
    tokio::time::sleep(LASTS).await;
    limit(scene, 1_000_000)?;
    // A quorum queue tells publishers that there is room when messages leave it, not when its limit is raised. And it does
    // so only while its policy says `reject-publish`: with the policy gone, channels that were refused stay refused.
    scene.collect(Kind::Rabbitmq).await
}

fn limit(scene: &Scene, messages: u32) -> Result<()> {
    let (name, pattern) = (scene.run.as_str(), format!("^{}$", scene.run));
    let policy = format!(r#"{{"max-length": {messages}, "overflow": "reject-publish"}}"#);
    let arguments = ["set_policy", name, &pattern, &policy, "--apply-to", "queues"];
    scene.ground.with(Kind::Rabbitmq, |server| control(server, &arguments))
}

pub(super) async fn exchange_deleted(scene: &Scene) -> Result<()> {
    let (address, run) = (scene.ground.address(Kind::Rabbitmq), scene.run.clone());
    let connection = Connection::connect(&address, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel
        .exchange_delete(run.as_str().into(), ExchangeDeleteOptions::default())
        .await
        .context("delete the exchange")?;
    tokio::time::sleep(SHORT).await;
    rabbitmq::declare(&address, &run, &run, "#").await?;
    // What was unconfirmed on the channel that the server closed.
    scene.hit();
    Ok(())
}

pub(super) async fn connections_closed(scene: &Scene) -> Result<()> {
    for _ in 0..5 {
        scene.ground.with(Kind::Rabbitmq, |server| control(server, &["close_all_connections", "a fault"]))?;
        scene.hit();
    }
    Ok(())
}

pub(super) async fn unroutable(scene: &Scene) -> Result<()> {
    let (address, run) = (scene.ground.address(Kind::Rabbitmq), scene.run.clone());
    let connection = Connection::connect(&address, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let name = || run.as_str().into();
    channel
        .queue_unbind(name(), name(), "#".into(), FieldTable::default())
        .await
        .context("unbind the queue")?;
    tokio::time::sleep(SHORT).await;
    rabbitmq::declare(&address, &run, &run, "#").await
}
