//! A private pgbouncer in transaction mode, in front of a PostgreSQL.

use std::fs;

use anyhow::{Context, Result};

use crate::daemon::Daemon;
use crate::holder::Holder;
use crate::install::Install;
use crate::process::Signal;
use crate::server::Server;
use crate::{ports, postgres, probe};

/// Server connections of each database and user: few, so that clients change them all the time.
const POOL_SIZE: u32 = 3;

/// Starts one in front of the PostgreSQL at this loopback port, for these roles, which need no password. Its port has
/// the purpose `pgbouncer`. Ready in a fraction of a second.
///
/// # Errors
/// When it is not installed, or does not start.
pub fn start(install: &Install, postgres: u16, roles: &[&str]) -> Result<Server> {
    let program = install.pgbouncer()?;
    let (folder, user) = postgres::folder(&Holder::own()?, "pgbouncer")?;
    let port = ports::free()?;
    let users: String = roles.iter().map(|role| format!("\"{role}\" \"\"\n")).collect();
    let settings = format!(
        "[databases]
* = host=127.0.0.1 port={postgres}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {POOL_SIZE}
server_login_retry = 1
",
        folder = folder.display()
    );
    for (name, text) in [("users.txt", users), ("pgbouncer.ini", settings)] {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write `{}`", path.display()))?;
    }
    let mut command = postgres::command_as(&program, user);
    command.current_dir(&folder).arg(folder.join("pgbouncer.ini"));
    let daemon = Daemon::new("pgbouncer", command, &folder.join("pgbouncer.log"))?
        // SIGTERM ends it at once; on SIGINT it waits for clients.
        .stopped_by(Signal::TERM, Signal::KILL)
        .ready_when(move || probe::listens(port));
    let address = format!("127.0.0.1:{port}");
    Server::start(
        "pgbouncer",
        folder,
        [("pgbouncer", port)].into(),
        vec![("PGBOUNCER", address)],
        vec![daemon],
    )
}
