//! A private NATS server with JetStream on file storage.

use std::process::Command;

use anyhow::Result;

use crate::address::NATS_URL;
use crate::daemon::Daemon;
use crate::holder::Holder;
use crate::install::Install;
use crate::server::Server;
use crate::{ports, probe};

/// Starts a new, empty one for the calling process. Ready in 0.1 s.
///
/// # Errors
/// When it is not installed, or does not start.
pub fn start(install: &Install) -> Result<Server> {
    start_for(&Holder::own()?, install)
}

pub(crate) fn start_for(holder: &Holder, install: &Install) -> Result<Server> {
    let program = install.nats()?;
    let folder = holder.server_folder("nats")?;
    let (port, monitor) = (ports::free()?, ports::free()?);
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-m", &monitor.to_string()]);
    command.args(["-js", "-sd"]).arg(folder.join("data")).current_dir(&folder);
    let daemon = Daemon::new("nats-server", command, &folder.join("nats.log"))?
        .ready_when(move || probe::listens(port) && probe::http_is_ok(monitor, "/healthz", ""));
    let ports = [("nats", port), ("monitor", monitor)].into();
    Server::start("nats", folder, ports, vec![(NATS_URL, format!("nats://127.0.0.1:{port}"))], vec![daemon])
}
