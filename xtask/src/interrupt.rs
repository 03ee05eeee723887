//! Ctrl-C and SIGTERM: the running child is told to end, and then the command cleans up and ends itself.
//!
//! The first signal is passed on to what this program runs in its process group (cargo, tests, the demo), unless
//! a terminal sent it there itself. A second one kills them. The servers have groups of their own: they are
//! stopped by whoever holds them, last. Must not: end this process from the signal thread, for that would leave the
//! servers behind.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use outrider_servers::process::{Signal, group_descendants};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// 128 + SIGINT, as a shell reports a program that Ctrl-C ended.
pub(crate) const EXIT_CODE: u8 = 130;

/// Whether a signal came.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    came: Arc<AtomicBool>,
}

impl Interrupt {
    /// Watches for signals from now on.
    pub(crate) fn watch() -> Result<Interrupt> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("watch for signals")?;
        let interrupt = Interrupt { came: Arc::default() };
        let watched = interrupt.clone();
        std::thread::spawn(move || {
            for raw in signals.forever() {
                let is_first = !watched.came.swap(true, Ordering::Relaxed);
                outrider_servers::give_up();
                let signal = match Signal::from_named_raw(raw) {
                    Some(signal) if is_first => signal,
                    _ => Signal::KILL,
                };
                // A terminal that was closed takes no text: that must not end this thread.
                let text = if is_first { "stopping; once more kills" } else { "stopping at once" };
                let _ = writeln!(std::io::stderr(), "interrupted: {text}");
                if !(is_first && raw == SIGINT && std::io::stderr().is_terminal()) {
                    group_descendants().iter().for_each(|child| child.signal(signal));
                }
            }
        });
        Ok(interrupt)
    }

    pub(crate) fn came(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// Fails once a signal came.
    pub(crate) fn check(&self) -> Result<()> {
        if self.came() {
            bail!("go on: interrupted");
        }
        Ok(())
    }
}
