//! The Kafka plugin against a real Kafka, and against librdkafka's mock cluster where a fault has to be made.

mod auth;
mod conformance;
mod faults;
mod keys;
mod server;
mod support;
