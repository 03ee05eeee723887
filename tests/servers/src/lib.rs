//! Private PostgreSQL, Kafka, RabbitMQ and NATS servers on loopback, and the addresses of those in use.
//!
//! The map: [`address`] is what a test asks for the shared servers; [`containers`] is where it turns when no
//! address is given and Docker answers.
//!
//! Must not: hold a client of any of these servers, be async, or touch a process it did not start.

pub mod address;
mod containers;
mod process;
