//! Throughput figures: what `cargo xtask bench` runs.
//!
//! A backlog of events in one tenant's database is drained by the `outrider` program to a broker, and, in turns with
//! that, to a publisher that throws everything away: the same SQL. The ratio of the two rates is what the broker costs; the
//! rates themselves belong to the machine. What a broker got is read back: a rate with something lost or out of order
//! does not count.
//!
//! Judges from the outside only: uses the `outrider` program, never its library. Expects the servers' addresses in
//! `OUTRIDER_TEST_*` and the program, a release build, in `OUTRIDER_BIN`.

mod args;
mod backlog;
mod bench;
mod ceiling;
mod check;
mod config;
mod drain;
mod figures;
mod goals;
mod machine;
mod process;
mod report;
mod target;

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;
use crate::bench::Bench;

/// 128 + SIGINT, as a shell reports a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[tokio::main(flavor = "multi_thread")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: failed to {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let interrupted = async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    let mut bench = Bench::new(args);
    let outcome = tokio::select! {
        outcome = bench.run() => Some(outcome),
        () = interrupted => None,
    };
    bench.clear().await;
    match outcome {
        None => Ok(ExitCode::from(INTERRUPTED)),
        Some(report) => {
            let report = report?;
            report.print(bench.args.json)?;
            let good = report.is_clean() && (!bench.args.quick || report.is_above_floors());
            Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}
