//! What only Kafka does.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outrider_test_support::consume::{Consume, kafka};
use outrider_test_support::proxy::Mode;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;

use super::servers::refuse;
use crate::ground::Kind;
use crate::scene::{Scene, TENANTS};

const LASTS: Duration = Duration::from_secs(8);

/// What is confirmed is in the broker, so it comes to a reader within this.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// Longer than a publish may take: nothing is on its way any more.
const SILENCE: Duration = Duration::from_secs(4);

/// The topic's messages are read before it goes.
pub(super) async fn unknown_topic(scene: &Scene) -> Result<()> {
    refuse(scene, Kind::Kafka);
    tokio::time::sleep(SILENCE).await;
    scene.collect(Kind::Kafka).await?;
    let (address, topic) = (scene.ground.address(Kind::Kafka), scene.kafka_topic());
    kafka::delete_topics(&address, &[&topic]).await?;
    scene.ways(Kind::Kafka, Mode::Pass);
    tokio::time::sleep(LASTS).await;
    kafka::create_topics(&address, &[&topic], 3).await
}

pub(super) async fn not_enough_replicas(scene: &Scene) -> Result<()> {
    set_least_replicas(scene, "2").await?;
    tokio::time::sleep(LASTS).await;
    set_least_replicas(scene, "1").await
}

async fn set_least_replicas(scene: &Scene, count: &str) -> Result<()> {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", scene.ground.address(Kind::Kafka)).create()?;
    let topic = scene.kafka_topic();
    let change = AlterConfig::new(ResourceSpecifier::Topic(&topic)).set("min.insync.replicas", count);
    for altered in admin.alter_configs([&change], &AdminOptions::new()).await? {
        altered.map_err(|(_, code)| anyhow::anyhow!("{code}")).context("alter the topic")?;
    }
    Ok(())
}

/// The broker loses a batch that it had confirmed, as with an unclean election of a leader. The next one of that
/// partition is out of sequence, which ends an idempotent producer for good; what it had in hand goes on with a new one.
pub(super) async fn fatal_error(scene: &Scene) -> Result<()> {
    let (address, ledger, tenant) = (scene.ground.address(Kind::Kafka), scene.ledger_topic(), TENANTS[0]);
    kafka::create_topics(&address, &[&ledger], 1).await?;
    for _ in 0..3 {
        scene.write(tenant, "ledger.booked", "faults.booked.v1", 10).await?;
        scene.caught_up().await.context("send to the ledger")?;
    }
    let folder = scene.ground.with(Kind::Kafka, |server| {
        server.kill();
        server.folder().to_owned()
    });
    let partition = folder.join("data").join(format!("{ledger}-0"));
    lose_last_batch(&partition).with_context(|| format!("lose a batch in `{}`", partition.display()))?;
    scene.ground.with(Kind::Kafka, |server| server.restart())?;
    scene.hit();
    let next = scene.write(tenant, "ledger.booked", "faults.booked.v1", 10).await?;
    scene.caught_up().await.context("go on after a fatal error")?;
    let built_anew = scene.replicas[0].has_said("Kafka client has failed and is built anew")?;
    ensure!(built_anew, "meet a fatal error: the log has none");
    // The judge does not read the ledger, where messages are missing on purpose: not this one.
    let mut consumer = kafka::Consumer::open(&address, &[&ledger]).await?;
    loop {
        let message = consumer.next(Instant::now() + READ_WITHIN).await?;
        if message.context("find in the ledger what came after the fatal error")?.id()? == next {
            break;
        }
    }
    kafka::delete_topics(&address, &[&ledger]).await
}

/// Cuts the last batch off a partition's only segment, and removes what else could tell of it.
fn lose_last_batch(partition: &Path) -> Result<()> {
    /// Base offset and length, which stand before what the length counts.
    const BEFORE: usize = 12;
    let segment = partition.join(format!("{:020}.log", 0));
    let bytes = std::fs::read(&segment)?;
    let (mut last, mut next) = (None, 0);
    while let Some(length) = bytes.get(next + 8..next + BEFORE) {
        let length = u32::from_be_bytes(length.try_into()?);
        if length == 0 {
            break;
        }
        last = Some(next);
        next += BEFORE + usize::try_from(length)?;
    }
    let last = last.context("find a batch")?;
    std::fs::OpenOptions::new().write(true).open(&segment)?.set_len(u64::try_from(last)?)?;
    for entry in std::fs::read_dir(partition)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "snapshot") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}
