//! Config: text in, checked values out. Reads files and the environment once, when told to; starts nothing,
//! connects to nothing.
//!
//! `DIR/outrider.toml` holds the settings, the brokers and the routes of all tenants;
//! `DIR/tenants/NAME.toml` one tenant each. Variables `OUTRIDER_SECTION__KEY` override single keys.

mod broker;
mod check;
mod effective;
mod environment;
mod extract;
mod fault;
mod key;
mod raw;
mod report;
mod secret;
mod source;
mod syntax;
mod tenant;
pub mod units;
mod words;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::brokers::Registry;

pub use broker::{BrokerConfig, InFlight};
pub use environment::Environment;
pub use fault::{ConfigErrors, Fault, Place, Warning};
pub use tenant::{Backoff, Bounds, Database, Delivery, Poll, Pooling, Retention, SchemaName, TenantConfig};

pub use crate::outbox::Shape;

pub use crate::outbox::lease::LEASE_MARGIN as SETTLE_MARGIN;

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

/// A config that may be run, and what is doubtful about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    /// To be shown by `check` and logged at start.
    pub warnings: Vec<Warning>,
}

impl Config {
    /// Reads and checks `DIR/outrider.toml`, `DIR/tenants/*.toml` and the overrides and references in the
    /// environment. Blocks on the file system; connects to nothing.
    ///
    /// # Errors
    ///
    /// Every fault there is, over all files.
    pub fn load(dir: &Path, environment: &Environment, registry: &Registry) -> Result<Loaded, ConfigErrors> {
        let mut faults = Vec::new();
        let sources = source::Sources::read(dir, environment, &mut faults);
        let mut report = report::Report::new(&sources, faults);
        let raw = extract::extract(&mut report);
        let config = check::check(&mut report, raw, registry, secret::Secrets { environment, dir });
        Ok(Loaded { config, warnings: report.finish()? })
    }
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
    /// A label for logs and for the owner column of lanes, by which replicas know one another: no two may have
    /// the same. Default: host name, process id and four random digits.
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
