//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::target::Broker;

/// Drains a backlog from one tenant's database to a broker and to a null publisher, in turns, and compares, also with what
/// the broker's client reaches alone with the same messages.
///
/// Everything but --param runs with outrider's defaults; variables such as OUTRIDER_DELIVERY__CLAIMS_IN_FLIGHT=4
/// reach the daemon. Exit code 0: nothing was lost, order held, and with --quick each ratio is above its floor. 1: not
/// so, or it could not be run. 130: interrupted.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench")]
pub(crate) struct Args {
    /// Events in the backlog of each run
    #[arg(long, default_value_t = 100_000, default_value_if("quick", "true", "30000"),
        value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    pub(crate) events: u32,

    /// 30,000 events, and a failure below a floor: for a gate. What --events says counts all the same
    #[arg(long)]
    pub(crate) quick: bool,

    /// Bytes of payload of each event; incompressible
    #[arg(long, default_value_t = 1024, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=900_000))]
    pub(crate) payload: u32,

    /// Runs of each kind; the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) runs: u32,

    /// The broker
    #[arg(long, value_enum, default_value_t = Broker::Kafka)]
    pub(crate) broker: Broker,

    /// A parameter of the broker's client, such as `linger.ms=0`; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(crate) param: Vec<(String, String)>,

    /// Prints the result as one JSON object, the last line on stdout
    #[arg(long)]
    pub(crate) json: bool,

    /// The outrider program
    #[arg(long, env = "OUTRIDER_BIN", hide_env_values = true, value_name = "PATH")]
    pub(crate) outrider: PathBuf,
}

fn parameter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}
