//! One pass over one tenant: gauges, then retention in small batches. A connection for the length of the pass.

use std::time::Duration;

use crate::actors::board::{Pulse, STATEMENT};
use crate::actors::claimer::store;
use crate::actors::signals::Signals;
use crate::config::TenantConfig;
use crate::store::{Store, StoreError};
use crate::telemetry;

/// Receipts a batch of retention goes by: with the default batch size about 10,000 events, some 50 ms of work.
const RECEIPTS: u32 = 20;

/// Pause between two batches, so that writers and vacuum come in between.
const PAUSE: Duration = Duration::from_millis(50);

/// Batches of one pass over one tenant: a backlog of retention must not keep the janitor from the others.
const BATCHES: u32 = 50;

pub(super) async fn over(tenant: &TenantConfig, signals: &Signals, pulse: &Pulse) {
    pulse.acts_within(STATEMENT);
    // The claimer of the tenant says what is wrong with its config or database, once; here it is a value.
    let Ok(mut store) = store(tenant) else { return telemetry::tenant_unmeasured(&tenant.name, None) };
    if let Err(error) = measured(&mut store, tenant, signals, pulse).await {
        telemetry::tenant_unmeasured(&tenant.name, Some(&error));
    }
    store.disconnect().await;
}

async fn measured(
    store: &mut Store,
    tenant: &TenantConfig,
    signals: &Signals,
    pulse: &Pulse,
) -> Result<(), StoreError> {
    let stats = store.stats().await?;
    telemetry::tenant_measured(&tenant.name, &stats);
    for _ in 0..BATCHES {
        if signals.is_draining() {
            return Ok(());
        }
        pulse.acts_within(STATEMENT);
        // `None`: another replica does it.
        let Some(removed) = store.retention(tenant.retention.sent, RECEIPTS).await? else { return Ok(()) };
        telemetry::events_removed(&tenant.name, removed.events);
        if removed.receipts < u64::from(RECEIPTS) {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
