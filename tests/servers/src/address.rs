//! Addresses of the servers that tests, demo and bench share.
//!
//! Each function takes its environment variable first. Without it, and where Docker answers, the servers are
//! started as containers, once per process. Without either it panics with the remedy: a missing server is a
//! failure, not a skip. Must not: start private servers; that is `cargo xtask test` or `cargo xtask servers up`.

use crate::containers;

/// Superuser URL of PostgreSQL 15.
pub const POSTGRES_URL: &str = "OUTRIDER_TEST_POSTGRES_URL";
/// Superuser URL of PostgreSQL 18, the one server that may be absent.
pub const POSTGRES18_URL: &str = "OUTRIDER_TEST_POSTGRES18_URL";
/// `host:port` of one Kafka broker with topic auto-creation off.
pub const KAFKA_BOOTSTRAP: &str = "OUTRIDER_TEST_KAFKA_BOOTSTRAP";
/// AMQP URL of RabbitMQ, user and virtual host included.
pub const RABBITMQ_URL: &str = "OUTRIDER_TEST_RABBITMQ_URL";
/// Base URL of RabbitMQ's management API, user included, no trailing slash.
pub const RABBITMQ_MANAGEMENT_URL: &str = "OUTRIDER_TEST_RABBITMQ_MANAGEMENT_URL";
/// URL of NATS with JetStream on.
pub const NATS_URL: &str = "OUTRIDER_TEST_NATS_URL";
/// Set where the databases of tests need not be dropped one by one: their servers end after the run, data included.
pub const KEEP_DATABASES: &str = "OUTRIDER_TEST_KEEP_DATABASES";
/// Set where these servers are containers. Tests that need a server of their own may then find none.
pub const CONTAINERS: &str = "OUTRIDER_TEST_CONTAINERS";

/// Superuser URL of PostgreSQL 15, such as `postgres://postgres@127.0.0.1:5432/postgres`.
///
/// # Panics
/// Like all functions here but [`postgres18`]: when the server is neither named nor to be had from Docker.
pub fn postgres() -> String {
    required(POSTGRES_URL)
}

/// Superuser URL of PostgreSQL 18, or `None` where it could not be had. Never panics.
pub fn postgres18() -> Option<String> {
    from_environment(POSTGRES18_URL)
}

/// `host:port` of Kafka.
pub fn kafka() -> String {
    required(KAFKA_BOOTSTRAP)
}

/// AMQP URL of RabbitMQ, with user, password and virtual host.
pub fn rabbitmq() -> String {
    required(RABBITMQ_URL)
}

/// Base URL of RabbitMQ's management API, with user and password, without a slash at its end.
pub fn rabbitmq_management() -> String {
    required(RABBITMQ_MANAGEMENT_URL)
}

/// URL of NATS.
pub fn nats() -> String {
    required(NATS_URL)
}

/// Whether [`KEEP_DATABASES`] is set.
pub fn keep_databases() -> bool {
    from_environment(KEEP_DATABASES).is_some()
}

fn required(name: &str) -> String {
    if let Some(value) = from_environment(name) {
        return value;
    }
    let reason = match containers::address(name) {
        Ok(value) => return value,
        Err(reason) => reason,
    };
    panic!(
        "no server to test against: `{name}` is not set and {reason:#}; run `cargo xtask test`, which starts \
         private servers, or set the variables with `eval \"$(cargo xtask servers up)\"`"
    )
}

/// An empty value counts as not set, as a shell's `NAME= command` means it.
fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
