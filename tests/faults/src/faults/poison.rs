//! Events that no broker takes, among those that they do.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::scene::Scene;

const LASTS: Duration = Duration::from_secs(15);

pub(super) async fn refused(scene: &mut Scene<'_>) -> Result<()> {
    scene.load.as_ref().context("find the load")?.poison(true);
    tokio::time::sleep(LASTS).await;
    scene.load.as_ref().context("find the load")?.poison(false);
    scene.poisoned = true;
    Ok(())
}
