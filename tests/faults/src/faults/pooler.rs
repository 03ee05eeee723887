//! Nothing but the pooler in between, which is fault enough (C73). Three tenants and three brokers, and not one copy: what
//! is published is marked in its own home (C63).

use std::time::Duration;

use anyhow::Result;

use crate::scene::Scene;

const LASTS: Duration = Duration::from_secs(10);

pub(super) async fn nothing(_scene: &Scene) -> Result<()> {
    tokio::time::sleep(LASTS).await;
    Ok(())
}
