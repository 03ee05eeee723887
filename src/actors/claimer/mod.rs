//! Claimer: one actor per tenant. It owns the tenant's lanes while it may, claims what it has permits for,
//! hands it to publishers and settles their reports. It knows a recipient of batches, not a publisher, and no
//! broker.
//!
//! The actor is a life: its work is a [`cycle`] per lane, on the I/O threads, that waits and calls while
//! [`crate::outbox::flow`] decides.

mod clock;
mod cycle;
mod outflow;
mod ownership;
mod pace;
mod pacing;
mod renewal;
mod routing;
mod settling;
mod traffic;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use secrecy::ExposeSecret;
use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinSet;

use super::board::{Board, STATEMENT, TenantState};
use super::exit::{Exit, ExitGuard};
use super::fleet::Fleet;
use super::outlet::Outlet;
use super::signals::Signals;
use crate::config::{Pooling, TenantConfig};
use crate::outbox::retry::Backoff;
use crate::store::{Schema, SchemaState, Store, StoreError, StoreOptions};
use crate::telemetry;
use cycle::Cycle;

/// Pause after the database failed. The maximum is how long a database that came back is waited for.
const DATABASE: Backoff = Backoff { base: Duration::from_millis(200), max: Duration::from_secs(5) };

/// What a claimer needs to know.
#[derive(Clone, Debug)]
pub struct ClaimerSettings {
    pub tenant: TenantConfig,
    /// Name of this process, for the lane's `owner_name`.
    pub replica: Arc<str>,
    /// By name of the broker.
    pub outlets: BTreeMap<Arc<str>, Arc<Outlet>>,
    pub board: Arc<Board>,
    pub fleet: Arc<Fleet>,
}

/// See the module.
#[derive(Debug)]
pub struct Claimer {
    settings: Arc<ClaimerSettings>,
    signals: Signals,
    guard: ExitGuard,
}

impl Claimer {
    pub fn new(settings: ClaimerSettings, signals: Signals, guard: ExitGuard) -> Self {
        Claimer { settings: Arc::new(settings), signals, guard }
    }
}

impl Actor for Claimer {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let mut life = JoinSet::new();
        life.spawn(live(self.settings.clone(), self.signals.clone()));
        let ended = async move { life.join_next().await.and_then(Result::ok) };
        let end = ended.into_actor(self).map(|exit, actor, ctx| {
            actor.settings.board.tenant_gone(&actor.settings.tenant.name);
            actor.guard.set(exit.unwrap_or(Exit::Panicked));
            ctx.stop();
        });
        ctx.spawn(end);
    }
}

/// Finds out which lanes the tenant has, and runs a cycle for each until told to drain.
async fn live(settings: Arc<ClaimerSettings>, signals: Signals) -> Exit {
    let Some(lanes) = first_look(&settings, &signals).await else { return Exit::Drained };
    let mut cycles = JoinSet::new();
    for lane in lanes {
        match store(&settings.tenant) {
            Ok(store) => _ = cycles.spawn(Cycle::new(settings.clone(), lane, store).run(signals.clone())),
            // The same options worked a moment ago.
            Err(reason) => report(&settings, TenantState::Failing(reason)),
        }
    }
    let mut exit = Exit::Drained;
    while let Some(ended) = cycles.join_next().await {
        match ended {
            Ok(Exit::Drained) => {}
            Ok(Exit::CutShort) => exit = Exit::CutShort,
            // One lane's panic ends the tenant's other cycles with the set; the restart begins from nothing.
            Ok(Exit::Panicked) | Err(_) => return Exit::Panicked,
        }
    }
    exit
}

/// Waits until the database answers and its schema fits. `None`: told to drain before that.
async fn first_look(settings: &ClaimerSettings, signals: &Signals) -> Option<Vec<i16>> {
    let mut failures = 0;
    let pulse = settings.board.pulse(format!("the claimer of `{}`", settings.tenant.name), STATEMENT);
    loop {
        pulse.acts_within(STATEMENT);
        match look(&settings.tenant).await {
            Ok(lanes) => {
                report(settings, TenantState::Working);
                return Some(lanes);
            }
            Err(reason) => report(settings, TenantState::Failing(reason)),
        }
        failures += 1;
        let pause = DATABASE.delay(failures, rand::random());
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = signals.draining() => return None,
        }
    }
}

async fn look(tenant: &TenantConfig) -> Result<Vec<i16>, String> {
    let mut store = store(tenant)?;
    let state = store.schema_state().await.map_err(failed)?;
    if let Some(reason) = misfit(&state, &tenant.name) {
        return Err(reason);
    }
    let lanes = store.lanes().await.map_err(failed)?;
    store.disconnect().await;
    Ok(lanes.iter().map(|row| row.lane).collect())
}

/// Why this program can't work with a schema, with the remedy; `None` if it can.
fn misfit(state: &SchemaState, tenant: &str) -> Option<String> {
    match state {
        SchemaState::Current => None,
        SchemaState::Missing => {
            Some(format!("its schema is not there; run `outrider migrate --tenant {tenant}`"))
        }
        SchemaState::Behind { version, latest } => Some(format!(
            "its schema is at version {version} and {latest} is needed; run `outrider migrate --tenant {tenant}`"
        )),
        SchemaState::Newer { version, known } => Some(format!(
            "its schema is at version {version} and this program knows {known}; run a newer outrider"
        )),
        SchemaState::Changed { version, name } => Some(format!(
            "migration {version} `{name}` is not the one that was applied; run the outrider that applied it"
        )),
    }
}

fn failed(error: StoreError) -> String {
    format!("failed to {error}")
}

/// Options of a tenant's database, for the daemon's own connections.
pub(super) fn store(tenant: &TenantConfig) -> Result<Store, String> {
    let connect = PgConnectOptions::from_str(tenant.database.url.expose_secret())
        // Its text may quote the URL.
        .map_err(|_| format!("`database.url` ({}) is not a PostgreSQL URL", tenant.database.url_shown))?;
    let schema =
        Schema::new(tenant.database.schema.as_str()).map_err(|error| format!("failed to {error}"))?;
    let mut options = StoreOptions::new(connect, schema);
    options.application = tenant.name.to_string();
    options.transaction_pooled = tenant.database.pooling == Pooling::Transaction;
    // A statement that hangs must leave time to renew: two of them fit before the shortest lease's last third.
    options.statement_timeout = options.statement_timeout.min(tenant.delivery.lease.min / 4);
    Ok(Store::new(options))
}

/// Tells the board, and the log if it is news.
fn report(settings: &ClaimerSettings, state: TenantState) {
    let name = &settings.tenant.name;
    if !settings.board.tenant(name, state.clone()) {
        return;
    }
    match state {
        TenantState::Working => telemetry::tenant_worked(name),
        TenantState::Failing(reason) => telemetry::tenant_failed(name, &reason),
        TenantState::Starting => {}
    }
}
