//! Running cargo, and where it puts what it builds.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, bail};
use outrider_servers::place;

/// The package that is not part of tests and lints: it is a heavy build, and only for where Docker is.
pub(crate) const CONTAINERS: &str = "outrider-containers";

/// Cargo in the workspace. What the outer `cargo run` tells this program about its own package is taken out of
/// the environment: build scripts that watch those variables would build half of the tree again each time.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(place::workspace());
    for (name, _) in std::env::vars_os() {
        if is_from_cargo_run(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn is_from_cargo_run(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_")
        || ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_MANIFEST_LINKS"].contains(&name.as_ref())
}

/// Runs a cargo command and fails unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
    let shown = arguments.join(" ");
    let status = command.status().with_context(|| format!("run `cargo {shown}`"))?;
    if !status.success() {
        bail!("run `cargo {shown}`: {status}");
    }
    Ok(())
}

/// Where programs built with `profile` (`debug` or `release`) are: this one lies beside or near them, whatever
/// target folder is configured.
pub(crate) fn programs(profile: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("find this program")?;
    let target = own.ancestors().nth(2).context("find cargo's target folder")?;
    Ok(target.join(profile))
}

/// A child's exit code as this program's own.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => ExitCode::from(code),
        None => ExitCode::FAILURE,
    }
}
