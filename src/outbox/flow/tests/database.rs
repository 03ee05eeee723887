//! The tables `delivery`, `claim` and `lane` of one lane, in memory: what the statements read and write, with
//! the snapshots and transaction ids that they see. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::outbox::event::{Event, OnDead};
use crate::outbox::flow::{ClaimAnswer, ClaimPlan, Path, Row, SettleFailed};
use crate::outbox::lease::Moment;
use crate::outbox::settle::Verdict;

/// Why a row can't be claimed as new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Ready,
    Waiting,
    Parked,
    Dead,
    Scheduled,
}

impl Hold {
    /// Stands before later rows of its key, under this policy.
    fn blocks(self, on_dead: OnDead) -> bool {
        match self {
            Hold::Waiting | Hold::Parked => true,
            Hold::Dead => on_dead == OnDead::Block,
            Hold::Ready | Hold::Scheduled => false,
        }
    }

    fn held(self) -> bool {
        self.blocks(OnDead::Block)
    }
}

/// A row of `delivery`.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) topic: Arc<str>,
    pub(super) key: Option<Arc<str>>,
    pub(super) hold: Hold,
    pub(super) due: Moment,
    pub(super) attempts: u32,
    pub(super) refusals: u32,
}

impl Delivery {
    fn same_key(&self, other: &Delivery) -> bool {
        self.key.is_some() && self.key == other.key && self.topic == other.topic
    }
}

/// A write transaction that is open. It may have a `seq` and no id yet.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) xid: Option<i64>,
    pub(super) began: Moment,
    pub(super) rows: Vec<(i64, Delivery)>,
}

/// The lane belongs to somebody else.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LaneLost;

/// What [`Database::settle_failed`] did not apply.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NotApplied {
    pub(super) fenced: Vec<i64>,
    pub(super) gone: Vec<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Database {
    pub(super) rows: BTreeMap<i64, Delivery>,
    pub(super) claims: BTreeMap<Uuid, Vec<i64>>,
    /// Who owns the lane; 0 is nobody.
    pub(super) owner: u64,
    pub(super) writers: Vec<Writer>,
    next_seq: i64,
    next_xid: i64,
}

impl Database {
    pub(super) fn take_seq(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq
    }

    pub(super) fn take_xid(&mut self) -> i64 {
        self.next_xid += 1;
        self.next_xid
    }

    /// Ends a transaction.
    pub(super) fn end(&mut self, writer: usize, commit: bool) {
        let writer = self.writers.swap_remove(writer);
        if commit {
            self.rows.extend(writer.rows);
        }
    }

    /// Lowest id of the transactions that run.
    fn xmin(&self) -> i64 {
        self.writers.iter().filter_map(|writer| writer.xid).min().unwrap_or(self.next_xid + 1)
    }

    fn flying(&self, live: &[Uuid]) -> BTreeSet<i64> {
        live.iter().filter_map(|token| self.claims.get(token)).flatten().copied().collect()
    }

    /// Whether an earlier row of its key stands before `seq`, apart from the rows in `beside`.
    fn blocked(&self, seq: i64, on_dead: OnDead, beside: &BTreeSet<i64>) -> bool {
        let row = &self.rows[&seq];
        self.rows
            .range(..seq)
            .any(|(other, head)| head.same_key(row) && head.hold.blocks(on_dead) && !beside.contains(other))
    }

    /// CLAIM and CLAIM DUE.
    pub(super) fn claim(
        &mut self,
        owner: u64,
        token: Uuid,
        live: &[Uuid],
        plan: &ClaimPlan,
        now: Moment,
    ) -> Result<ClaimAnswer, LaneLost> {
        let flying = self.flying(live);
        let mut window = Vec::new();
        for part in &plan.topics {
            let mut found: Vec<(Moment, i64)> = self
                .rows
                .iter()
                .filter(|(seq, row)| {
                    row.topic == part.topic
                        && !flying.contains(seq)
                        && match plan.path {
                            Path::Ready => row.hold == Hold::Ready && **seq > part.after,
                            Path::Due => {
                                matches!(row.hold, Hold::Waiting | Hold::Scheduled) && row.due <= now
                            }
                        }
                })
                .map(|(seq, row)| (if plan.path == Path::Due { row.due } else { Moment::ZERO }, *seq))
                .collect();
            found.sort_unstable();
            window.extend(found.into_iter().take(part.limit).map(|(_, seq)| seq));
        }
        let xmin = (plan.path == Path::Ready).then(|| self.xmin());
        if window.is_empty() {
            return Ok(ClaimAnswer { token, xmin, xid: None, rows: Vec::new() });
        }
        if owner != self.owner {
            return Err(LaneLost);
        }
        let mut beside = flying;
        if plan.path == Path::Due {
            beside.extend(&window);
        }
        let policy = |seq: &i64| {
            let topic = &self.rows[seq].topic;
            plan.topics.iter().find(|part| part.topic == *topic).map_or(OnDead::Block, |part| part.on_dead)
        };
        let blocked: BTreeSet<i64> =
            window.iter().copied().filter(|seq| self.blocked(*seq, policy(seq), &beside)).collect();
        let free: Vec<i64> = window.iter().copied().filter(|seq| !blocked.contains(seq)).collect();
        let rows = window.iter().map(|seq| self.answer(*seq, blocked.contains(seq))).collect();
        for seq in &blocked {
            self.rows.get_mut(seq).expect("it was found").hold = Hold::Parked;
        }
        let mut xid = None;
        if !free.is_empty() {
            self.claims.insert(token, free);
            let own = self.take_xid();
            xid = (plan.path == Path::Ready).then_some(own);
        }
        Ok(ClaimAnswer { token, xmin, xid, rows })
    }

    fn answer(&self, seq: i64, blocked: bool) -> Row {
        let row = &self.rows[&seq];
        if blocked {
            return Row::Blocked { seq, topic: row.topic.clone() };
        }
        Row::Event(Event {
            seq,
            topic: row.topic.clone(),
            key: row.key.clone(),
            attempts: row.attempts,
            refusals: row.refusals,
            body: None,
        })
    }

    /// SETTLE SENT. Returns how many followers were promoted, and the rows that went.
    pub(super) fn settle_sent(
        &mut self,
        seqs: &[i64],
        done: &[Uuid],
        now: Moment,
    ) -> (usize, Vec<(i64, Delivery)>) {
        for token in done {
            self.claims.remove(token);
        }
        let gone: Vec<(i64, Delivery)> =
            seqs.iter().filter_map(|seq| self.rows.remove(seq).map(|row| (*seq, row))).collect();
        let promoted = gone
            .iter()
            .filter(|(_, row)| row.hold != Hold::Ready && row.key.is_some())
            .map(|(_, row)| self.promote(row, now))
            .sum();
        (promoted, gone)
    }

    /// PROMOTE, for the key of one row.
    pub(super) fn promote(&mut self, of: &Delivery, now: Moment) -> usize {
        let mut promoted = 0;
        for row in self.rows.values_mut().filter(|row| row.same_key(of) && row.hold == Hold::Parked) {
            row.hold = Hold::Waiting;
            row.due = now;
            promoted += 1;
        }
        promoted
    }

    /// SETTLE FAILED.
    pub(super) fn settle_failed(&mut self, settle: &SettleFailed, now: Moment) -> NotApplied {
        let mut not_applied = NotApplied::default();
        let Some(seqs) = self.claims.get(&settle.token).cloned() else {
            not_applied.fenced.extend(settle.failures.iter().map(|failure| failure.seq));
            return not_applied;
        };
        if settle.last {
            self.claims.remove(&settle.token);
        } else {
            let left = |seq: &i64| settle.failures.iter().all(|failure| failure.seq != *seq);
            self.claims.insert(settle.token, seqs.iter().copied().filter(left).collect());
        }
        let before = self.rows.clone();
        for failure in &settle.failures {
            if !seqs.contains(&failure.seq) {
                not_applied.fenced.push(failure.seq);
                continue;
            }
            let Some(row) = self.rows.get_mut(&failure.seq) else {
                if failure.verdict != Verdict::Released {
                    not_applied.gone.push(failure.seq);
                }
                continue;
            };
            let held_key = before.values().any(|other| other.same_key(row) && other.hold.held());
            let (attempts, refusals) = spent(&failure.verdict);
            row.attempts += attempts;
            row.refusals += refusals;
            match &failure.verdict {
                Verdict::Refused { delay, .. } | Verdict::Unknown { delay, .. } => row.wait(now, *delay),
                Verdict::Dead { .. } => row.hold = Hold::Dead,
                Verdict::Blocked => row.hold = Hold::Parked,
                Verdict::Released if row.hold == Hold::Ready && held_key => row.wait(now, Duration::ZERO),
                Verdict::Released => {}
                Verdict::Sent => unreachable!("a sent event is not a failure"),
            }
        }
        not_applied
    }

    /// RECLAIM: drops the claims that are not `known`, as the owner of the lane. Returns the events that fell back.
    pub(super) fn reclaim(&mut self, owner: u64, known: &[Uuid], spent: u32, now: Moment) -> Vec<i64> {
        if owner != self.owner {
            return Vec::new();
        }
        let mut flown = BTreeSet::new();
        self.claims.retain(|token, seqs| {
            let stays = known.contains(token);
            if !stays {
                flown.extend(seqs.iter().copied());
            }
            stays
        });
        let before = self.rows.clone();
        for seq in &flown {
            let Some(row) = self.rows.get_mut(seq) else { continue };
            row.attempts += spent;
            if row.hold == Hold::Ready
                && before.values().any(|other| other.same_key(row) && other.hold.held())
            {
                row.wait(now, Duration::ZERO);
            }
        }
        flown.into_iter().collect()
    }

    /// ORPHANS: the first parked row of each key that nothing stands before becomes due.
    pub(super) fn orphans(&mut self, on_dead: impl Fn(&str) -> OnDead, now: Moment) -> usize {
        let nothing = BTreeSet::new();
        let orphans: Vec<i64> = self
            .rows
            .iter()
            .filter(|(seq, row)| {
                row.hold == Hold::Parked && !self.blocked(**seq, on_dead(&row.topic), &nothing)
            })
            .map(|(seq, _)| *seq)
            .collect();
        for seq in &orphans {
            self.rows.get_mut(seq).expect("it was found").wait(now, Duration::ZERO);
        }
        orphans.len()
    }

    /// REQUEUE, for all dead events.
    pub(super) fn requeue(&mut self, now: Moment) -> Vec<i64> {
        let mut requeued = Vec::new();
        for (seq, row) in self.rows.iter_mut().filter(|(_, row)| row.hold == Hold::Dead) {
            (row.attempts, row.refusals) = (0, 0);
            row.wait(now, Duration::ZERO);
            requeued.push(*seq);
        }
        requeued
    }
}

impl Delivery {
    fn wait(&mut self, now: Moment, delay: Duration) {
        self.hold = Hold::Waiting;
        self.due = now.after(delay);
    }
}

/// Attempts and refusals that an end costs.
pub(super) fn spent(verdict: &Verdict) -> (u32, u32) {
    match verdict {
        Verdict::Refused { .. } | Verdict::Dead { .. } => (1, 1),
        Verdict::Unknown { .. } => (1, 0),
        Verdict::Sent | Verdict::Released | Verdict::Blocked => (0, 0),
    }
}
