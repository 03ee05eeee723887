//! A private server: its programs, ports and folder, and what a test does to it.
//!
//! Ports and data stay over [`restart`](Server::restart). Dropped, it ends at once and its folder goes; a test
//! that fails leaves the folder, for its logs, until a later run sweeps it. Must not: know one kind of server from
//! another; that is for the modules that make them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::daemon::Daemon;
use crate::holder::{ProcessRecord, ServerRecord};
use crate::process::{Process, Signal};
use crate::{place, shared};

/// A server that this process started.
#[derive(Debug)]
pub struct Server {
    name: String,
    folder: PathBuf,
    ports: BTreeMap<&'static str, u16>,
    variables: Vec<(&'static str, String)>,
    /// Started in this order, ended in reverse; the last one is the server itself.
    daemons: Vec<Daemon>,
    outlives: bool,
}

impl Server {
    /// Starts `daemons` one after the other, each when the one before it is ready.
    pub(crate) fn start(
        name: &str,
        folder: PathBuf,
        ports: BTreeMap<&'static str, u16>,
        variables: Vec<(&'static str, String)>,
        daemons: Vec<Daemon>,
    ) -> Result<Server> {
        let mut server = Server { name: name.to_owned(), folder, ports, variables, daemons, outlives: false };
        if let Err(cause) = server.restart() {
            let logs = shared::logs();
            return Err(match server.keep_logs(&logs) {
                Ok(()) => {
                    cause.context(format!("start a private server, whose logs are in `{}`", logs.display()))
                }
                Err(_) => cause,
            });
        }
        Ok(server)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its data, and its logs in files that end with `.log`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address that clients use: the value of its first variable.
    pub fn address(&self) -> &str {
        self.variables.first().map_or("", |(_, value)| value)
    }

    /// The environment variables by which other programs find it, with their values.
    pub fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// A port by its purpose, such as `postgres`, `kafka`, `amqp`, `management`, `nats`.
    pub fn port(&self, purpose: &str) -> Option<u16> {
        self.ports.get(purpose).copied()
    }

    /// The pid of the server itself; `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.process().map(|process| process.pid)
    }

    /// Whether the server itself runs; also true while it is paused.
    pub fn is_running(&self) -> bool {
        self.process().is_some_and(Process::is_alive)
    }

    /// Sends `signal` to the server itself.
    pub fn signal(&self, signal: Signal) {
        if let Some(process) = self.process() {
            process.signal(signal);
        }
    }

    /// SIGSTOP to the server and all its processes: connections stay open and nothing answers.
    pub fn pause(&self) {
        if let Some(process) = self.process() {
            process.pause();
        }
    }

    /// Ends a [`pause`](Self::pause).
    pub fn resume(&self) {
        if let Some(process) = self.process() {
            process.resume();
        }
    }

    /// SIGKILL to the server and all its processes, as a power cut for it. Returns when they are gone.
    pub fn kill(&mut self) {
        if let Some(server) = self.daemons.last_mut() {
            server.kill();
        }
    }

    /// Ends it in good order. Returns when it has ended.
    pub fn stop(&mut self) {
        self.daemons.iter_mut().rev().for_each(Daemon::stop);
    }

    /// Starts what does not run, on the same ports and data, and returns when it can be used. A server that runs
    /// is stopped in good order first.
    ///
    /// # Errors
    /// When it does not come up; the text holds the end of its log.
    pub fn restart(&mut self) -> Result<()> {
        if self.is_running() {
            self.stop();
        }
        for next in 0..self.daemons.len() {
            self.daemons[next].start()?;
            self.record().write(&self.folder)?;
            self.daemons[next].wait_ready()?;
        }
        Ok(())
    }

    /// Lets it run when this handle is dropped, for another process to stop by its record.
    pub fn outlive(mut self) {
        self.outlives = true;
    }

    /// Moves its logs to the folder `to`, over older ones.
    pub(crate) fn keep_logs(&self, to: &Path) -> Result<()> {
        place::make(to)?;
        let entries = fs::read_dir(&self.folder).context("read the server's folder")?;
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                fs::rename(&path, to.join(entry.file_name()))
                    .with_context(|| format!("keep the log `{}`", path.display()))?;
            }
        }
        Ok(())
    }

    fn process(&self) -> Option<&Process> {
        self.daemons.last().and_then(Daemon::process)
    }

    fn record(&self) -> ServerRecord {
        let process = |daemon: &Daemon| {
            let process = daemon.process()?.clone();
            let end_by = daemon.end_by().as_raw();
            Some(ProcessRecord { program: daemon.program.to_owned(), process, end_by })
        };
        ServerRecord {
            name: self.name.clone(),
            ports: self.ports.iter().map(|(purpose, port)| ((*purpose).to_owned(), *port)).collect(),
            variables: self
                .variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            processes: self.daemons.iter().filter_map(process).collect(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.outlives {
            return;
        }
        self.daemons.iter_mut().rev().for_each(Daemon::discard);
        if std::thread::panicking() {
            eprintln!("the logs of the private server `{}` are in `{}`", self.name, self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
