//! Private PostgreSQL, Kafka, RabbitMQ and NATS servers on loopback, and the addresses of those in use.
//!
//! The map:
//! - [`address`] is what a test asks for the shared servers; it turns to [`containers`] when no address is given
//!   and Docker answers.
//! - [`postgres`], [`kafka`], [`rabbitmq`] and [`nats`] start a throwaway [`Server`] that a test may kill, pause
//!   and restart. [`Install`] says where the programs are.
//! - [`left_out`] is for tests that need such a server where there are only containers.
//! - [`shared`] is the set that `cargo xtask` starts, [`holder`] the state on disk by which another process shows
//!   and stops it, [`install`] what brings in missing programs.
//!
//! Must not: hold a client of any of these servers, be async, or touch a process it did not start.

pub mod address;
pub mod containers;
mod daemon;
pub mod holder;
pub mod install;
pub mod kafka;
pub mod left_out;
pub mod nats;
pub mod pgbouncer;
pub mod place;
pub mod ports;
pub mod postgres;
mod probe;
pub mod process;
pub mod rabbitmq;
mod server;
pub mod shared;

pub use daemon::give_up;
pub use install::Install;
pub use process::Signal;
pub use server::Server;

#[cfg(test)]
mod tests;
