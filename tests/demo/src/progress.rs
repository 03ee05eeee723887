//! One line that changes while the demo runs; where stderr is not a terminal, one now and then.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::numbers::grouped;
use crate::stage::BROKERS;
use crate::tally::Glance;

/// Between two lines in a file.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Between two states of the line on a terminal.
const REDRAW_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Progress {
    begun: Instant,
    events: u64,
    is_terminal: bool,
    drawn: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(events: u64) -> Progress {
        Progress { begun: Instant::now(), events, is_terminal: std::io::stderr().is_terminal(), drawn: None }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Shows the state, if the last time is long enough ago.
    pub(crate) fn show(&mut self, glance: &Glance, note: &str) {
        let every = if self.is_terminal { REDRAW_EVERY } else { LINE_EVERY };
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < every) {
            return;
        }
        self.drawn = Some(Instant::now());
        let line = self.line(glance, note);
        // A terminal that went away is no reason to stop.
        let _ = if self.is_terminal {
            write!(std::io::stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(std::io::stderr(), "demo: {line}")
        };
    }

    /// Says something that stays.
    pub(crate) fn tell(&mut self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        let _ = writeln!(std::io::stderr(), "{clear}demo: {text}");
        self.drawn = None;
    }

    fn line(&self, glance: &Glance, note: &str) -> String {
        let brokers: Vec<String> = BROKERS
            .iter()
            .zip(glance.effects)
            .map(|(broker, effects)| format!("{broker} {}", grouped(effects)))
            .collect();
        format!(
            "{:3.0} s  committed {} of {}, rolled back {}, delivered {} ({}){note}",
            self.seconds(),
            grouped(glance.committed),
            grouped(self.events),
            grouped(glance.rolled_back),
            grouped(glance.effects_in_all()),
            brokers.join(", "),
        )
    }
}
