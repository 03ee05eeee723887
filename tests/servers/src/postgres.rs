//! A private PostgreSQL: `wal_level = logical`, 300 connections, fsync on, trust on loopback.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::address::{POSTGRES_URL, POSTGRES18_URL};
use crate::daemon::Daemon;
use crate::holder::Holder;
use crate::install::Install;
use crate::kafka::Tuning;
use crate::place::{self, User};
use crate::ports;
use crate::process::Signal;
use crate::server::Server;

/// Which PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The distribution's; Debian 12 has 15.
    Distribution,
    /// 18, which may be absent.
    Eighteen,
}

/// Starts a new, empty one for the calling process. Ready in about a second.
///
/// # Errors
/// When it is not installed, or does not start.
pub fn start(install: &Install, version: Version) -> Result<Server> {
    start_for(&Holder::own()?, install, version, Tuning::Tests)
}

pub(crate) fn start_for(
    holder: &Holder,
    install: &Install,
    version: Version,
    tuning: Tuning,
) -> Result<Server> {
    let (name, variable, programs) = match version {
        Version::Distribution => ("postgres", POSTGRES_URL, install.postgres()?),
        Version::Eighteen => ("postgres18", POSTGRES18_URL, install.postgres18()?),
    };
    let (folder, user) = folder(holder, name)?;
    let data = folder.join("data");
    initialise(&programs.join("initdb"), &data, user)?;
    run(&programs, (name, variable), folder, user, tuning)
}

/// Starts a standby that follows the server at this loopback port and can be promoted; of the distribution's version.
///
/// # Errors
/// When it is not installed, the other can't be copied, or it does not start.
pub fn standby(install: &Install, primary: u16) -> Result<Server> {
    let programs = install.postgres()?;
    let (folder, user) = folder(&Holder::own()?, "standby")?;
    let mut command = command_as(&programs.join("pg_basebackup"), user);
    command.args(["-h", "127.0.0.1", "-p", &primary.to_string(), "-U", "postgres"]);
    command.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "-D"]).arg(folder.join("data"));
    succeed(command.current_dir(&folder), "copy a PostgreSQL cluster")?;
    run(&programs, ("standby", POSTGRES_URL), folder, user, Tuning::Tests)
}

/// A server's folder, and whose it is.
pub(crate) fn folder(holder: &Holder, name: &str) -> Result<(PathBuf, Option<User>)> {
    let folder = holder.server_folder(name)?;
    let user = User::for_postgres()?;
    if let Some(user) = user {
        place::check_reachable(&folder)?;
        user.own(&folder)?;
    }
    Ok((folder, user))
}

/// Starts the server whose data are in `folder`.
fn run(
    programs: &Path,
    (name, variable): (&'static str, &'static str),
    folder: PathBuf,
    user: Option<User>,
    tuning: Tuning,
) -> Result<Server> {
    let data = folder.join("data");
    let port = ports::free()?;
    let mut command = command_as(&programs.join("postgres"), user);
    command.current_dir(&folder).arg("-D").arg(&data);
    for setting in [
        &format!("port={port}"),
        "listen_addresses=127.0.0.1",
        // A socket's path may have 107 bytes, which a deep workspace exceeds.
        "unix_socket_directories=",
        "wal_level=logical",
        "max_connections=300",
        "log_line_prefix=%m [%p] %d ",
    ] {
        command.args(["-c", setting]);
    }
    if tuning == Tuning::Tests {
        // One autovacuum worker a minute for each of the hundreds of databases of a test run takes a tenth of a core.
        command.args(["-c", "autovacuum_naptime=10min"]);
    }
    let pid_file = data.join("postmaster.pid");
    let daemon = Daemon::new("postgres", command, &folder.join(format!("{name}.log")))?
        // SIGINT is its fast shutdown. SIGQUIT ends it at once, and unlike SIGKILL leaves no shared memory behind.
        .stopped_by(Signal::INT, Signal::QUIT)
        .ready_when(move || says_ready(&pid_file));
    let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
    Server::start(name, folder, [("postgres", port)].into(), vec![(variable, url)], vec![daemon])
}

/// Makes the cluster. `-N` leaves out the sync of the new files: they are lost with the folder anyway.
fn initialise(initdb: &Path, data: &Path, user: Option<User>) -> Result<()> {
    let mut command = command_as(initdb, user);
    command.arg("-D").arg(data).args([
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C.UTF-8",
        "-N",
    ]);
    succeed(command.current_dir(data.parent().unwrap_or(data)), "make a PostgreSQL cluster")
}

fn succeed(command: &mut Command, what: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("run `{}`", command.get_program().display()))?;
    if !output.status.success() {
        bail!("{what}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

pub(crate) fn command_as(program: &Path, user: Option<User>) -> Command {
    let mut command = Command::new(program);
    if let Some(User { uid, gid }) = user {
        // Set by root, the uid also drops root's supplementary groups.
        command.uid(uid).gid(gid);
    }
    command
}

/// `pg_ctl -w` goes by the same line: the eighth of `postmaster.pid` is the state. The file is made anew at each
/// start, and a stale one of a killed server is known by the pid in its first line.
fn says_ready(pid_file: &Path) -> bool {
    let text = fs::read_to_string(pid_file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let alive = lines.first().is_some_and(|pid| Path::new("/proc").join(pid).exists());
    alive && matches!(lines.get(7), Some(&("ready" | "standby")))
}
