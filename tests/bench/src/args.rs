//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

/// Measures how fast outrider drains a backlog of one tenant to a broker, beside a null publisher on the same SQL.
///
/// Run it as `cargo xtask bench`: figures of debug builds mean nothing.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
pub(crate) struct Args {
    /// Events of the backlog
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(i64).range(1_000..=50_000_000))]
    pub(crate) events: i64,

    /// Size of each payload
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(8..=900_000))]
    pub(crate) payload_bytes: u32,

    /// Different keys, evenly spread; 0 for events without a key
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) keys: i64,

    /// Times that each is measured; the middle one counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,

    /// Where to
    #[arg(long, value_enum, default_value_t = Broker::Kafka)]
    pub(crate) broker: Broker,

    /// Prints the result as one JSON object, the last line on stdout
    #[arg(long)]
    pub(crate) json: bool,

    /// The outrider program
    #[arg(long, env = "OUTRIDER_BIN", hide_env_values = true, value_name = "PATH")]
    pub(crate) outrider: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Broker {
    Kafka,
    Rabbitmq,
    Nats,
}
