//! Config: text in, checked values out. Reads files and the environment once, when told to; starts nothing,
//! connects to nothing.
//!
//! `DIR/outrider.toml` holds the settings, the brokers and the routes of all tenants;
//! `DIR/tenants/NAME.toml` one tenant each. Variables `OUTRIDER_SECTION__KEY` override single keys.

mod broker;
mod tenant;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use broker::{BrokerConfig, InFlight};
pub use tenant::{Backoff, Database, Delivery, Poll, Retention, SchemaName, TenantConfig};

pub use crate::outbox::Shape;

/// Least that two thirds of a lease must exceed a broker's publish deadline by: the time to write the
/// outcome back. Less, and a slow settle loses its lease; twice as much costs each lease 750 ms.
pub const SETTLE_MARGIN: Duration = Duration::from_millis(500);

/// Everything the daemon was told, checked as a whole. [`SETTLE_MARGIN`] and the other rules between values
/// hold.
#[derive(Clone, Debug)]
pub struct Config {
    pub admin: Admin,
    pub replica: Replica,
    pub log: Log,
    pub shutdown: Shutdown,
    /// By name.
    pub brokers: BTreeMap<Arc<str>, BrokerConfig>,
    /// By name. Every route names a broker in `brokers`.
    pub tenants: BTreeMap<Arc<str>, TenantConfig>,
}

/// `/metrics`, `/healthz` and `/readyz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Default `127.0.0.1:9464`: seen from this machine only. Port 0 takes any free port.
    pub listen: SocketAddr,
}

/// This process among others on the same tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// A label for logs and for the owner column of lanes; nothing is decided by it. Default: host name,
    /// process id and four random digits.
    pub name: String,
}

/// The process's own log, on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub format: LogFormat,
    /// `tracing` filter directives, such as `info,outrider=debug`. Default `info`.
    pub filter: String,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// What happens on SIGTERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shutdown {
    /// Most time to finish what is in flight. Default 20 s; more than every publish deadline.
    pub grace: Duration,
}
