//! A configured broker, checked. Values only; nothing here connects.

use std::sync::Arc;
use std::time::Duration;

use outrider_broker::{Broker, Params};

use crate::outbox::Shape;
use crate::outbox::pace::Bounds;

/// One `[brokers.NAME]` section.
#[derive(Clone, Debug)]
pub struct BrokerConfig {
    /// `NAME`: lower-case letters, digits, `-` and `_`, at most 63 characters.
    pub name: Arc<str>,
    /// Kind of the plugin: `kafka`, `rabbitmq`, `nats`, `memory`, `stdout`, …
    pub kind: String,
    /// The plugin's own view of `params`.
    pub broker: Arc<dyn Broker>,
    /// `params` fit to be shown: references as they were written, anything else masked unless the plugin
    /// says that it may be seen.
    pub params_shown: Params,
    pub max_in_flight: InFlight,
    /// Most time from a batch's hand-over to its end: twice the measured p99 of the time from claim to settle, within
    /// these bounds and what a tenant's lease covers. Default 8 s to 15 s, less where `shutdown.grace` is short.
    pub publish_deadline: Bounds,
    /// Most time that connecting may take. Default 10 s.
    pub connect_timeout: Duration,
    pub shape: Shape,
}

impl BrokerConfig {
    /// Default of `publish_deadline`. Two thirds of the shortest default lease leave the shortest a margin of 2 s; the
    /// longest fits into the default grace period.
    pub const PUBLISH_DEADLINE: Bounds = Bounds { min: Duration::from_secs(8), max: Duration::from_secs(15) };
    /// Default of `connect_timeout`: time for DNS, TCP, TLS and authentication over a bad line.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
}

/// The bound on what is at a broker and not answered yet, over all tenants. Never exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Default 10,000. At most what the plugin's client holds.
    pub events: usize,
    /// Payload bytes. Default 64 MiB. At most what the plugin's client holds.
    pub bytes: usize,
}

impl Default for InFlight {
    fn default() -> Self {
        InFlight { events: 10_000, bytes: 64 << 20 }
    }
}
