//! The servers as containers: runs the `outrider-containers` program and takes the addresses it prints.
//!
//! Started at most once per process, kept until the process ends: the program stops its containers when its
//! standard input closes. Must not: be used where private servers are given by environment variables.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};

use crate::address;
use crate::process::succeeds_within;

/// The line by which the program says that all addresses are printed.
pub const READY: &str = "ready";

/// How long `docker version` may take. A daemon that hangs longer is as good as none.
const DOCKER_ANSWERS_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Containers {
    addresses: BTreeMap<String, String>,
    /// Held for its standard input: closed with this process, it ends the containers.
    _program: Child,
}

/// Whether a Docker engine answers.
pub fn docker_answers() -> bool {
    succeeds_within(
        Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]),
        DOCKER_ANSWERS_WITHIN,
    )
}

/// Whether the shared servers are containers: so `cargo xtask` says, or no address is given and Docker answers.
pub(crate) fn in_use() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    is_set(address::CONTAINERS) || (!is_set(address::POSTGRES_URL) && docker_answers())
}

/// The value that the containers give to the environment variable `name`.
pub(crate) fn address(name: &str) -> Result<String> {
    static CONTAINERS: OnceLock<Result<Containers, String>> = OnceLock::new();
    let containers = CONTAINERS.get_or_init(|| start().map_err(|cause| format!("{cause:#}")));
    let containers = containers.as_ref().map_err(|cause| anyhow!("{cause}"))?;
    containers.addresses.get(name).cloned().with_context(|| format!("the containers have no `{name}`"))
}

fn start() -> Result<Containers> {
    if !docker_answers() {
        bail!("Docker does not answer");
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut program = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["run", "--quiet", "--package", "outrider-containers"])
        .current_dir(workspace)
        // Out of reach of a Ctrl-C, which would end it before it has removed the containers.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("`cargo run --package outrider-containers` does not start")?;
    let output = program.stdout.take().context("the containers' standard output is not readable")?;
    match read_addresses(BufReader::new(output)) {
        Ok(addresses) => Ok(Containers { addresses, _program: program }),
        Err(cause) => {
            drop(program.stdin.take());
            let _ = program.wait();
            Err(cause)
        }
    }
}

fn read_addresses(output: impl BufRead) -> Result<BTreeMap<String, String>> {
    let mut addresses = BTreeMap::new();
    for line in output.lines() {
        let line = line.context("the containers' output broke off")?;
        if line == READY {
            return Ok(addresses);
        }
        if let Some((name, value)) = line.split_once('=') {
            addresses.insert(name.to_owned(), value.to_owned());
        }
    }
    bail!("the containers did not come up; their messages are above")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_end_at_the_ready_line() {
        let addresses = read_addresses("A=1\nB=x=y\nready\nC=3\n".as_bytes()).unwrap();
        assert_eq!(addresses.get("A").map(String::as_str), Some("1"));
        assert_eq!(addresses.get("B").map(String::as_str), Some("x=y"));
        assert!(!addresses.contains_key("C"));
    }

    #[test]
    fn output_without_ready_is_a_failure() {
        assert!(read_addresses("A=1\n".as_bytes()).is_err());
    }
}
