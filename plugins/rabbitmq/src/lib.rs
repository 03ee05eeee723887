//! RabbitMQ: AMQP 0-9-1 with publisher confirms, through `lapin`.
//!
//! | file | what it holds |
//! |---|---|
//! | `params` | the `params` table and a route's `to` table, checked; pure |
//! | `address` | the `url` parameter; pure |
//! | `wire` | one message as AMQP carries it, or why it can't; pure |
//! | `connect` | opening a connection, and the true reason why not |
//! | `socket` | the way to end a connection so that nothing buffered leaves any more |
//! | `pool` | confirm channels, a bounded number, made on demand |
//! | `flight` | messages on one channel: hand over, collect confirms and returns |
//! | `settle` | what the answers of a flight mean for each of its messages; pure |
//! | `publish` | a batch over one or more channels |
//! | `link` | the live connection: what the other files share, probe, close |
//! | `classify` | `lapin`'s errors and AMQP's reply codes as the contract's classes |
//!
//! # What a confirmed message went through
//!
//! Every message is published `mandatory` on a channel in confirm mode, and only an ack without a return
//! confirms it. The client library hands a return to whichever confirm completes next, so a confirm on
//! its own proves nothing about its own message: returns are matched by `message_id` once the
//! channel's answers are in ([`settle`]).
//!
//! # One bad message among good ones
//!
//! A missing exchange, one without write permission or a message over the broker's size limit closes the
//! channel, and all confirms still open on it are lost. So everything that can be is checked before the
//! wire, and the first message for an exchange that this connection did not use yet is alone on its channel until
//! the broker has processed it, and so is one that was on a channel when it closed for a reason that names nobody.
//!
//! Must not: use the library's own reconnecting (it replays and renumbers confirms behind our back), publish a
//! message twice by itself, or show a URL, payload or header value.

mod address;
mod classify;
mod connect;
mod flight;
mod link;
mod params;
mod pool;
mod publish;
mod settle;
mod socket;
mod wire;

use std::sync::Arc;

use outrider_broker::{Broker, Fault, Params, Plugin};

/// Log directives that the daemon's filter has to contain: the client library logs returned messages with
/// their whole body at `warn`, and frames, which hold bodies and the password, at `trace`.
pub const QUIET: &str = "lapin=warn,lapin::returned_messages=error";

/// `kind = "rabbitmq"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RabbitMqPlugin;

impl Plugin for RabbitMqPlugin {
    fn kind(&self) -> &'static str {
        "rabbitmq"
    }

    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        let settings = params::parse(params)?;
        Ok(Arc::new(connect::RabbitMq::new(settings)))
    }

    fn public_params(&self) -> &'static [&'static str] {
        &["vhost", "heartbeat", "unroutable", "persistent", "max_message_bytes"]
    }
}
