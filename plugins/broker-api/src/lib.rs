//! The contract between outrider and a broker plugin.
//!
//! outrider knows nothing about any broker; a plugin knows nothing about databases, tenants' tables
//! or leases. Between them stand four things:
//!
//! | item | what it is |
//! |---|---|
//! | [`Plugin`] | one *kind* of broker: turns the `params` of a config section into a checked [`Broker`], without I/O |
//! | [`Broker`] | one *configured* broker: checks destinations, opens a [`Connection`] |
//! | [`Connection`] | a live link: publishes a batch before a deadline, probes, closes |
//! | [`Outcome`] | what became of one message; there is no error beside it |
//!
//! To add a broker, write a crate with these three traits, run `outrider-broker-testkit`'s suite
//! against the real server, and register the plugin in a binary of a few lines.

mod message;
mod outcome;
mod plugin;

pub use message::{Destination, Message, OUTRIDER_HEADERS};
pub use outcome::{Cause, ErrorClass, Outcome, Receipt, Refusal, Scope};
pub use plugin::{Broker, ConnectError, ConnectOptions, Connection, Facts, Fault, Params, Plugin};

pub use async_trait::async_trait;
