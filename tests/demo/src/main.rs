//! A small business on outrider, with a kill in the middle: what `cargo xtask demo` runs.
//!
//! Three tenants write orders and their events in one transaction each, about one in ten is rolled back, and the
//! topics of each tenant go to three brokers. In the end everything that committed must have had its effect
//! exactly once at its consumer. Judges from the outside only: uses the `outrider` program, never its library.
//!
//! Expects the servers' addresses in `OUTRIDER_TEST_*` and the program in `OUTRIDER_BIN`.

mod args;
mod config;
mod consumers;
mod numbers;
mod play;
mod progress;
mod report;
mod stage;
mod tally;
mod writers;

use std::process::ExitCode;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::Args;

/// 128 + SIGINT, as a shell reports a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("demo: failed to {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let interrupted = async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::pin!(interrupted);
    let stage = tokio::select! {
        stage = stage::Stage::set(args) => stage?,
        () = &mut interrupted => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let outcome = play::play(args, &stage, interrupted).await;
    stage.clear().await;
    match outcome? {
        play::Outcome::Clean => Ok(ExitCode::SUCCESS),
        play::Outcome::Unclean => Ok(ExitCode::FAILURE),
        play::Outcome::Interrupted => Ok(ExitCode::from(INTERRUPTED)),
    }
}
