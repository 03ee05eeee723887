//! The servers from Docker, as `compose.yaml` has them: for systems without Debian's packages.
//!
//! Must not: be used where private servers can be installed.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use outrider_servers::{address, containers, place};

/// The addresses that `compose.yaml` publishes; a test holds them equal.
const VARIABLES: [(&str, &str); 5] = [
    (address::POSTGRES_URL, "postgres://postgres@127.0.0.1:21600/postgres"),
    (address::KAFKA_BOOTSTRAP, "127.0.0.1:21610"),
    (address::RABBITMQ_URL, "amqp://guest:guest@127.0.0.1:21620/%2f"),
    (address::RABBITMQ_MANAGEMENT_URL, "http://guest:guest@127.0.0.1:21621"),
    (address::NATS_URL, "nats://127.0.0.1:21630"),
];

/// Containers that run. Dropped, they are removed, with their data.
#[derive(Debug)]
pub(crate) struct Compose(());

/// Whether the containers can be had here.
pub(crate) fn is_here() -> bool {
    containers::docker_answers()
}

/// Starts the containers and waits until all are healthy.
pub(crate) fn start() -> Result<Compose> {
    compose(&["up", "--detach", "--wait"])?;
    Ok(Compose(()))
}

/// Removes the containers and their data.
pub(crate) fn down() -> Result<()> {
    compose(&["down", "--volumes"])
}

/// Shows the containers.
pub(crate) fn status() -> Result<()> {
    compose(&["ps"])
}

pub(crate) fn variables() -> Vec<(String, String)> {
    VARIABLES.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

impl Compose {
    /// Leaves the containers running.
    pub(crate) fn leave_up(self) {
        std::mem::forget(self);
    }
}

impl Drop for Compose {
    fn drop(&mut self) {
        if let Err(cause) = down() {
            eprintln!("failed to {cause:#}");
        }
    }
}

fn compose(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("docker");
    command.args(["compose", "--file", "compose.yaml"]).args(arguments).current_dir(place::workspace());
    let shown = arguments.join(" ");
    // Its standard output too goes to standard error: this program's own is for addresses.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    let status = command.status().with_context(|| format!("run `docker compose {shown}`"))?;
    if !status.success() {
        bail!("run `docker compose {shown}`: {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compose_file_publishes_these_ports() {
        let file = std::fs::read_to_string(place::workspace().join("compose.yaml")).unwrap();
        for (name, value) in VARIABLES {
            let port: String =
                value.rsplit(':').next().unwrap().chars().take_while(char::is_ascii_digit).collect();
            assert!(file.contains(&format!("\"127.0.0.1:{port}:")), "{name}: no port {port} in compose.yaml");
        }
    }
}
