//! `cargo xtask lint`: format, clippy, and what cargo-deny checks.

use std::process::{ExitCode, Stdio};

use anyhow::{Result, bail};
use outrider_servers::install::apt;

use crate::cargo::{self, CONTAINERS};
use crate::progress::Progress;

pub(crate) fn run(progress: &Progress) -> Result<ExitCode> {
    for (subcommand, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !is_installed(subcommand) {
            bail!("run `cargo {subcommand}`: it is not installed (rustup component add {component})");
        }
    }
    progress.step("format", || cargo::run(&mut cargo::command(&["fmt", "--all", "--check"])))?;
    if apt::is_here() {
        // Clippy runs the build scripts, and with them librdkafka's.
        apt::ensure_build(&|text| progress.tell(text))?;
    }
    progress.step("clippy", || {
        let mut command =
            cargo::command(&["clippy", "--workspace", "--exclude", CONTAINERS, "--all-targets"]);
        cargo::run(command.args(["--", "-D", "warnings"]))
    })?;
    if is_installed("deny") {
        let mut command = cargo::command(&["deny", "check", "bans", "licenses", "sources"]);
        progress.step("bans, licences, sources", || cargo::run(&mut command))?;
    } else {
        progress.tell(
            "bans, licences, sources: NOT CHECKED, cargo-deny is missing (cargo install cargo-deny --locked)",
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn is_installed(subcommand: &str) -> bool {
    let mut command = cargo::command(&[subcommand, "--version"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
