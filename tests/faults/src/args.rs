//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Injects one fault after another into a relay that works, and judges what came of it.
///
/// The release daemon runs against a PostgreSQL, a Kafka, a RabbitMQ and a NATS of its own, under a steady load of keyed
/// events from three tenants. After each fault everything that committed is compared with everything that the brokers
/// hold. A fault has passed when nothing is lost, the first copies of each key are in order, copies are within what the
/// contract allows, and nothing is dead but what the fault made so.
///
/// Exit code: 0 all passed, 1 one failed, 2 wrong arguments.
///
/// Examples:
///   cargo xtask faults --list
///   cargo xtask faults --only relay.killed-after-claim --seconds 20
///   cargo xtask faults --only database --json
///   cargo xtask faults --quick
#[derive(Debug, Parser)]
#[command(name = "cargo xtask faults", verbatim_doc_comment)]
pub(crate) struct Args {
    /// Only faults whose name is this or begins with it; may be given more than once.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// List the faults, and run none.
    #[arg(long)]
    pub(crate) list: bool,
    /// The short selection that runs in less than 6 minutes.
    #[arg(long)]
    pub(crate) quick: bool,
    /// How long there is load before a fault, and after it, in seconds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,
    /// Of random times, and of the pairs of faults; the same seed draws the same.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How many faults are injected at the same time, each into a relay of its own; those that break a server, which
    /// all share, always come alone.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub(crate) jobs: u8,
    /// Random pairs of faults, injected into the same relay at the same moment, after the single ones; default: 3, with
    /// --quick or --only 0.
    #[arg(long, value_name = "N")]
    pub(crate) pairs: Option<usize>,
    /// Run the daemon without one of its guards; the kit has to fail then.
    #[arg(long, value_name = "GUARD", value_parser = ["claim-token", "lane-lock", "floor", "key-block"])]
    pub(crate) without_guard: Option<String>,
    /// Print one JSON object a fault, and a last one with the sums, on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// The daemon to run, built with the feature `failpoints`.
    #[arg(long, env = "OUTRIDER_BIN", hide = true)]
    pub(crate) outrider: PathBuf,
}
