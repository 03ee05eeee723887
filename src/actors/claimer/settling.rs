//! Writing outcomes back. A settle is kept until it is answered, and sent again unchanged after a lost reply.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::failpoints;
use crate::outbox::flow::{Failure, Settle, SettleFailed};
use crate::outbox::lease::Moment;
use crate::outbox::settle::Verdict;
use crate::store::{Failed, FailedOutcome, NotApplied, Store, StoreError};
use crate::telemetry;

/// Pause before events are settled again whose rows somebody else has locked.
const LOCKED: Duration = Duration::from_millis(500);

/// A settle that is not answered yet.
#[derive(Debug)]
pub(super) struct Unsettled {
    pub(super) broker: Arc<str>,
    /// Which life of the lane it belongs to.
    pub(super) life: u64,
    pub(super) settle: Settle,
    receipt: Uuid,
    /// Confirmed events that are not written yet; shrinks to the locked ones.
    sent: Vec<i64>,
    sent_done: bool,
    failed_done: usize,
    /// The statement that is next was sent before, and its reply was lost.
    repeated: bool,
    not_before: Moment,
    promoted: bool,
}

impl Unsettled {
    pub(super) fn new(broker: Arc<str>, life: u64, settle: Settle) -> Self {
        Unsettled {
            broker,
            life,
            sent: settle.sent.clone(),
            sent_done: settle.sent.is_empty() && settle.done.is_empty(),
            settle,
            receipt: Uuid::new_v4(),
            failed_done: 0,
            repeated: false,
            not_before: Moment::ZERO,
            promoted: false,
        }
    }

    fn done(&self) -> bool {
        self.sent_done && self.failed_done == self.settle.failed.len()
    }

    /// Failures that are not written yet hold back the broker's next claim.
    fn holds_back(&self) -> bool {
        self.failed_done < self.settle.failed.len()
    }
}

/// All settles of a lane that are not answered yet, oldest first.
#[derive(Debug, Default)]
pub(super) struct Settling {
    queue: VecDeque<Unsettled>,
    /// An event was gone when its failure was written: parked rows may have lost their head.
    pub(super) orphans: bool,
}

/// A settle that is in the database.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) unsettled: Unsettled,
    pub(super) promoted: bool,
}

impl Settling {
    pub(super) fn push(&mut self, unsettled: Unsettled) {
        self.queue.push_back(unsettled);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether this broker has to wait with its next claim.
    pub(super) fn holds_back(&self, broker: &str) -> bool {
        self.queue.iter().any(|unsettled| *unsettled.broker == *broker && unsettled.holds_back())
    }

    /// When the next one may be written.
    pub(super) fn next_at(&self) -> Option<Moment> {
        self.queue.iter().map(|unsettled| unsettled.not_before).min()
    }

    /// The lane of `life` is lost. A failure whose reply was lost may have been written or not: it is counted and not
    /// sent again, since its answer could no longer tell.
    pub(super) fn lane_lost(&mut self, tenant: &str, life: u64) {
        for unsettled in self.queue.iter_mut().filter(|unsettled| unsettled.life == life) {
            if unsettled.repeated && unsettled.sent_done && unsettled.holds_back() {
                let failed = &unsettled.settle.failed[unsettled.failed_done];
                telemetry::settle_unknown(tenant, failed.failures.len());
                unsettled.failed_done += 1;
                unsettled.repeated = false;
            }
        }
    }

    /// Writes the next one that may be written. `None`: there is none now.
    ///
    /// # Errors
    /// The one of the first statement that failed. The settle stays, to be sent again.
    pub(super) async fn write(
        &mut self,
        store: &mut Store,
        tenant: &str,
        lane: i16,
        now: Moment,
    ) -> Result<Option<Settled>, StoreError> {
        let Some(at) = self.queue.iter().position(|unsettled| unsettled.not_before <= now) else {
            return Ok(None);
        };
        let begun = Instant::now();
        self.write_one(at, store, tenant, lane).await?;
        failpoints::reach("after-settle");
        telemetry::settle_took(tenant, begun.elapsed());
        if !self.queue[at].done() {
            self.queue[at].not_before = now.after(LOCKED);
            return Ok(None);
        }
        Ok(self.queue.remove(at).map(|unsettled| Settled { promoted: unsettled.promoted, unsettled }))
    }

    async fn write_one(
        &mut self,
        at: usize,
        store: &mut Store,
        tenant: &str,
        lane: i16,
    ) -> Result<(), StoreError> {
        failpoints::reach("before-settle");
        let unsettled = &mut self.queue[at];
        if !unsettled.sent_done {
            if std::mem::take(&mut unsettled.repeated) {
                telemetry::settle_repeated(tenant);
            }
            let (broker, receipt) = (unsettled.broker.clone(), unsettled.receipt);
            let sent = store.settle_sent(&broker, receipt, &unsettled.sent, &unsettled.settle.done).await;
            let sent = sent.inspect_err(|error| unsettled.repeated |= error.outcome_unknown())?;
            unsettled.promoted |= sent.promoted > 0;
            telemetry::events_settled(tenant, "sent", unsettled.sent.len() - sent.locked.len());
            unsettled.sent_done = sent.locked.is_empty();
            if !unsettled.sent_done {
                unsettled.sent = sent.locked;
                unsettled.receipt = Uuid::new_v4();
            }
        }
        while unsettled.failed_done < unsettled.settle.failed.len() {
            let failed = &unsettled.settle.failed[unsettled.failed_done];
            let repeated = std::mem::take(&mut unsettled.repeated);
            if repeated {
                telemetry::settle_repeated(tenant);
            }
            let rows: Vec<Failed<'_>> = failed.failures.iter().map(row).collect();
            let answer = store.settle_failed(failed.token, &rows, failed.last).await;
            let not_applied =
                answer.inspect_err(|error| unsettled.repeated = repeated | error.outcome_unknown())?;
            self.orphans |= not_applied.iter().any(|(_, what)| *what == NotApplied::Gone);
            count(tenant, failed, &not_applied, repeated);
            unsettled.failed_done += 1;
            let skipped = skipped_keys(&unsettled.settle.failed[unsettled.failed_done - 1]);
            if !skipped.is_empty() {
                // If this fails the settle is done all the same, and the search for orphans promotes them.
                let promoted = store.promote(lane, &skipped).await.inspect_err(|_| self.orphans = true)?;
                unsettled.promoted |= !promoted.is_empty();
            }
        }
        Ok(())
    }
}

fn row(failure: &Failure) -> Failed<'_> {
    let (outcome, delay, error) = match &failure.verdict {
        Verdict::Refused { delay, error } => (FailedOutcome::Refused, *delay, Some(error.as_str())),
        Verdict::Unknown { delay, error } => (FailedOutcome::Unknown, *delay, Some(error.as_str())),
        Verdict::Dead { error } => (FailedOutcome::Dead, Duration::ZERO, Some(error.as_str())),
        Verdict::Blocked => (FailedOutcome::Blocked, Duration::ZERO, None),
        // What was sent is not among the failures.
        Verdict::Released | Verdict::Sent => (FailedOutcome::Released, Duration::ZERO, None),
    };
    Failed { seq: failure.seq, outcome, delay, error }
}

/// Keys whose dead head is passed over.
fn skipped_keys(failed: &SettleFailed) -> Vec<(&str, &str)> {
    let skipped = failed.failures.iter().filter(|failure| failure.skipped);
    skipped.filter_map(|failure| Some((&*failure.topic, failure.key.as_deref()?))).collect()
}

/// Counts what was written. After a lost reply "fenced" means that it was written the first time.
fn count(tenant: &str, failed: &SettleFailed, not_applied: &[(i64, NotApplied)], repeated: bool) {
    let fenced = |seq| not_applied.contains(&(seq, NotApplied::Fenced)) && !repeated;
    let mut fenced_events = 0;
    for failure in &failed.failures {
        if fenced(failure.seq) {
            fenced_events += 1;
            continue;
        }
        let outcome = match &failure.verdict {
            Verdict::Sent => continue,
            Verdict::Refused { .. } => "refused",
            Verdict::Unknown { .. } => "unknown",
            Verdict::Released => "released",
            Verdict::Blocked => "blocked",
            Verdict::Dead { error } => {
                telemetry::event_died(tenant, &failure.topic, failure.seq, error);
                "dead"
            }
        };
        telemetry::events_settled(tenant, outcome, 1);
    }
    if fenced_events > 0 {
        telemetry::events_fenced(tenant, fenced_events);
    }
}
