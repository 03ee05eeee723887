//! What the kit says: a line a fault while it runs, JSON on standard output, and the sums.

use std::io::Write;
use std::time::Instant;

use anyhow::Result;
use serde_json::json;

use crate::args::Args;
use crate::faults::{ALL, Trait};
use crate::judge::Judgement;

#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    begun: Instant,
    all: usize,
    begun_faults: usize,
    done: Vec<(String, Judgement)>,
}

const HEAD: &str = "fault                                    committed  lost  copies/bound  order  dead  fenced  caught up   took";

impl Report {
    pub(crate) fn new(args: &Args, all: usize) -> Report {
        Report { json: args.json, begun: Instant::now(), all, begun_faults: 0, done: Vec::new() }
    }

    pub(crate) fn tell(&self, what: &str) {
        eprintln!("[{:6.1} s] {what}", self.begun.elapsed().as_secs_f64());
    }

    pub(crate) fn begins(&mut self, name: &str) {
        self.begun_faults += 1;
        self.tell(&format!("{} of {}: {name}", self.begun_faults, self.all));
    }

    pub(crate) fn ended(&mut self, name: &str, judgement: Judgement) -> Result<()> {
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", judgement.json(name))?;
        } else {
            if self.done.is_empty() {
                writeln!(out, "{HEAD}")?;
            }
            let counts = judgement.counts;
            let copies = format!("{}/{}", counts.duplicates_seen, judgement.bound);
            writeln!(
                out,
                "{name:<48} {:>9} {:>5} {copies:>13} {:>6} {:>5} {:>7} {:>8.1} s {:>4.0} s",
                counts.committed,
                counts.lost,
                counts.order_violations,
                judgement.dead,
                judgement.fenced,
                judgement.catch_up,
                judgement.seconds
            )?;
        }
        out.flush()?;
        for fault in &judgement.faults {
            eprintln!("    FAILED {name}: {fault}");
        }
        self.done.push((name.to_owned(), judgement));
        Ok(())
    }

    /// The sums. Returns whether all passed.
    pub(crate) fn sum(&self) -> Result<bool> {
        let passed = self.done.iter().filter(|(_, judgement)| judgement.passed()).count();
        let sum =
            |of: fn(&Judgement) -> u64| self.done.iter().map(|(_, judgement)| of(judgement)).sum::<u64>();
        let dead = sum(|judgement| judgement.dead.saturating_sub(judgement.dead_wanted));
        let (lost, order) =
            (sum(|judgement| judgement.counts.lost), sum(|judgement| judgement.counts.order_violations));
        let mut out = std::io::stdout().lock();
        if self.json {
            let all = json!({
                "faults": self.done.len(),
                "passed": passed,
                "lost": lost,
                "order_violations": order,
                "dead": dead,
                "committed": sum(|judgement| judgement.counts.committed),
                "duplicates": sum(|judgement| judgement.counts.duplicates_seen),
                "seconds": self.begun.elapsed().as_secs_f64(),
            });
            writeln!(out, "{all}")?;
        } else {
            writeln!(
                out,
                "{passed} of {} passed: {} events committed, {lost} lost, {order} out of order, {dead} dead that \
                 should not be, {} copies, {:.0} s",
                self.done.len(),
                sum(|judgement| judgement.counts.committed),
                sum(|judgement| judgement.counts.duplicates_seen),
                self.begun.elapsed().as_secs_f64()
            )?;
            for (name, judgement) in self.done.iter().filter(|(_, judgement)| !judgement.passed()) {
                writeln!(out, "FAILED {name}: {}", judgement.faults.join("; "))?;
            }
        }
        Ok(passed == self.done.len())
    }
}

/// `--list`.
pub(crate) fn list() {
    for fault in ALL {
        let quick = if fault.is(Trait::Quick) { "quick" } else { "" };
        println!("{:<40} {quick:<6} {}", fault.name, fault.says);
    }
}
