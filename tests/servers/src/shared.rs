//! The set of servers that a test run, the demo or a developer shares.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::holder::{Holder, UP};
use crate::install::Install;
use crate::kafka::Tuning;
use crate::place::Medium;
use crate::postgres::Version;
use crate::server::Server;
use crate::{kafka, nats, place, postgres, rabbitmq};

/// One server of each kind, started together. Dropped, they end and their data goes; their logs stay.
#[derive(Debug)]
pub struct Shared {
    servers: Vec<Server>,
    holder: Option<Holder>,
}

impl Shared {
    /// Starts all at once, held by this process under `name`; they come up in the time of the slowest, RabbitMQ.
    /// PostgreSQL 18 is left out where it is not installed.
    ///
    /// # Errors
    /// When one of the others is missing or does not start; those that did are stopped.
    pub fn start(name: &str, install: &Install, tuning: Tuning, medium: Medium) -> Result<Shared> {
        let name = format!("{name}-{}", std::process::id());
        Self::start_for(Holder::new(&name, false, medium)?, install, tuning)
    }

    /// Starts all at once and leaves them running, held by nobody, until they are stopped ([`Holder::stop`]).
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn leave_up(install: &Install) -> Result<()> {
        let mut shared = Self::start_for(Holder::new(UP, true, Medium::Disk)?, install, Tuning::Tests)?;
        shared.holder = None;
        shared.servers.drain(..).for_each(Server::outlive);
        Ok(())
    }

    fn start_for(holder: Holder, install: &Install, tuning: Tuning) -> Result<Shared> {
        // Known at once, and not only when the slower servers are up.
        place::check_reachable(holder.folder())?;
        let results = std::thread::scope(|scope| {
            let mut starting = vec![
                scope.spawn(|| rabbitmq::start_for(&holder, install)),
                scope.spawn(|| kafka::start_for(&holder, install, tuning)),
                scope.spawn(|| postgres::start_for(&holder, install, Version::Distribution, tuning)),
                scope.spawn(|| nats::start_for(&holder, install)),
            ];
            if install.postgres18().is_ok() {
                starting
                    .push(scope.spawn(|| postgres::start_for(&holder, install, Version::Eighteen, tuning)));
            }
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Server>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            starting.into_iter().map(join).collect::<Vec<_>>()
        });
        let mut shared = Shared { servers: Vec::new(), holder: Some(holder) };
        let mut failure = None;
        for result in results {
            match result {
                Ok(server) => shared.servers.push(server),
                Err(cause) => failure = Some(cause),
            }
        }
        failure.map_or(Ok(shared), Err)
    }

    /// The environment variables by which programs find the servers.
    pub fn variables(&self) -> Vec<(String, String)> {
        let all = self.servers.iter().flat_map(Server::variables);
        all.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    /// Whether their data is in memory and goes with them, so that nobody need clear up in them.
    pub fn in_memory(&self) -> bool {
        self.holder.as_ref().is_some_and(|holder| place::in_memory(holder.folder()))
    }

    fn keep_logs(&self) -> Result<()> {
        let folder = logs();
        self.servers.iter().try_for_each(|server| server.keep_logs(&folder))
    }
}

/// Where the logs of the last shared servers are.
pub fn logs() -> PathBuf {
    place::private().join("log")
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(holder) = self.holder.take() else { return };
        // Not worth a failure: the servers have done their work.
        let _ = self.keep_logs().context("keep the servers' logs");
        std::thread::scope(|scope| {
            for server in self.servers.drain(..) {
                scope.spawn(move || drop(server));
            }
        });
        let _ = fs::remove_dir_all(holder.folder());
    }
}
