//! Broker plugin for NATS JetStream.
//!
//! | module | what it holds |
//! |---|---|
//! | `params`, `server` | the `params` table and the urls in it, checked |
//! | `destination` | a route's `to`: subject and expected stream |
//! | `connect` | a connection that JetStream answers on |
//! | `life` | the client's thread, and how a connection ends |
//! | `envelope` | a message as NATS carries it |
//! | `publish` | a batch out, its acknowledgements in |
//! | `classify`, `complaint` | what errors mean, and what the server says unasked |
//!
//! Parameters:
//!
//! | key | default | what it is |
//! |---|---|---|
//! | `url` | required | `nats://` or `tls://` servers, with commas; may hold `user:password@` or `token@` |
//! | `credentials` | | text of a credentials file (user JWT and seed) |
//! | `token`, `nkey`, `user` and `password` | | other ways to log in; one at most |
//! | `ca_file`, `cert_file`, `key_file` | the system's certificates | PEM files for TLS |
//! | `domain` or `api_prefix` | `$JS.API` | where JetStream answers |
//! | `inbox_prefix` | `_INBOX` | where acknowledgements come to |
//! | `max_ack_inflight` | 1000 | unconfirmed messages on the connection; further ones wait their turn |
//! | `duplicate_window` | | the streams' window, so that retries can be checked against it |
//!
//! A message is confirmed by JetStream's acknowledgement. Its id goes out as `Nats-Msg-Id`, and a copy that the
//! stream removed as a duplicate counts as confirmed. A stream that discards old messages when it is full
//! (`discard = old`) acknowledges and loses; no publisher can see that.
//!
//! Only the servers in `url` are used: name several of a cluster. Must not know tenants, tables or leases.

mod classify;
mod complaint;
mod connect;
mod destination;
mod envelope;
mod life;
mod params;
mod publish;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;

use outrider_broker::{
    Broker, ConnectError, ConnectOptions, Connection, Facts, Fault, Params, Plugin, async_trait,
};

use crate::connect::Link;
use crate::params::Settings;

/// `kind = "nats"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nats;

impl Plugin for Nats {
    fn kind(&self) -> &'static str {
        "nats"
    }

    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        Ok(Arc::new(NatsBroker { settings: Settings::parse(params)? }))
    }

    fn public_params(&self) -> &'static [&'static str] {
        params::PUBLIC
    }
}

/// One configured NATS system.
#[derive(Debug)]
struct NatsBroker {
    settings: Settings,
}

#[async_trait]
impl Broker for NatsBroker {
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        destination::complete(to)
    }

    /// No bound of its own: what is over `max_ack_inflight` waits, until its batch's deadline at most.
    fn facts(&self) -> Facts {
        Facts { duplicate_window: self.settings.duplicate_window, ..Facts::default() }
    }

    async fn connect(&self, options: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        match Link::open(&self.settings, &options).await {
            Ok(link) => Ok(Arc::new(link)),
            Err(cause) => Err(ConnectError(cause)),
        }
    }
}
