//! The Kafka plugin against a real Kafka, and against librdkafka's mock cluster where a fault has to be made.

// A test that cannot go on may panic anywhere, also in what the tests share.
#![allow(clippy::unwrap_used)]

mod auth;
mod conformance;
mod faults;
mod keys;
mod server;
mod support;
