//! The three traits a broker plugin implements.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::{Cause, Message, Outcome};

/// The `params` table of a `[brokers.NAME]` section. Secrets are resolved already: a value written
/// `env:NAME` or `file:PATH` arrives as what it referred to. So a plugin never prints a value of it,
/// only keys.
pub type Params = serde_json::Map<String, serde_json::Value>;

/// One thing that is wrong in `params` or in a route's `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Key inside the table, such as `bootstrap.servers`.
    pub key: String,
    /// What the value must be, and what to write instead. Holds no value: it may be a secret.
    pub rule: String,
}

impl Fault {
    pub fn new(key: impl Into<String>, rule: impl Into<String>) -> Self {
        Fault { key: key.into(), rule: rule.into() }
    }
}

/// A kind of broker.
pub trait Plugin: Send + Sync + 'static {
    /// What `kind = "..."` says in the config.
    fn kind(&self) -> &'static str;

    /// Checks the parameters. Pure: no I/O, no clock. Returns every fault, not only the first; an
    /// unknown parameter is a fault.
    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>>;

    /// The parameters whose values `outrider config` may show, such as a list of hosts without credentials.
    /// Those of all others are masked.
    fn public_params(&self) -> &'static [&'static str] {
        &[]
    }
}

/// What a configured broker can tell without a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Most messages that the client itself holds; `max_in_flight.events` may not be more.
    pub max_in_flight_events: Option<usize>,
    /// Likewise in bytes.
    pub max_in_flight_bytes: Option<usize>,
    /// How long the broker remembers message ids, where it does and the config says so.
    pub duplicate_window: Option<Duration>,
}

/// A configured broker: parameters that were checked.
///
/// Its `Debug` must not show secrets.
#[async_trait]
pub trait Broker: Send + Sync + fmt::Debug + 'static {
    /// Checks a route's `to` and fills in what it leaves out (`topic = "{topic}"`). Values are templates:
    /// `{tenant}`, `{topic}`, `{type}` and `{key}` stand for the event's; a value without braces is
    /// literal and can be checked whole. Pure.
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>>;

    fn facts(&self) -> Facts;

    /// Connects. Returns once a publish can be expected to work, or with the true reason why not.
    /// Bounded by [`ConnectOptions::timeout`]. Called again, with backoff, after a failure and whenever a
    /// connection says that it is not [`Connection::alive`].
    async fn connect(&self, options: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError>;
}

/// What a connection is told at birth.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// Shown to the broker's operators, such as `outrider/kafka-eu`.
    pub client_name: String,
    /// Most time that connecting may take.
    pub timeout: Duration,
    /// Most time between a batch's hand-over and its end; batches come with deadlines up to this. A client with a
    /// clock of its own must give a message up before it, so that no copy leaves after the lease.
    pub publish_deadline: Duration,
}

/// A connection could not be made. Broker trouble, always.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(pub Cause);

/// A live connection. All methods may be called from many tasks at once.
#[async_trait]
pub trait Connection: Send + Sync + 'static {
    /// Publishes a batch and returns one outcome per message, in the order of the batch.
    ///
    /// Returns not later than `deadline`: what was handed over and not answered by then is
    /// [`Outcome::Unknown`], what was not handed over [`Outcome::NotSent`]. outrider waits for the outcome of
    /// a message before it hands over the next of its topic and key: no broker keeps a later one from
    /// passing one that it refused.
    ///
    /// Not cancel safe: a dropped future may leave messages on their way.
    async fn publish(&self, batch: Vec<Message>, deadline: Instant) -> Vec<Outcome>;

    /// Asks the broker for a sign of life that needs an answer. Must end before `deadline`.
    async fn probe(&self, deadline: Instant) -> Result<(), Cause>;

    /// False once this connection can't recover by itself and [`Broker::connect`] has to be called again.
    fn alive(&self) -> bool;

    /// Ends the connection: flushes or drops what is inside, off the async threads if that blocks, and
    /// returns not later than `deadline`. No message leaves afterwards.
    async fn close(&self, deadline: Instant);
}
