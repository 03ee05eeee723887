//! `cargo xtask demo` and `bench`: servers, the built daemon, and a program that uses both.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use outrider_servers::kafka::Tuning;
use outrider_servers::place::Medium;

use crate::cargo;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::setup;

/// Tells the program where the built daemon is.
const OUTRIDER_BIN: &str = "OUTRIDER_BIN";

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    Demo,
    Bench,
}

impl Program {
    fn package(self) -> &'static str {
        match self {
            Program::Demo => "outrider-demo",
            Program::Bench => "outrider-bench",
        }
    }

    fn use_name(self) -> &'static str {
        match self {
            Program::Demo => "demo",
            Program::Bench => "bench",
        }
    }

    /// Figures only count in release builds.
    fn profile(self) -> &'static str {
        match self {
            Program::Demo => "debug",
            Program::Bench => "release",
        }
    }

    fn tuning(self) -> Tuning {
        match self {
            Program::Demo => Tuning::Tests,
            Program::Bench => Tuning::Bench,
        }
    }

    fn build(self) -> Result<()> {
        let mut command = cargo::command(&["build", "--package", "outrider", "--package", self.package()]);
        if self.profile() == "release" {
            command.arg("--release");
        }
        cargo::run(&mut command)
    }

    fn command(self, arguments: &[OsString]) -> Result<Command> {
        let programs = cargo::programs(self.profile())?;
        let mut command = Command::new(programs.join(self.package()));
        command.args(arguments).env(OUTRIDER_BIN, programs.join("outrider"));
        Ok(command)
    }
}

pub(crate) fn run(
    program: Program,
    arguments: &[OsString],
    progress: &Progress,
    interrupt: &Interrupt,
) -> Result<ExitCode> {
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        program.build()?;
        return Ok(cargo::exit_code(program.command(arguments)?.status().context("show the help")?));
    }
    let build = || program.build();
    let servers = setup::servers_while_building(
        program.use_name(),
        (program.tuning(), Medium::Disk),
        progress,
        interrupt,
        build,
    )?;
    let mut command = program.command(arguments)?;
    servers.tell(&mut command);
    progress.tell(&format!("{}: run", program.use_name()));
    let status = command.status().with_context(|| format!("run `{}`", program.package()))?;
    progress.tell(&format!("{}: ended", program.use_name()));
    drop(servers);
    // Also after a Ctrl-C: the program knows best what that means to it, and with --keep it is a good end.
    Ok(cargo::exit_code(status))
}
