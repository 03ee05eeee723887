//! `cargo xtask test`: every test of the workspace, against private servers that live as long as the run.
//!
//! Cargo runs test programs one after another. Most of ours wait for servers, so the ones in `tests/` folders run side by
//! side here, each by a `cargo test` of its own, whose output is shown when it ends.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::{Command, ExitCode, Output};
use std::sync::mpsc;

use anyhow::{Context, Result};
use outrider_servers::holder;
use outrider_servers::kafka::Tuning;
use outrider_servers::shared;

use crate::cargo::{self, CONTAINERS};
use crate::interrupt::{self, Interrupt};
use crate::progress::Progress;
use crate::setup;

pub(crate) fn run(arguments: &[OsString], progress: &Progress, interrupt: &Interrupt) -> Result<ExitCode> {
    let selection = selection(arguments);
    let build = || cargo::run(cargo::command(&["test", "--no-run"]).args(&selection).args(arguments));
    let servers = setup::servers_while_building("test", Tuning::Tests, progress, interrupt, build)?;
    for (name, value) in servers.variables() {
        progress.tell(&format!("{name}={value}"));
    }
    // Said before the tests, for the last lines are to be cargo's own.
    progress.tell(&format!("tests; afterwards the servers' logs are in `{}`", shared::logs().display()));
    let tests = |options: &[&str]| {
        let mut command = cargo::command(&["test"]);
        command.args(&selection).args(options).args(arguments);
        servers.tell(&mut command);
        command
    };
    let exit = if arguments.is_empty() {
        all(tests, progress)?
    } else {
        cargo::exit_code(tests(&[]).status().context("run `cargo test`")?)
    };
    drop(servers);
    holder::sweep();
    if interrupt.came() {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(exit)
}

/// Tests of one program at a time, whatever the number of cores: most of them wait, some for a minute because that is
/// what they claim. Many more, and the busy ones miss their deadlines on a small machine.
const TEST_THREADS: &str = "8";

/// Unit and documentation tests, then all programs in `tests/` folders side by side.
fn all(tests: impl Fn(&[&str]) -> Command, progress: &Progress) -> Result<ExitCode> {
    let mut exit = ExitCode::SUCCESS;
    for options in [["--lib", "--bins"].as_slice(), &["--doc"]] {
        let status = tests(options).status().context("run `cargo test`")?;
        if !status.success() {
            exit = cargo::exit_code(status);
        }
    }
    let (ended, ends) = mpsc::channel::<(String, std::io::Result<Output>)>();
    for name in test_programs()? {
        let mut command = tests(&["--test", &name]);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", TEST_THREADS);
        }
        let ended = ended.clone();
        std::thread::spawn(move || {
            let output = command.output();
            // Nobody waits any more: the run failed already.
            let _ = ended.send((name, output));
        });
    }
    drop(ended);
    for (name, output) in ends {
        let output = output.with_context(|| format!("run `cargo test --test {name}`"))?;
        progress.tell(&format!("tests called `{name}`:"));
        std::io::stderr().write_all(&output.stderr)?;
        std::io::stdout().write_all(&output.stdout)?;
        if !output.status.success() {
            exit = cargo::exit_code(output.status);
        }
    }
    Ok(exit)
}

/// Names of all test targets in the workspace's `tests/` folders.
fn test_programs() -> Result<BTreeSet<String>> {
    let mut command = cargo::command(&["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.output().context("run `cargo metadata`")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("read cargo's metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let targets = packages.flat_map(|package| package["targets"].as_array().into_iter().flatten());
    let programs = targets.filter(|target| target["kind"][0] == "test");
    Ok(programs.filter_map(|target| target["name"].as_str().map(str::to_owned)).collect())
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
