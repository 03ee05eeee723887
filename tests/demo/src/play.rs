//! The play in its order: start, write and consume, kill, start again, wait for the rest, judge.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outrider_test_support::daemon::Running;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::consumers;
use crate::numbers::grouped;
use crate::progress::Progress;
use crate::report::{self, Run};
use crate::stage::Stage;
use crate::tally::{Glance, Tally};
use crate::writers;

/// Between two looks at how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Without a new effect for so long, what is missing counts as lost. Longer than a lease and any backoff.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60);

/// After the last effect, for so long there must be no message at all: what comes late counts, too.
const QUIET: Duration = Duration::from_secs(2);

/// How it came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing lost, doubled, disordered or invented.
    Clean,
    Unclean,
    Interrupted,
}

pub(crate) async fn play(
    args: &Args,
    stage: &Stage,
    interrupted: impl Future<Output = ()>,
) -> Result<Outcome> {
    tokio::pin!(interrupted);
    let tally = Arc::new(Tally::default());
    let announce = Arc::new(AtomicBool::new(false));
    let mut progress = Progress::new(args.events);
    let mut daemon = tokio::select! {
        biased;
        () = &mut interrupted => return Ok(Outcome::Interrupted),
        started = stage.daemon.start() => started?,
    };
    let mut consumers = consumers::start(stage, &tally, &announce).await?;
    // Biased: Ctrl-C in a terminal reaches the daemon as well, and its end is then no failure.
    let kills = tokio::select! {
        biased;
        () = &mut interrupted => return Ok(Outcome::Interrupted),
        acted = act(args, stage, &tally, &mut daemon, &mut consumers, &mut progress) => acted?,
    };
    let seconds = progress.seconds();

    let verdict = tally.verify();
    let total = verdict.total();
    let (lines, effects) = (consumers::journal_lines(stage).await?, tally.glance().effects_in_all());
    if lines != effects {
        bail!("count effects: the consumers' journal has {lines} lines, and they spoke of {effects}");
    }
    let mut outcome = if total.is_clean() && kills > 0 { Outcome::Clean } else { Outcome::Unclean };
    let run = Run { verdict, kills, seconds, rolled_back: tally.glance().rolled_back };
    progress.tell("done");
    run.print_table();

    if args.keep {
        report::print_kept(stage);
        if args.json {
            run.print_json()?;
        }
        announce.store(true, Ordering::Relaxed);
        tokio::select! {
            biased;
            () = &mut interrupted => {}
            failed = watch(stage, &mut daemon, &mut consumers) => failed?,
        }
        daemon.end().await?;
        return Ok(outcome);
    }
    let status = daemon.end().await?;
    if !status.success() {
        eprintln!("demo: outrider was told to end and ended with {status}\n{}", stage.daemon.quote());
        outcome = Outcome::Unclean;
    }
    report::print_further(outcome == Outcome::Clean, stage);
    if args.json {
        run.print_json()?;
    }
    Ok(outcome)
}

/// Writes, kills midway, and waits until all is delivered or nothing comes any more. Returns the number of kills.
async fn act(
    args: &Args,
    stage: &Stage,
    tally: &Arc<Tally>,
    daemon: &mut Running,
    consumers: &mut JoinSet<Result<()>>,
    progress: &mut Progress,
) -> Result<u64> {
    let mut writers = writers::start(stage, tally, args.events)?;
    let mut kills = 0;
    let mut last = (tally.glance(), Instant::now());
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        while let Some(written) = writers.try_join_next() {
            written.context("join a writer")??;
        }
        look_after(stage, daemon, consumers)?;
        let glance = tally.glance();
        progress.show(&glance, if kills == 0 { "" } else { ", killed once" });

        if kills == 0 && glance.effects_in_all() >= args.events / 2 {
            progress
                .tell(&format!("kill -9 at {} delivered, and start again", grouped(glance.effects_in_all())));
            daemon.kill().await?;
            *daemon = stage.daemon.start().await?;
            kills += 1;
        }
        if glance != last.0 {
            last = (glance, Instant::now());
        } else if writers.is_empty() && over(&last.0, last.1.elapsed()) {
            return Ok(kills);
        }
    }
}

/// Whether anything can still come, when nothing has changed for so long.
fn over(glance: &Glance, unchanged: Duration) -> bool {
    let complete = glance.effects_in_all() >= glance.committed;
    unchanged >= if complete { QUIET } else { GIVE_UP_AFTER }
}

/// Fails when the daemon or a consumer has ended.
fn look_after(stage: &Stage, daemon: &mut Running, consumers: &mut JoinSet<Result<()>>) -> Result<()> {
    if let Some(status) = daemon.ended()? {
        bail!("keep outrider running: it ended with {status}\n{}", stage.daemon.quote());
    }
    match consumers.try_join_next() {
        Some(ended) => ended.context("join a consumer")?,
        None => Ok(()),
    }
}

async fn watch(stage: &Stage, daemon: &mut Running, consumers: &mut JoinSet<Result<()>>) -> Result<()> {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        look_after(stage, daemon, consumers)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_the_rest_and_for_what_is_late() {
        let missing = Glance { committed: 10, effects: [5, 4, 0], ..Glance::default() };
        assert!(!over(&missing, QUIET));
        assert!(over(&missing, GIVE_UP_AFTER));
        let complete = Glance { effects: [5, 4, 1], ..missing };
        assert!(!over(&complete, QUIET / 2));
        assert!(over(&complete, QUIET));
    }
}
