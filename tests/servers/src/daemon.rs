//! One long-running program of a server: how it is started, and what runs of it.
//!
//! Each has a process group of its own, so that a Ctrl-C meant for a test run does not reach it, and writes to a
//! log file. Must not: know which server it belongs to.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{Process, Signal, holds_within};

/// How long a program may take to end before it is killed; Kafka takes up to 2 s, a busy machine more.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// How long a program that neither ends nor answers is waited for. A guard against one that hangs, far above what
/// any needs: RabbitMQ starts with 6 s of work, and took over 3 minutes where 20 others wanted the two cores.
const READY_WITHIN: Duration = Duration::from_secs(600);
/// Enough lines to hold the cause of a failed start.
const TAIL_LINES: usize = 15;

static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Makes every wait for a starting server fail from now on, for a process that was told to end.
pub fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// How a program is run and ended.
pub(crate) struct Daemon {
    pub(crate) program: &'static str,
    command: Command,
    log: PathBuf,
    /// Ends it in good order.
    stop_by: Signal,
    /// Ends it at once, with nothing of it left in the system.
    end_by: Signal,
    is_ready: Box<dyn Fn() -> bool + Send + Sync>,
    running: Option<(Child, Process)>,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").field("program", &self.program).field("running", &self.running).finish()
    }
}

impl Daemon {
    /// A program that is not started yet. `log` takes its output.
    pub(crate) fn new(program: &'static str, mut command: Command, log: &Path) -> Result<Daemon> {
        let open = || OpenOptions::new().create(true).append(true).open(log);
        let output = open().and_then(|file| Ok((file.try_clone()?, file)));
        let (output, errors) = output.with_context(|| format!("write the log `{}`", log.display()))?;
        // Cargo points the library path at its target folder: of no use to a server.
        command.env_remove("LD_LIBRARY_PATH").process_group(0);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        Ok(Daemon {
            program,
            command,
            log: log.to_owned(),
            stop_by: Signal::TERM,
            end_by: Signal::KILL,
            is_ready: Box::new(|| true),
            running: None,
        })
    }

    pub(crate) fn stopped_by(mut self, stop_by: Signal, end_by: Signal) -> Daemon {
        (self.stop_by, self.end_by) = (stop_by, end_by);
        self
    }

    pub(crate) fn ready_when(mut self, is_ready: impl Fn() -> bool + Send + Sync + 'static) -> Daemon {
        self.is_ready = Box::new(is_ready);
        self
    }

    /// Starts it, if it does not run. [`wait_ready`](Self::wait_ready) says when it can be used.
    pub(crate) fn start(&mut self) -> Result<()> {
        if self.process().is_some_and(Process::is_alive) {
            return Ok(());
        }
        self.reap();
        let child = self.command.spawn().with_context(|| format!("start `{}`", self.program))?;
        let process = Process::of(child.id())?;
        self.running = Some((child, process));
        Ok(())
    }

    /// Waits until it can be used.
    ///
    /// # Errors
    /// With the end of its log, when it ends instead, or is not ready in time.
    pub(crate) fn wait_ready(&self) -> Result<()> {
        let runs = || self.process().is_some_and(Process::is_alive);
        let mut ready = false;
        holds_within(READY_WITHIN, || {
            ready = runs() && (self.is_ready)();
            ready || !runs() || GIVEN_UP.load(Ordering::Relaxed)
        });
        if ready {
            return Ok(());
        }
        if GIVEN_UP.load(Ordering::Relaxed) {
            bail!("start `{}`: interrupted", self.program);
        }
        let what = if runs() { "did not answer in time" } else { "ended at its start" };
        bail!("start `{}`: it {what}; the end of its log:\n{}", self.program, self.log_tail())
    }

    pub(crate) fn process(&self) -> Option<&Process> {
        self.running.as_ref().map(|(_, process)| process)
    }

    pub(crate) fn end_by(&self) -> Signal {
        self.end_by
    }

    /// Ends it in good order.
    pub(crate) fn stop(&mut self) {
        self.end(self.stop_by);
    }

    /// Ends it at once; its data is not to be used again.
    pub(crate) fn discard(&mut self) {
        self.end(self.end_by);
    }

    /// SIGKILL, to its descendants too.
    pub(crate) fn kill(&mut self) {
        if let Some(process) = self.process() {
            process.kill(STOPS_WITHIN);
        }
        self.reap();
    }

    fn end(&mut self, signal: Signal) {
        if let Some(process) = self.process() {
            if signal == Signal::KILL {
                process.kill(STOPS_WITHIN);
            } else {
                process.stop(signal, STOPS_WITHIN);
            }
        }
        self.reap();
    }

    /// Takes the exit status of one that ended, so that no zombie stays.
    fn reap(&mut self) {
        if let Some((mut child, process)) = self.running.take()
            && !process.is_alive()
        {
            let _ = child.wait();
        }
    }

    fn log_tail(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}
