//! First throughput figures: what `cargo xtask bench` runs, in release builds.
//!
//! Drains a backlog of one tenant to a broker, and the same backlog with a null publisher (`kind = "memory"`, which
//! confirms and keeps nothing): the same SQL, so the second is the ceiling of the first. Measures from the outside only, by the
//! receipts that the database's clock stamped. Figures of one run can be compared with each other, those of two machines can't.

mod args;
mod drain;
mod report;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: failed to {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Null publisher and broker by turns, so that what changes on the machine meanwhile meets both.
async fn run(args: &Args) -> anyhow::Result<()> {
    let mut figures = report::Figures::default();
    for round in 1..=args.rounds {
        for target in [drain::Target::Null, args.broker.into()] {
            eprintln!("bench: round {round} of {}: {} events to {target}", args.rounds, args.events);
            let figure = drain::drain(args, target).await?;
            eprintln!("bench:   {figure}");
            figures.add(target, figure);
        }
    }
    figures.print(args)
}
