//! What a plugin's test has to provide: its plugin, and the consumer's side of its server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use outrider_broker::{Message, Params, Plugin};

/// A route's `to` table.
pub type To = BTreeMap<String, String>;

/// Turns a good message into a bad one.
pub type Spoil = fn(&mut Message);

/// What the protocol has. A feature that is off leaves out the part of a check that needs it.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// A message can be read back. Off only for a plugin whose output nobody can read.
    pub read: bool,
    /// The message carries its key, and [`Received::key`] shows it.
    pub key: bool,
    /// The id has a place of its own beside the `ce_id` header, and [`Received::id`] shows it.
    pub id: bool,
    /// Likewise the type, and [`Received::kind`].
    pub kind: bool,
    /// Likewise the content type, and [`Received::content_type`].
    pub content_type: bool,
    /// Headers keep their order.
    pub header_order: bool,
    /// The server keeps one copy of an id, and its answer says so.
    pub removes_duplicates: bool,
    /// A destination has to be there before something is published to it.
    pub missing_destination: bool,
}

impl Features {
    /// A protocol with all of it.
    pub const ALL: Features = Features {
        read: true,
        key: true,
        id: true,
        kind: true,
        content_type: true,
        header_order: true,
        removes_duplicates: true,
        missing_destination: true,
    };
}

/// A message as a consumer got it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// From the protocol's own place for it (AMQP `message_id`, `Nats-Msg-Id`), not from `ce_id`.
    pub id: Option<String>,
    pub key: Option<String>,
    pub kind: Option<String>,
    pub content_type: Option<String>,
    /// All of them, in the order in which they came, also those that the plugin or the protocol added.
    pub headers: Vec<(String, String)>,
    pub payload: Bytes,
}

impl Received {
    /// The value of the first header of that exact name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Implemented by a plugin's test. Methods that make or read something panic when they can't.
#[async_trait]
pub trait Harness: Send + Sync {
    fn plugin(&self) -> &dyn Plugin;

    fn features(&self) -> Features;

    /// Parameters that work. If a password is among them, it is used as it is and never printed.
    fn params(&self) -> Params;

    /// A `to` table that nobody used yet, unique also across test processes. Creates nothing.
    fn new_destination(&self) -> To;

    /// Makes the topic, exchange and queue, or stream behind a table of [`Harness::new_destination`].
    /// More than one partition is welcome where there are such things.
    async fn create(&self, to: &To);

    /// Everything in a destination, from its beginning and in its order (of its partitions, if it has
    /// several): at least `count` messages, or what there is when `deadline` has passed. A null value is
    /// not an empty payload: panic. Called once for a destination.
    async fn read(&self, to: &To, count: usize, deadline: Instant) -> Vec<Received>;

    /// Working parameters, but with the server at `address` and, where there are credentials at all, with
    /// [`MARKER`](crate::MARKER) as the password. `None`: the plugin has no server.
    fn params_at(&self, _address: SocketAddr) -> Option<Params> {
        None
    }

    /// Working parameters, but with credentials that the server refuses and
    /// [`MARKER`](crate::MARKER) as the password. `None`: the server asks for none.
    fn params_with_wrong_credentials(&self) -> Option<Params> {
        None
    }

    /// The server's address, if clients can reach it through a TCP proxy (a Kafka broker tells them its own
    /// address, so it can't be put behind one without being told). With the server's real credentials:
    /// see [`Harness::params_through`].
    fn server_address(&self) -> Option<SocketAddr> {
        None
    }

    /// Working parameters, but with the server at `address`, where a proxy to
    /// [`Harness::server_address`] listens.
    fn params_through(&self, _address: SocketAddr) -> Option<Params> {
        None
    }

    /// Bytes of payload that are certainly too many by one or more, headers aside: the limit as the plugin's
    /// text names it. `None`: there is no limit.
    fn size_limit(&self) -> Option<usize> {
        None
    }

    /// Changes that turn a good message into one that the protocol can't carry (a destination, a header), each
    /// with a name. All of them have to be refused by the plugin before they reach the wire.
    fn invalid(&self) -> Vec<(&'static str, Spoil)> {
        Vec::new()
    }
}
