//! Tells on standard error what is being done, and how long each step took.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;

/// Lines with the seconds since the start before them. Shared by the threads of a command.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
}

impl Progress {
    pub(crate) fn start() -> Progress {
        Progress { started: Instant::now() }
    }

    pub(crate) fn tell(&self, text: &str) {
        // Lost if the terminal was closed, which is no reason to leave servers behind.
        let _ = writeln!(std::io::stderr(), "[{:6.1} s] {text}", self.started.elapsed().as_secs_f64());
    }

    /// Does `work` between two lines; the second says how long it took.
    pub(crate) fn step<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.tell(what);
        let begun = Instant::now();
        let result = work();
        let seconds = begun.elapsed().as_secs_f64();
        match &result {
            Ok(_) => self.tell(&format!("{what}: done in {seconds:.1} s")),
            // With the cause, because what goes on beside it may take long until the command can end with it.
            Err(cause) => self.tell(&format!("{what}: failed in {seconds:.1} s, to {cause:#}")),
        }
        result
    }
}
