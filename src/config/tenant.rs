//! A tenant, checked: its database, its delivery rules, its routes. Values only; nothing here runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;

pub use crate::outbox::pace::Bounds;
pub use crate::outbox::retry::Backoff;
use crate::outbox::{OnDead, RouteTable};

/// One tenant, with everything it did not say filled in from `outrider.toml` or the built-in defaults.
#[derive(Clone, Debug)]
pub struct TenantConfig {
    /// File stem of `tenants/NAME.toml`: lower-case letters, digits, `-` and `_`, at most 63 characters.
    pub name: Arc<str>,
    pub database: Database,
    pub delivery: Delivery,
    pub retention: Retention,
    /// The tenant's own routes, then those of `outrider.toml`.
    pub routes: RouteTable,
}

/// Where a tenant's outbox is.
#[derive(Clone, Debug)]
pub struct Database {
    /// PostgreSQL URL, its reference resolved. Checked to be one, not to be reachable.
    pub url: SecretString,
    /// How the config gave the URL, fit to be shown: `env:NAME`, `file:PATH` or `[masked]`.
    pub url_shown: String,
    /// Schema of outrider's tables. Default `outrider`.
    pub schema: SchemaName,
    /// What stands between outrider and the database. Default `session`.
    pub pooling: Pooling,
}

/// What stands between outrider and a tenant's database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pooling {
    /// Nothing, or a pooler that leaves each client its server connection.
    #[default]
    Session,
    /// A pooler that lends a server connection for one transaction, such as pgbouncer with `pool_mode = transaction`.
    Transaction,
}

/// A schema name that needs no quoting: a lower-case letter or `_`, then lower-case letters, digits and `_`,
/// at most 63 bytes, not `pg_…` and not `public` or `information_schema`. May be put into SQL text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SchemaName(Arc<str>);

impl SchemaName {
    /// What [`SchemaName::new`] demands, for a fault.
    pub const RULE: &str = "must be a plain schema name of its own: a-z, 0-9 and `_`, not starting with a digit or \
                            `pg_`, at most 63 characters, and not `public` or `information_schema`";

    /// `None` if the text breaks [`SchemaName::RULE`].
    pub fn new(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        let starts = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        let taken = text.starts_with("pg_") || matches!(text, "public" | "information_schema");
        (plain && starts && !taken && text.len() <= 63).then(|| SchemaName(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SchemaName {
    fn default() -> Self {
        SchemaName("outrider".into())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// How events are claimed, tried again and given up. All durations are checked against one another and
/// against the brokers that the tenant's routes name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Refusals by a broker after which an event is dead. Default 10.
    pub max_refusals: u32,
    /// Unknown ends after which an event is tried alone and then dead. Default 20.
    pub max_unknown: u32,
    pub backoff: Backoff,
    /// How long a lane is owned without a renewal, and so how long a crash can delay events: at least twice the
    /// measured p99 of the time from claim to settle, within these bounds. Default 15 s to 1 min. Two thirds of the
    /// shortest are more than the shortest publish deadline of every broker the tenant routes to.
    pub lease: Bounds,
    pub poll: Poll,
    /// Most events in one claim, and so in one batch. Default 500.
    pub batch_events: u32,
    /// Claims in flight at the same time, per lane and broker, which bounds what a crash can send again. Default 8.
    pub claims_in_flight: u32,
    /// What a dead event does to the later ones of its key. Default block. A route may override it.
    pub on_dead: OnDead,
    /// Age at which an open write transaction no longer holds up the floor. Default 60 s.
    pub order_horizon: Duration,
}

impl Default for Delivery {
    fn default() -> Self {
        Delivery {
            max_refusals: 10,
            max_unknown: 20,
            backoff: Backoff::default(),
            lease: Bounds { min: Duration::from_secs(15), max: Duration::from_secs(60) },
            poll: Poll::default(),
            batch_events: 500,
            claims_in_flight: 8,
            on_dead: OnDead::Block,
            order_horizon: Duration::from_secs(60),
        }
    }
}

/// Wait between two claims that found nothing: grows from `min` to `max` while the outbox is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Default 20 ms.
    pub min: Duration,
    /// Default 1 s. At least `min`.
    pub max: Duration,
}

impl Default for Poll {
    fn default() -> Self {
        Poll { min: Duration::from_millis(20), max: Duration::from_secs(1) }
    }
}

/// How long what is finished is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Outbox rows are removed this long after their receipt, however old they are. Default 7 days.
    pub sent: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Retention { sent: Duration::from_secs(7 * 24 * 3600) }
    }
}
