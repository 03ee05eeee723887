//! `cargo xtask demo`, `bench` and `faults`: servers, the built daemon, and a program that uses both.

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
    /// Starts servers of its own, to break them.
    Faults,
}

impl Program {
    fn package(self) -> &'static str {
        match self {
            Program::Demo => "outrider-demo",
            Program::Bench => "outrider-bench",
            Program::Faults => "outrider-faults",
        }
    }

    fn use_name(self) -> &'static str {
        match self {
            Program::Demo => "demo",
            Program::Bench => "bench",
            Program::Faults => "faults",
        }
    }

    /// Figures only count in release builds, and faults are to meet what is shipped, but for its fail points.
    fn profile(self) -> &'static str {
        match self {
            Program::Demo => "debug",
            Program::Bench | Program::Faults => "release",
        }
    }

    fn tuning(self) -> Tuning {
        match self {
            Program::Demo | Program::Faults => Tuning::Tests,
            Program::Bench => Tuning::Bench,
        }
    }

    fn build(self) -> Result<()> {
        let mut command = cargo::command(&["build", "--package", "outrider", "--package", self.package()]);
        if self.profile() == "release" {
            command.arg("--release");
        }
        if self == Program::Faults {
            command.args(["--features", "outrider/failpoints"]);
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
    if program == Program::Faults {
        setup::install_while_building(progress, interrupt, build)?;
        let mut command = program.command(arguments)?;
        setup::tell_places(&mut command);
        progress.tell("faults: run");
        return Ok(cargo::exit_code(command.status().context("run the fault kit")?));
    }
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
