//! A private NATS server with JetStream on file storage.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::address::NATS_URL;
use crate::daemon::Daemon;
use crate::holder::Holder;
use crate::install::Install;
use crate::server::Server;
use crate::{ports, probe};

/// The server's own default, in bytes.
pub const MAX_PAYLOAD: usize = 1024 * 1024;

/// Starts a new, empty one for the calling process. Ready in 0.1 s.
///
/// # Errors
/// When it is not installed, or does not start.
pub fn start(install: &Install) -> Result<Server> {
    start_for(&Holder::own()?, install)
}

/// The largest payload, in bytes, that it takes from its next start on; by itself 1 MiB.
///
/// # Errors
/// When its config can't be written.
pub fn limit_payload(server: &Server, bytes: usize) -> Result<()> {
    configure(server.folder(), bytes)
}

fn configure(folder: &Path, max_payload: usize) -> Result<()> {
    let path = folder.join("nats.conf");
    let text = format!("max_payload: {max_payload}\n");
    fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))
}

pub(crate) fn start_for(holder: &Holder, install: &Install) -> Result<Server> {
    let program = install.nats()?;
    let folder = holder.server_folder("nats")?;
    let (port, monitor) = (ports::free()?, ports::free()?);
    configure(&folder, MAX_PAYLOAD)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(folder.join("nats.conf"));
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-m", &monitor.to_string()]);
    command.args(["-js", "-sd"]).arg(folder.join("data")).current_dir(&folder);
    let daemon = Daemon::new("nats-server", command, &folder.join("nats.log"))?
        .ready_when(move || probe::listens(port) && probe::http_is_ok(monitor, "/healthz", ""));
    let ports = [("nats", port), ("monitor", monitor)].into();
    Server::start("nats", folder, ports, vec![(NATS_URL, format!("nats://127.0.0.1:{port}"))], vec![daemon])
}
