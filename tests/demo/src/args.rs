//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Writes orders and their events for three tenants, relays the events to three brokers with outrider, kills it
/// midway, and checks at the consumers that nothing was lost, doubled, disordered or invented.
///
/// Exit code 0: all of that held. 1: something did not, or could not be run. 130: interrupted.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask demo")]
pub(crate) struct Args {
    /// Events to commit, over all tenants; about a ninth more is rolled back
    #[arg(long, default_value_t = 21_000, value_parser = clap::value_parser!(u64).range(100..=10_000_000))]
    pub(crate) events: u64,

    /// Prints the result as one JSON object, the last line on stdout
    #[arg(long)]
    pub(crate) json: bool,

    /// Leaves everything running afterwards, and says how to look and how to insert an event; Ctrl-C ends it
    #[arg(long)]
    pub(crate) keep: bool,

    /// The outrider program
    #[arg(long, env = "OUTRIDER_BIN", hide_env_values = true, value_name = "PATH")]
    pub(crate) outrider: PathBuf,
}
