//! What only Kafka does.

use std::time::Duration;

use anyhow::{Context, Result};
use outrider_test_support::consume::kafka;
use outrider_test_support::proxy::Mode;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use super::servers::refuse;
use crate::ground::Kind;
use crate::scene::Scene;

const LASTS: Duration = Duration::from_secs(8);

/// Longer than a publish may take: nothing is on its way any more.
const SILENCE: Duration = Duration::from_secs(4);

/// The topic's messages are read before it goes.
pub(super) async fn unknown_topic(scene: &mut Scene<'_>) -> Result<()> {
    refuse(scene, Kind::Kafka);
    tokio::time::sleep(SILENCE).await;
    scene.collect(Kind::Kafka).await?;
    let (address, topic) = (scene.ground.kafka.address().to_owned(), scene.kafka_topic());
    kafka::delete_topics(&address, &[&topic]).await?;
    scene.ways(Kind::Kafka, Mode::Pass);
    tokio::time::sleep(LASTS).await;
    kafka::create_topics(&address, &[&topic], 3).await
}

pub(super) async fn not_enough_replicas(scene: &mut Scene<'_>) -> Result<()> {
    set_least_replicas(scene, "2").await?;
    tokio::time::sleep(LASTS).await;
    set_least_replicas(scene, "1").await
}

async fn set_least_replicas(scene: &Scene<'_>, count: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", scene.ground.kafka.address()).create()?;
    let topic = scene.kafka_topic();
    let change = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("min.insync.replicas", count);
    for altered in admin.alter_configs([&change], &AdminOptions::new()).await? {
        altered.map_err(|(_, code)| anyhow::anyhow!("{code}")).context("alter the topic")?;
    }
    Ok(())
}
