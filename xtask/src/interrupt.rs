//! Ctrl-C and SIGTERM: the running child is told to end, and then the command cleans up and ends itself.
//!
//! The first signal is passed on to what this program runs in its process group (cargo, tests, the demo), unless
//! a terminal sent it there itself. A second one kills them. The servers have groups of their own: they are
//! stopped by whoever holds them, last. Must not: end this process from the
//! signal thread, for that would leave the servers behind.

use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex};

use anyhow::{Context, Result, bail};
use outrider_servers::process::{Signal, group_descendants};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// 128 + SIGINT, as a shell reports a program that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether a signal came.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    came: Arc<(Mutex<bool>, Condvar)>,
}

impl Interrupt {
    /// Watches for signals from now on.
    pub(crate) fn watch() -> Result<Interrupt> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("watch for signals")?;
        let interrupt = Interrupt { came: Arc::default() };
        let watched = interrupt.clone();
        std::thread::spawn(move || {
            for raw in signals.forever() {
                let is_first = watched.note();
                let signal = match Signal::from_named_raw(raw) {
                    Some(signal) if is_first => signal,
                    _ => Signal::KILL,
                };
                eprintln!("interrupted: stopping{}", if is_first { "; once more kills" } else { " at once" });
                if !(is_first && raw == SIGINT && std::io::stderr().is_terminal()) {
                    group_descendants().iter().for_each(|child| child.signal(signal));
                }
            }
        });
        Ok(interrupt)
    }

    /// Says whether this is the first signal.
    fn note(&self) -> bool {
        let (came, changed) = &*self.came;
        let mut came = came.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        changed.notify_all();
        !std::mem::replace(&mut came, true)
    }

    pub(crate) fn came(&self) -> bool {
        *self.came.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Fails once a signal came.
    pub(crate) fn check(&self) -> Result<()> {
        if self.came() {
            bail!("go on: interrupted");
        }
        Ok(())
    }

    /// Blocks until a signal comes.
    pub(crate) fn wait(&self) {
        let (came, changed) = &*self.came;
        let mut came = came.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while !*came {
            came = changed.wait(came).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}
