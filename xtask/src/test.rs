//! `cargo xtask test`: every test of the workspace, against private servers that live as long as the run.
//!
//! Cargo runs test programs one after another, and most of ours wait for servers, so they run in rows side by side,
//! each a `cargo test` of its own. What all but the first print is shown when they end.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use outrider_servers::address::KEEP_DATABASES;
use outrider_servers::holder;
use outrider_servers::kafka::Tuning;
use outrider_servers::place::{self, Medium};
use outrider_servers::shared;
use serde_json::Value;

use crate::cargo::{self, CONTAINERS};
use crate::interrupt::{self, Interrupt};
use crate::progress::Progress;
use crate::setup;

/// The test program of the whole daemon. It lives through minutes of outage.
const LONGEST: &str = "it";

/// Tests at a time, whatever the number of cores: nearly all of them wait for a server.
const THREADS: &str = "4";

/// The other test programs of a row at most.
const ROW: usize = 4;

/// Tests of [`LONGEST`] at a time: with fewer, those that last a minute would follow each other. They begin in the order of
/// their names; a module with such a test has one that comes early.
const LONGEST_THREADS: &str = "16";

pub(crate) fn run(arguments: &[OsString], progress: &Progress, interrupt: &Interrupt) -> Result<ExitCode> {
    let selection = selection(arguments);
    let build = || cargo::run(cargo::command(&["test", "--no-run"]).args(&selection).args(arguments));
    let how = (Tuning::Tests, Medium::Memory);
    let servers = setup::servers_while_building("test", how, progress, interrupt, build)?;
    for (name, value) in servers.variables() {
        progress.tell(&format!("{name}={value}"));
    }
    // Said before the tests, for the last lines are to be cargo's own.
    progress.tell(&format!("afterwards the servers' logs are in `{}`", shared::logs().display()));
    let tests = |threads: &str, options: &[String]| {
        let mut command = cargo::command(&["test"]);
        command.args(&selection).args(options).args(arguments);
        if std::env::var_os("RUST_TEST_THREADS").is_none() {
            command.env("RUST_TEST_THREADS", threads);
        }
        servers.tell(&mut command);
        if servers.in_memory() {
            command.env(KEEP_DATABASES, "1");
        }
        command
    };
    let exit = if arguments.is_empty() { all(tests, progress)? } else { show(&mut tests(THREADS, &[]))? };
    drop(servers);
    holder::sweep();
    place::tidy();
    if interrupt.came() {
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    Ok(exit)
}

/// Unit tests and the examples in documentation beside the test programs of plugins and harnesses, and beside
/// [`LONGEST`].
fn all(tests: impl Fn(&str, &[String]) -> Command, progress: &Progress) -> Result<ExitCode> {
    let (longest, others): (Vec<String>, Vec<String>) =
        test_programs()?.into_iter().partition(|name| name == LONGEST);
    let rows =
        std::iter::once((LONGEST_THREADS, &longest[..])).chain(others.chunks(ROW).map(|row| (THREADS, row)));
    let beside: Vec<_> = rows
        .map(|(threads, names)| {
            let options: Vec<String> =
                names.iter().rev().flat_map(|name| ["--test".to_owned(), name.clone()]).collect();
            let mut command = tests(threads, &options);
            (options.join(" "), std::thread::spawn(move || command.output()))
        })
        .collect();
    progress.tell(&format!(
        "tests, in {} rows side by side; what all but the first print is shown when they end",
        beside.len() + 1
    ));
    let mut exit = ExitCode::SUCCESS;
    let mut ended = |code: ExitCode| {
        if exit == ExitCode::SUCCESS {
            exit = code;
        }
    };
    for options in [&["--lib", "--bins"][..], &["--doc"]] {
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        ended(show(&mut tests(THREADS, &options))?);
    }
    for (options, running) in beside.into_iter().rev() {
        let output = running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let output = output.with_context(|| format!("run `cargo test {options}`"))?;
        progress.tell(&format!("what ran beside them: cargo test {options}"));
        std::io::stderr().write_all(&output.stderr)?;
        std::io::stdout().write_all(&output.stdout)?;
        ended(cargo::exit_code(output.status));
    }
    Ok(exit)
}

fn show(command: &mut Command) -> Result<ExitCode> {
    Ok(cargo::exit_code(command.status().context("run `cargo test`")?))
}

/// Names of the test programs in the workspace's `tests/` folders.
fn test_programs() -> Result<BTreeSet<String>> {
    let mut command = cargo::command(&["metadata", "--no-deps", "--format-version", "1"]);
    let output = command.output().context("run `cargo metadata`")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("read cargo's metadata")?;
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
