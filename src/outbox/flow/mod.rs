//! What the owner of a lane keeps in memory about one broker, and the rules by which it claims, hands
//! over and settles. Pure: it decides, somebody else waits and calls.
//!
//! A [`Flow`] is driven in this order, again and again:
//!
//! 1. [`Flow::resolve`] for every event of a report that came back,
//! 2. [`Flow::next_settle`] until there is none: what failed must be in the database before the next claim,
//! 3. [`Flow::begin_claim`], the statement, [`Flow::claimed`],
//! 4. [`Flow::next_group`]: events to hand to the publisher, all at once.
//!
//! Reports may come in while a statement is on its way. Statements run one after another, in the order of the calls,
//! and at most one claim is unanswered.
//!
//! Invariants (held by `tests.rs`):
//! - an event is handed over only after every earlier one of its topic and key in the flow has ended, and only
//!   if none of them failed; so a later one never overtakes;
//! - every claimed event ends exactly once, and a claim's row is removed by exactly one settle;
//! - a topic with released events is not claimed until the claims they came from are settled.

mod claim;
#[cfg(test)]
mod tests;
mod topic;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::outbox::event::{Event, OnDead};
use crate::outbox::lease::Moment;
use crate::outbox::settle::{Limits, Past, Verdict};

pub use claim::Failure;
use claim::{Claim, Slot, SlotState};
use topic::Topic;

/// Number of a claim within its flow, in the order in which claims are sent.
pub type ClaimNo = u64;

/// Which index a claim walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// New events, in the order of `seq`.
    Ready,
    /// Retries, unparked followers and scheduled events whose time has come.
    Due,
}

/// Bounds of a flow, from the tenant's `[delivery]`.
#[derive(Clone, Copy, Debug)]
pub struct FlowSettings {
    pub limits: Limits,
    /// Claims that may be unsettled at the same time; at least 1.
    pub claims_in_flight: usize,
    /// Events a claim asks for at most; at least 1.
    pub batch_events: usize,
    /// How long a write transaction may hold the floor.
    pub order_horizon: Duration,
}

/// A claim to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimPlan {
    no: ClaimNo,
    pub path: Path,
    pub topics: Vec<TopicLimit>,
}

/// One topic of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicLimit {
    pub topic: Arc<str>,
    /// Scan behind this `seq` (ready path only).
    pub after: i64,
    /// Most events.
    pub limit: usize,
    pub on_dead: OnDead,
}

/// What a claim found.
#[derive(Debug)]
pub enum Row {
    Event(Event),
    /// Parked by the claim behind an earlier event of its key.
    Blocked {
        seq: i64,
        topic: Arc<str>,
    },
}

/// The answer to a claim whose lane still stands.
#[derive(Debug)]
pub struct ClaimAnswer {
    pub token: Uuid,
    /// Lower bound of the running transactions; ready path only.
    pub xmin: Option<i64>,
    /// The claim's own transaction, if it wrote a claim row; ready path only.
    pub xid: Option<i64>,
    pub rows: Vec<Row>,
}

/// Names an event of a flow from hand-over to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    no: ClaimNo,
    index: usize,
}

/// An event to be handed to the publisher now.
#[derive(Debug)]
pub struct HandOver {
    pub ticket: Ticket,
    pub token: Uuid,
    pub event: Event,
    /// It goes alone, for its attempts keep ending unknown.
    pub alone: bool,
}

/// One settle: the statement for what was sent, then one for each claim with other ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settle {
    pub sent: Vec<i64>,
    /// Claims of which nothing is left after the sent ones.
    pub done: Vec<Uuid>,
    pub failed: Vec<SettleFailed>,
    /// Claims that the flow can forget once this is settled.
    finished: Vec<Uuid>,
    /// Topics of the sent events: followers may have been unparked.
    topics: Vec<Arc<str>>,
    /// Events that this settle ends, by claim; so many permits come back.
    pub ended: Vec<(Uuid, usize)>,
}

/// The ends of one claim's events that were not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleFailed {
    pub token: Uuid,
    pub failures: Vec<Failure>,
    /// Nothing of the claim is left.
    pub last: bool,
}

type TopicKey = (Arc<str>, Arc<str>);

/// See the module.
#[derive(Debug)]
pub struct Flow {
    settings: FlowSettings,
    topics: BTreeMap<Arc<str>, Topic>,
    /// Unsettled claims, oldest first.
    claims: VecDeque<Claim>,
    last_no: ClaimNo,
    /// Keys of which an event failed since the last claim was planned, and its `seq`: what that claim brings of
    /// a later one stays back, for the statement could not see it.
    failed: HashMap<TopicKey, i64>,
    /// Unended events of each key, in hand-over order; only the first may be in flight.
    gates: HashMap<TopicKey, VecDeque<Ticket>>,
    /// Events that wait for nothing but the next group.
    eligible: VecDeque<Ticket>,
    in_flight: usize,
    alone: Option<Ticket>,
    /// Events that ended unknown when they were tried alone, and when.
    suspects: HashMap<i64, Moment>,
    /// See [`Flow::hurry`].
    hurried: bool,
    /// Which topic the next claim names first.
    turn: usize,
    last_path: Path,
}

impl Flow {
    pub fn new(settings: FlowSettings) -> Self {
        Flow {
            settings,
            topics: BTreeMap::new(),
            claims: VecDeque::new(),
            last_no: 0,
            failed: HashMap::new(),
            gates: HashMap::new(),
            eligible: VecDeque::new(),
            in_flight: 0,
            alone: None,
            suspects: HashMap::new(),
            hurried: false,
            turn: 0,
            last_path: Path::Ready,
        }
    }

    /// A look at the database found work of this topic: ready events, or one that is due at `due`.
    pub fn discovered(&mut self, topic: &Arc<str>, on_dead: OnDead, ready: bool, due: Option<Moment>) {
        let entry = self.topics.entry(topic.clone()).or_insert_with(|| Topic::new(on_dead));
        entry.on_dead = on_dead;
        entry.ready |= ready;
        if let Some(due) = due {
            entry.due_in(due);
        }
    }

    /// Plans the next claim for at most `budget` events, or nothing: no topic has work that may be claimed, the
    /// bound on claims is reached, or something has to be settled first. One at a time: a plan is answered with
    /// [`Flow::claimed`], or followed by [`Flow::reset`] if its reply is lost, before the next is made. Reports and
    /// settles may go on meanwhile.
    pub fn begin_claim(&mut self, now: Moment, budget: usize) -> Option<ClaimPlan> {
        let budget = budget.min(self.settings.batch_events);
        if budget == 0 || !self.wants_claim(now) {
            return None;
        }
        let path = self.next_path(now);
        let count = self.topics.len();
        let names: Vec<&Arc<str>> = self.topics.keys().collect();
        let chosen: Vec<(&Arc<str>, &Topic)> = (0..count)
            .map(|i| names[(self.turn + i) % count])
            .map(|name| (name, &self.topics[name]))
            .filter(|(_, topic)| self.is_claimable(topic, path, now))
            .take(budget)
            .collect();
        let each = budget / chosen.len().max(1);
        let topics: Vec<TopicLimit> = chosen
            .into_iter()
            .map(|(name, topic)| TopicLimit {
                topic: name.clone(),
                after: topic.after(),
                limit: if topic.on_probation() { 1 } else { each },
                on_dead: topic.on_dead,
            })
            .collect();
        for part in &topics {
            if let Some(topic) = self.topics.get_mut(&part.topic) {
                topic.planned(path);
            }
        }
        self.turn = self.turn.wrapping_add(1) % count.max(1);
        self.last_path = path;
        self.last_no += 1;
        self.failed.clear();
        Some(ClaimPlan { no: self.last_no, path, topics })
    }

    /// Whether [`Flow::begin_claim`] would plan something, given permits.
    pub fn wants_claim(&self, now: Moment) -> bool {
        self.claims.len() < self.settings.claims_in_flight
            && !self.claims.iter().any(Claim::is_urgent)
            && (self.claimable(Path::Due, now).next().is_some()
                || self.claimable(Path::Ready, now).next().is_some())
    }

    /// Retries first, but not twice while there are new events: a backlog that keeps failing must not starve them.
    fn next_path(&self, now: Moment) -> Path {
        let due = self.claimable(Path::Due, now).next().is_some();
        let ready = self.claimable(Path::Ready, now).next().is_some();
        if due && !(ready && self.last_path == Path::Due) { Path::Due } else { Path::Ready }
    }

    fn claimable(&self, path: Path, now: Moment) -> impl Iterator<Item = &Topic> {
        self.topics.values().filter(move |topic| self.is_claimable(topic, path, now))
    }

    fn is_claimable(&self, topic: &Topic, path: Path, now: Moment) -> bool {
        let work = match path {
            Path::Ready => topic.ready,
            Path::Due => topic.due.is_some_and(|due| due <= now),
        };
        let flushing =
            topic.flush.is_some_and(|flush| self.claims.front().is_some_and(|claim| claim.no <= flush));
        work && !topic.paused(now) && !flushing
    }

    /// Tokens of the claims that are not fully settled: a claim leaves their events out.
    pub fn live(&self) -> impl Iterator<Item = Uuid> {
        self.claims.iter().map(|claim| claim.token)
    }

    /// The answer to a claim. `asked` is when it was sent, before its answer came at `now`.
    pub fn claimed(&mut self, plan: ClaimPlan, answer: ClaimAnswer, asked: Moment, now: Moment) {
        let mut found: HashMap<Arc<str>, (usize, i64)> = HashMap::new();
        let mut events = Vec::with_capacity(answer.rows.len());
        for row in answer.rows {
            let (topic, seq) = match &row {
                Row::Event(event) => (&event.topic, event.seq),
                Row::Blocked { seq, topic } => (topic, *seq),
            };
            let entry = found.entry(topic.clone()).or_insert((0, seq));
            *entry = (entry.0 + 1, entry.1.max(seq));
            if let Row::Event(event) = row {
                events.push(event);
            }
        }
        for TopicLimit { topic, limit, .. } in &plan.topics {
            let Some(state) = self.topics.get_mut(topic) else { continue };
            let (count, last) = found.get(topic).map_or((0, None), |(count, last)| (*count, Some(*last)));
            let full = count >= *limit;
            match (plan.path, answer.xmin) {
                (Path::Ready, Some(xmin)) => state.scanned((asked, now), xmin, answer.xid, last, full),
                _ if full => state.due_in(asked),
                _ => {}
            }
        }
        if events.is_empty() {
            return;
        }
        events.sort_by_key(|event| event.seq);
        let claim = Claim::new(plan.no, answer.token, plan.path, events);
        let mut blocked = Vec::new();
        for (index, slot) in claim.slots.iter().enumerate() {
            let ticket = Ticket { no: claim.no, index };
            match slot.topic_key() {
                None => self.eligible.push_back(ticket),
                Some(key) if self.failed.get(&key).is_some_and(|failed| slot.seq > *failed) => {
                    blocked.push(ticket);
                }
                Some(key) => {
                    let gate = self.gates.entry(key).or_default();
                    gate.push_back(ticket);
                    if gate.len() == 1 {
                        self.eligible.push_back(ticket);
                    }
                }
            }
        }
        self.claims.push_back(claim);
        for ticket in blocked {
            self.end(ticket, Verdict::Blocked, now);
        }
    }

    /// Takes up to `most` events to hand over together. With `open` false (breaker open, lease too short, drain)
    /// nothing is handed over and everything that waits goes back. What the rules keep back ends here too. `admit` is
    /// asked for each event by the size of its payload; its first no ends the group.
    pub fn next_group(
        &mut self,
        now: Moment,
        open: bool,
        most: usize,
        mut admit: impl FnMut(usize) -> bool,
    ) -> Vec<HandOver> {
        let mut group = Vec::new();
        while group.len() < most
            && let Some(ticket) = self.eligible.pop_front()
        {
            if let Some(verdict) = self.kept_back(ticket, open) {
                self.resolve(ticket, verdict, now);
                continue;
            }
            let suspect = self.slot(ticket).is_some_and(|slot| slot.past.is_suspect(&self.settings.limits));
            let must_wait = self.alone.is_some() || suspect && (self.in_flight > 0 || !group.is_empty());
            let size = self.slot(ticket).map_or(0, Slot::payload_bytes);
            if must_wait || !admit(size) {
                self.eligible.push_front(ticket);
                break;
            }
            if suspect {
                self.alone = Some(ticket);
            }
            group.extend(self.hand_over(ticket, suspect));
            if suspect {
                break;
            }
        }
        group
    }

    fn hand_over(&mut self, ticket: Ticket, alone: bool) -> Option<HandOver> {
        let claim = self.claims.iter_mut().find(|claim| claim.no == ticket.no)?;
        let slot = claim.slots.get_mut(ticket.index)?;
        let SlotState::Waiting(body) = std::mem::replace(&mut slot.state, SlotState::InFlight) else {
            return None;
        };
        self.in_flight += 1;
        let event = Event {
            seq: slot.seq,
            topic: slot.topic.clone(),
            key: slot.key.clone(),
            attempts: slot.past.attempts,
            refusals: slot.past.refusals,
            body,
        };
        Some(HandOver { ticket, token: claim.token, event, alone })
    }

    /// The first rule that keeps an event from being handed over.
    fn kept_back(&self, ticket: Ticket, open: bool) -> Option<Verdict> {
        let slot = self.slot(ticket)?;
        let flushed =
            self.topics.get(&slot.topic).and_then(|topic| topic.flush).is_some_and(|no| ticket.no <= no);
        (flushed || !open).then_some(Verdict::Released)
    }

    /// The claim that an event belongs to.
    pub fn token(&self, ticket: Ticket) -> Option<Uuid> {
        self.claims.iter().find(|claim| claim.no == ticket.no).map(|claim| claim.token)
    }

    /// What an event has behind it, and whether one more unknown outcome is its end.
    pub fn past(&self, ticket: Ticket) -> Option<(Past, bool)> {
        let slot = self.slot(ticket)?;
        let last_confirm = self.topics.get(&slot.topic).and_then(|topic| topic.last_confirm);
        let convicted = self.alone == Some(ticket)
            && self.suspects.get(&slot.seq).is_some_and(|tried| last_confirm.is_some_and(|at| at > *tried));
        Some((slot.past, convicted))
    }

    /// An event has its end. Later ones of its key that it holds back have theirs with it, so that they are written
    /// back together and nobody can be parked behind a head that has left meanwhile.
    pub fn resolve(&mut self, ticket: Ticket, verdict: Verdict, now: Moment) {
        let Some(claim) = self.claims.iter().find(|claim| claim.no == ticket.no) else { return };
        let Some(slot) = claim.slots.get(ticket.index) else { return };
        let (seq, key) = (slot.seq, slot.topic_key());
        let failed = verdict.holds_back() && !skips(&self.topics, &slot.topic, &verdict);
        if self.end(ticket, verdict, now)
            && let Some(key) = key
        {
            self.open_gate(key, ticket, failed.then_some(seq), now);
        }
    }

    /// Records an end. False if there was one before.
    fn end(&mut self, ticket: Ticket, verdict: Verdict, now: Moment) -> bool {
        let Some(claim) = self.claims.iter_mut().find(|claim| claim.no == ticket.no) else { return false };
        let Some(slot) = claim.slots.get_mut(ticket.index) else { return false };
        match std::mem::replace(&mut slot.state, SlotState::Ended) {
            SlotState::Ended => return false,
            SlotState::InFlight => self.in_flight -= 1,
            SlotState::Waiting(_) => {}
        }
        claim.open -= 1;
        let (seq, topic, key) = (slot.seq, slot.topic.clone(), slot.key.clone());
        let skipped = skips(&self.topics, &topic, &verdict);
        if self.alone == Some(ticket) {
            self.alone = None;
            if matches!(verdict, Verdict::Unknown { .. }) {
                self.suspects.insert(seq, now);
            } else {
                self.suspects.remove(&seq);
            }
        }
        if let Some(state) = self.topics.get_mut(&topic) {
            match (&verdict, claim.path) {
                (Verdict::Sent, _) => state.confirmed(now),
                (Verdict::Released, path) => {
                    state.flush = Some(self.last_no);
                    match path {
                        Path::Ready => state.came_back(seq),
                        Path::Due => state.due_in(now),
                    }
                }
                _ => {}
            }
        }
        match verdict {
            Verdict::Sent => claim.sent.push(seq),
            verdict => claim.failed.push(Failure { seq, topic, key, verdict, skipped }),
        }
        true
    }

    /// The first event of a key has its end: the next may go, or, if it `failed`, every later one stays back.
    fn open_gate(&mut self, key: TopicKey, ticket: Ticket, failed: Option<i64>, now: Moment) {
        let mut gate = self.gates.remove(&key).unwrap_or_default();
        let first = gate.pop_front();
        debug_assert!(first.is_none_or(|first| first == ticket), "only the first of a key is let go");
        if let Some(failed) = failed {
            let lowest = self.failed.entry(key.clone()).or_insert(failed);
            *lowest = failed.min(*lowest);
            gate.retain(|later| {
                let held_back = self.slot(*later).is_some_and(|slot| slot.seq > failed);
                !(held_back && self.end(*later, Verdict::Blocked, now))
            });
        }
        if let Some(next) = gate.front() {
            self.eligible.push_back(*next);
            self.gates.insert(key, gate);
        }
    }

    /// The destination of a topic is in trouble: claim nothing of it for a while. `jitter` in `0.0..=1.0`.
    pub fn pause(&mut self, topic: &Arc<str>, now: Moment, jitter: f64) {
        if let Some(topic) = self.topics.get_mut(topic) {
            topic.pause(now, jitter);
        }
    }

    /// From now on every end is written back at once, and not with the others of its claim: there may be no time left
    /// to wait for those.
    pub fn hurry(&mut self) {
        self.hurried = true;
    }

    /// Whether [`Flow::next_settle`] has something.
    pub fn wants_settle(&self) -> bool {
        self.claims.iter().any(|claim| claim.is_due(self.hurried))
    }

    /// What has to be written back now: all of the complete claims, and of the others what failed. Each end is
    /// handed out once: a settle whose reply is lost has to be sent again as it is.
    pub fn next_settle(&mut self) -> Option<Settle> {
        let mut settle = Settle::default();
        for claim in self.claims.iter_mut().filter(|claim| claim.is_due(self.hurried)) {
            let complete = claim.complete();
            claim.settling = complete;
            settle.ended.push((claim.token, claim.sent.len() + claim.failed.len()));
            for slot in &claim.slots {
                if !settle.topics.contains(&slot.topic) {
                    settle.topics.push(slot.topic.clone());
                }
            }
            settle.sent.append(&mut claim.sent);
            if !claim.failed.is_empty() {
                let failures = std::mem::take(&mut claim.failed);
                let last = complete && !claim.abandoned;
                settle.failed.push(SettleFailed { token: claim.token, failures, last });
            } else if complete && !claim.abandoned {
                settle.done.push(claim.token);
            }
            if complete {
                settle.finished.push(claim.token);
            }
        }
        (!settle.ended.is_empty()).then_some(settle)
    }

    /// A settle is in the database. `promoted` says that it unparked followers.
    pub fn settled(&mut self, settle: &Settle, promoted: bool, now: Moment) {
        self.claims.retain(|claim| !settle.finished.contains(&claim.token));
        if promoted {
            for topic in &settle.topics {
                if let Some(topic) = self.topics.get_mut(topic) {
                    topic.due_in(now);
                }
            }
        }
        for failure in settle.failed.iter().flat_map(|failed| &failed.failures) {
            let due = match &failure.verdict {
                Verdict::Refused { delay, .. } | Verdict::Unknown { delay, .. } => now.after(*delay),
                // Behind a key with held rows it came back as due at once.
                Verdict::Released => now,
                _ => continue,
            };
            if let Some(topic) = self.topics.get_mut(&failure.topic) {
                topic.due_in(due);
            }
        }
    }

    /// The lane is lost: nothing more is handed over, what is in flight ends late. Returns how many events of each
    /// claim were forgotten.
    pub fn abandon(&mut self) -> Vec<(Uuid, usize)> {
        self.eligible.clear();
        self.gates.clear();
        let mut forgotten = Vec::new();
        for claim in &mut self.claims {
            let mut count = 0;
            for slot in &mut claim.slots {
                if let SlotState::Waiting(_) = slot.state {
                    slot.state = SlotState::Ended;
                    count += 1;
                }
            }
            claim.open -= count;
            claim.abandoned |= count > 0;
            forgotten.push((claim.token, count));
        }
        self.topics.clear();
        self.claims.retain(|claim| !claim.complete() || !claim.sent.is_empty() || !claim.failed.is_empty());
        forgotten
    }

    /// Claims whose reply was lost were dropped, or parked rows changed: scan everything again.
    pub fn reset(&mut self) {
        self.topics.values_mut().for_each(Topic::reset);
    }

    /// The sweep of each minute: meet again what a scan from the floor passes by.
    pub fn sweep(&mut self) {
        self.topics.values_mut().for_each(Topic::sweep);
    }

    /// Lets floors pass long transactions. True if one was passed: order is not promised for its events.
    pub fn pass_horizon(&mut self, now: Moment) -> bool {
        let horizon = self.settings.order_horizon;
        let mut passed = false;
        for topic in self.topics.values_mut() {
            passed |= topic.pass_horizon(now, horizon);
        }
        passed
    }

    /// Topics that are claimed from, each with its floor.
    pub fn known(&self) -> impl Iterator<Item = (&Arc<str>, i64)> {
        self.topics.iter().map(|(name, topic)| (name, topic.floor()))
    }

    /// Topics with this policy.
    pub fn topics_with(&self, on_dead: OnDead) -> impl Iterator<Item = &Arc<str>> {
        self.topics.iter().filter(move |(_, topic)| topic.on_dead == on_dead).map(|(name, _)| name)
    }

    /// When there may be something to claim without a look at the database.
    pub fn wakes_at(&self, now: Moment) -> Option<Moment> {
        self.topics.values().filter_map(|topic| topic.wakes_at(now)).min()
    }

    /// Events with the publisher.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// No claim is unsettled.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    fn slot(&self, ticket: Ticket) -> Option<&Slot> {
        let claim = self.claims.iter().find(|claim| claim.no == ticket.no)?;
        claim.slots.get(ticket.index)
    }
}

/// Whether an event is dead and its topic's policy passes it over.
fn skips(topics: &BTreeMap<Arc<str>, Topic>, topic: &Arc<str>, verdict: &Verdict) -> bool {
    let policy = topics.get(topic).map_or(OnDead::Block, |state| state.on_dead);
    matches!(verdict, Verdict::Dead { .. }) && policy == OnDead::Skip
}

impl Slot {
    fn payload_bytes(&self) -> usize {
        match &self.state {
            SlotState::Waiting(Some(body)) => body.payload.len(),
            _ => 0,
        }
    }

    fn topic_key(&self) -> Option<TopicKey> {
        self.key.as_ref().map(|key| (self.topic.clone(), key.clone()))
    }
}
