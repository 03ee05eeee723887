//! `cargo xtask test`: every test of the workspace, against private servers that live as long as the run.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use anyhow::{Context, Result};
use outrider_servers::holder;
use outrider_servers::kafka::Tuning;
use outrider_servers::shared;

use crate::cargo::{self, CONTAINERS};
use crate::interrupt::{self, Interrupt};
use crate::progress::Progress;
use crate::setup;

/// Tests at a time, whatever the number of cores: most of them wait, some for a minute because that is what they claim.
/// Many more, and the busy ones miss their deadlines on a small machine.
const TEST_THREADS: &str = "4";

pub(crate) fn run(arguments: &[OsString], progress: &Progress, interrupt: &Interrupt) -> Result<ExitCode> {
    let selection = selection(arguments);
    let build = || cargo::run(cargo::command(&["test", "--no-run"]).args(&selection).args(arguments));
    let servers = setup::servers_while_building("test", Tuning::Tests, progress, interrupt, build)?;
    for (name, value) in servers.variables() {
        progress.tell(&format!("{name}={value}"));
    }
    // Said before the tests, for the last lines are to be cargo's own.
    progress.tell(&format!("tests; afterwards the servers' logs are in `{}`", shared::logs().display()));
    let mut command = cargo::command(&["test"]);
    command.args(selection).args(arguments);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", TEST_THREADS);
    }
    servers.tell(&mut command);
    let status = command.status().context("run `cargo test`")?;
    drop(servers);
    holder::sweep();
    if interrupt.came() {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(cargo::exit_code(status))
}

/// The whole workspace but the containers, unless told which packages; to the end, even if something fails.
fn selection(arguments: &[OsString]) -> Vec<&'static str> {
    let own = arguments.iter().take_while(|argument| *argument != OsStr::new("--"));
    let mut names_packages = own.filter_map(|argument| argument.to_str()).map(|argument| {
        argument.starts_with("-p") || argument.starts_with("--package") || argument == "--workspace"
    });
    if names_packages.any(|names| names) {
        vec!["--no-fail-fast"]
    } else {
        vec!["--workspace", "--exclude", CONTAINERS, "--no-fail-fast"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_packages_replace_the_workspace() {
        for (arguments, whole) in [
            (&[][..], true),
            (&["--test", "it"], true),
            (&["-p", "outrider-kafka"], false),
            (&["--package=outrider-kafka"], false),
            (&["--", "-p"], true),
        ] {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            assert_eq!(selection(&arguments).contains(&"--workspace"), whole, "{arguments:?}");
        }
    }
}
