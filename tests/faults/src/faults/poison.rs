//! Events that no broker takes, among those that they do.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::load::TOPICS;
use crate::scene::{MAX_UNKNOWN, Scene, TENANTS};

const LASTS: Duration = Duration::from_secs(15);

pub(super) async fn refused(scene: &Scene) -> Result<()> {
    scene.with_load(|load| load.poison(true))?;
    tokio::time::sleep(LASTS).await;
    scene.with_load(|load| load.poison(false))?;
    scene.expect_poison();
    Ok(())
}

/// Of each broker one event over which its publisher panics each time, alone or not.
pub(super) async fn publisher_panics(scene: &Scene) -> Result<()> {
    const KIND: &str = "faults.panics.v1";
    scene.end(0).await?;
    scene.start(0, &[("FAILPOINTS", &format!("publish=return({KIND})"))]).await?;
    let mut poison = Vec::new();
    for (tenant, (topic, _)) in TENANTS.into_iter().zip(TOPICS) {
        poison.push((tenant, scene.write_poison(tenant, topic, KIND, 10).await?));
    }
    for (tenant, id) in poison {
        let (attempts, reason) = scene.dead(tenant, id).await?;
        ensure!(attempts >= MAX_UNKNOWN, "try `{id}` {MAX_UNKNOWN} times: it was tried {attempts} times");
        ensure!(reason.contains("panicked"), "say that the plugin panicked over `{id}`: {reason}");
    }
    scene.caught_up().await.context("send the neighbours")?;
    scene.expect_poison();
    scene.end(0).await?;
    scene.start(0, &[]).await
}
