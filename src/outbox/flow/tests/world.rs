//! A lane, its writers, its broker and its owners, moved on one random step at a time.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use outrider_broker::{Outcome, Scope};
use uuid::Uuid;

use crate::outbox::event::OnDead;
use crate::outbox::flow::{FlowSettings, Settle};
use crate::outbox::lease::Moment;
use crate::outbox::retry::Backoff;
use crate::outbox::settle::{Limits, Verdict, judge};

use super::broker::{Arrival, Broker, Copy, outcome};
use super::database::{Database, Delivery, Hold, spent};
use super::dice::Dice;
use super::owner::{Owner, Publish, Reply, Statement};
use super::writers::Names;

/// What may happen in a history.
#[derive(Clone, Debug)]
pub(super) struct Knobs {
    pub(super) seed: u64,
    pub(super) steps: usize,
    pub(super) topics: usize,
    pub(super) keys: usize,
    pub(super) claims_in_flight: usize,
    pub(super) batch_events: usize,
    /// Dead events of every second topic are passed over.
    pub(super) skip: bool,
    /// Publishes fail.
    pub(super) trouble: bool,
    /// Some events never get an answer.
    pub(super) curse: bool,
    /// Replies are lost.
    pub(super) cuts: bool,
    /// The lane is taken by another owner.
    pub(super) takes: bool,
    /// Reports come in while statements are on their way, and statements wait in line.
    pub(super) overlap: bool,
}

/// A settle that was cut off from its sender and may still run.
#[derive(Debug)]
struct Stray {
    settle: Settle,
    owner: usize,
}

#[derive(Debug)]
pub(super) struct World {
    knobs: Knobs,
    dice: Dice,
    names: Names,
    pub(super) now: Moment,
    pub(super) database: Database,
    broker: Broker,
    /// The last one has the lane.
    owners: Vec<Owner>,
    strays: Vec<Stray>,
    /// Attempts and refusals that each event ought to have.
    spent: HashMap<i64, (u32, u32)>,
    last_id: u64,
    last_token: u128,
    calm: bool,
}

impl World {
    pub(super) fn new(knobs: Knobs) -> Self {
        let names = Names {
            topics: (0..knobs.topics).map(|n| format!("t{n}").into()).collect(),
            keys: (0..knobs.keys).map(|n| format!("k{n}").into()).collect(),
        };
        let mut world = World {
            dice: Dice(knobs.seed),
            names,
            now: Moment::from_clock(Duration::from_secs(100)),
            database: Database::default(),
            broker: Broker::default(),
            owners: Vec::new(),
            strays: Vec::new(),
            spent: HashMap::new(),
            last_id: 0,
            last_token: 0,
            calm: false,
            knobs,
        };
        world.take();
        world
    }

    fn on_dead(&self, topic: &str) -> OnDead {
        if self.knobs.skip && topic.ends_with(['0', '2']) { OnDead::Skip } else { OnDead::Block }
    }

    fn settings(&self) -> FlowSettings {
        FlowSettings {
            limits: Limits {
                max_refusals: 3,
                max_unknown: 2,
                backoff: Backoff { base: Duration::from_millis(10), max: Duration::from_millis(40) },
            },
            claims_in_flight: self.knobs.claims_in_flight,
            batch_events: self.knobs.batch_events,
            order_horizon: Duration::from_secs(60),
        }
    }

    pub(super) fn step(&mut self) {
        match self.dice.below(100) {
            0..15 => {
                let longest = if self.dice.percent(5) { 1000 } else { 15 };
                let ms = self.dice.below(longest);
                self.advance(ms);
            }
            15..35 => self.database.write(&mut self.dice, &self.names, &mut self.broker, self.now),
            35 if self.knobs.takes && self.dice.percent(30) => self.take(),
            36 => self.requeue(),
            37 => self.broker.deliver_late(&mut self.dice),
            38 => self.run_stray(),
            _ => {
                let last = self.owners.len() - 1;
                let owner = if self.dice.percent(60) { last } else { self.dice.below(last + 1) };
                self.owner_step(owner);
            }
        }
    }

    /// No more faults and writes: everything has to leave.
    pub(super) fn settle_down(&mut self) {
        self.calm = true;
        self.database.finish_writers();
        for round in 0..300 {
            // A stale owner's confirm may have taken a head away at the moment when its followers were parked.
            if round % 25 == 24 && (self.knobs.takes || self.knobs.cuts) {
                self.orphans();
            }
            for owner in 0..self.owners.len() {
                self.calm_round(owner);
            }
            self.run_stray();
            self.requeue();
            let ms = self.dice.between(500, 3_000);
            self.advance(ms);
            let stray = !self.strays.is_empty() || self.owners.iter().any(|owner| !owner.done());
            if self.database.rows.is_empty() && !stray {
                break;
            }
        }
        assert!(self.database.rows.is_empty(), "stuck: {:?}", self.database.rows);
        assert!(self.database.claims.is_empty(), "claims stay: {:?}", self.database.claims);
        for owner in &self.owners {
            assert!(owner.done(), "an owner is stuck: {:?}", owner.flow);
            owner.assert_all_settled();
        }
        for seq in 1..self.database.take_seq() {
            let rolled_back = !self.spent.contains_key(&seq);
            assert!(rolled_back || self.broker.has(seq), "{seq} is lost");
        }
    }

    fn advance(&mut self, ms: usize) {
        let then = self.now.after(Duration::from_millis(u64::try_from(ms).expect("a usize fits")));
        self.database.hurry_writers(then);
        self.now = then;
    }

    /// Somebody new owns the lane. The one before doesn't know.
    fn take(&mut self) {
        self.last_id += 1;
        self.database.owner = self.last_id;
        self.owners.push(Owner::new(self.last_id, self.settings()));
    }

    fn requeue(&mut self) {
        for seq in self.database.requeue(self.now) {
            self.spent.insert(seq, (0, 0));
        }
    }

    fn owner_step(&mut self, index: usize) {
        if !self.owners[index].reclaimed {
            self.reclaim(index);
            return;
        }
        let wait = !self.knobs.overlap && !self.owners[index].connection_idle();
        match self.dice.below(100) {
            0..20 if !wait => self.report(index),
            20..35 => self.look(index),
            35..45 if !wait => self.send_settles(index),
            45..60 if !wait => self.send_claim(index),
            60..75 => self.execute(index),
            75..90 => self.reply(index),
            90..97 => self.hand_over(index),
            97 if self.knobs.cuts => self.cut(index),
            98 => {
                if self.dice.percent(50) {
                    self.owners[index].flow.sweep();
                }
                self.owners[index].flow.pass_horizon(self.now);
            }
            99 if self.owners[index].id != self.database.owner => self.owners[index].give_up(),
            _ => {
                self.execute(index);
                self.reply(index);
            }
        }
    }

    fn calm_round(&mut self, index: usize) {
        if !self.owners[index].reclaimed {
            self.reclaim(index);
        }
        if self.owners[index].id != self.database.owner && !self.owners[index].gave_up {
            self.owners[index].give_up();
        }
        while !self.owners[index].connection_idle() {
            self.execute(index);
            self.reply(index);
        }
        while !self.owners[index].publishing.is_empty() {
            self.report(index);
        }
        self.send_settles(index);
        self.run_all(index);
        self.look(index);
        self.send_claim(index);
        self.run_all(index);
        self.hand_over(index);
    }

    fn run_all(&mut self, index: usize) {
        while !self.owners[index].connection_idle() {
            self.execute(index);
            self.reply(index);
        }
    }

    fn reclaim(&mut self, index: usize) {
        let owner = &mut self.owners[index];
        owner.reclaimed = true;
        for seq in self.database.reclaim(owner.id, &[], 1, self.now) {
            self.spent.entry(seq).or_default().0 += 1;
        }
        self.orphans();
    }

    fn orphans(&mut self) -> usize {
        let skip = self.knobs.skip;
        let on_dead = |topic: &str| {
            if skip && topic.ends_with(['0', '2']) { OnDead::Skip } else { OnDead::Block }
        };
        self.database.orphans(on_dead, self.now)
    }

    /// A look at the database for topics with work.
    fn look(&mut self, index: usize) {
        for topic in self.names.topics.clone() {
            let of_topic = || self.database.rows.values().filter(|row| row.topic == topic);
            let ready = of_topic().any(|row| row.hold == Hold::Ready);
            let waiting = of_topic().filter(|row| matches!(row.hold, Hold::Waiting | Hold::Scheduled));
            let due = waiting.map(|row| row.due).min();
            if ready || due.is_some() {
                let on_dead = self.on_dead(&topic);
                self.owners[index].flow.discovered(&topic, on_dead, ready, due);
            }
        }
    }

    fn send_settles(&mut self, index: usize) {
        while let Some(settle) = self.owners[index].next_settle() {
            self.owners[index].sent.push_back(Statement::Settle(settle));
            if !self.knobs.overlap {
                self.execute(index);
                self.reply(index);
            }
        }
    }

    fn send_claim(&mut self, index: usize) {
        if self.owners[index].gave_up || self.owners[index].claim_on_its_way() {
            return;
        }
        if self.dice.percent(50) {
            self.send_settles(index);
        }
        let budget = self.dice.between(0, self.knobs.batch_events + 2);
        let owner = &mut self.owners[index];
        let wanted = owner.flow.wants_claim(self.now);
        let plan = owner.flow.begin_claim(self.now, budget);
        assert_eq!(plan.is_some(), wanted && budget > 0, "what it wants it plans");
        if let Some(plan) = plan {
            self.last_token += 1;
            let most = budget.min(self.knobs.batch_events);
            owner.send_claim(plan, Uuid::from_u128(self.last_token), most, self.now);
        }
    }

    /// The database runs the next statement.
    fn execute(&mut self, index: usize) {
        let Some(statement) = self.owners[index].sent.pop_front() else { return };
        let reply = match statement {
            Statement::Claim { plan, token, asked } => {
                let owner = &self.owners[index];
                let live: Vec<Uuid> = owner.flow.live().collect();
                let answer = self.database.claim(owner.id, token, &live, &plan, self.now);
                let own =
                    self.database.claims.keys().filter(|other| live.contains(other) || **other == token);
                assert!(own.count() <= self.knobs.claims_in_flight, "too many claims in flight");
                Reply::Claim { plan, answer, asked }
            }
            Statement::Settle(settle) => {
                let promoted = self.run_settle(&settle, index, usize::MAX);
                Reply::Settle { settle, promoted }
            }
        };
        self.owners[index].replies.push_back(reply);
        if !self.knobs.overlap {
            self.reply(index);
        }
    }

    /// Runs the first `most` statements of a settle, at least one. True if they promoted followers.
    fn run_settle(&mut self, settle: &Settle, index: usize, most: usize) -> bool {
        let (mut promoted, left) = self.database.settle_sent(&settle.sent, &settle.done, self.now);
        for (seq, row) in left {
            self.leaves(seq, &row);
        }
        let mut gone = false;
        for failed in settle.failed.iter().take(most - 1) {
            let not_applied = self.database.settle_failed(failed, self.now);
            let owner = &self.owners[index];
            if !self.knobs.takes && !self.knobs.cuts {
                assert!(not_applied.fenced.is_empty() && not_applied.gone.is_empty(), "{not_applied:?}");
            }
            for failure in &failed.failures {
                if not_applied.fenced.contains(&failure.seq) || not_applied.gone.contains(&failure.seq) {
                    continue;
                }
                let said = owner.ends[&(failed.token, failure.seq)].verdict.as_ref().map(spent);
                let (attempts, refusals) = said.unwrap_or_default();
                let total = self.spent.entry(failure.seq).or_default();
                *total = (total.0 + attempts, total.1 + refusals);
                let skips = matches!(failure.verdict, Verdict::Dead { .. })
                    && self.on_dead(&failure.topic) == OnDead::Skip;
                assert!(failure.skipped == skips || owner.gave_up);
                if failure.skipped {
                    let dead = self.database.rows[&failure.seq].clone();
                    promoted += self.database.promote(&dead, self.now);
                }
            }
            gone |= !not_applied.gone.is_empty();
        }
        if gone {
            promoted += self.orphans();
        }
        promoted > 0
    }

    /// A row left `delivery`: what was counted is what was spent.
    fn leaves(&mut self, seq: i64, row: &Delivery) {
        let spent = *self.spent.entry(seq).or_default();
        assert_eq!((row.attempts, row.refusals), spent, "attempts and refusals of {seq}");
    }

    /// The answer to the oldest executed statement arrives.
    fn reply(&mut self, index: usize) {
        let now = self.now;
        let owner = &mut self.owners[index];
        match owner.replies.pop_front() {
            None => {}
            Some(Reply::Claim { plan, answer: Ok(answer), asked }) => owner.claimed(plan, answer, asked, now),
            Some(Reply::Claim { answer: Err(_), .. }) => owner.give_up(),
            Some(Reply::Settle { settle, promoted }) => owner.flow.settled(&settle, promoted, now),
        }
    }

    fn hand_over(&mut self, index: usize) {
        let troubled = self.knobs.trouble && !self.calm;
        let open = !(troubled && self.dice.percent(10));
        let most = self.dice.between(1, 5);
        let owner = &mut self.owners[index];
        let dice = &mut self.dice;
        let group = owner.flow.next_group(self.now, open, most, |_| !troubled || dice.percent(90));
        assert!(group.len() <= most && (open || group.is_empty()));
        for hand_over in group {
            owner.hand_over(&hand_over);
            let event = hand_over.event;
            let copy = Copy { topic: event.topic, key: event.key, seq: event.seq };
            let cursed = self.knobs.curse && !self.calm && copy.seq % 7 == 3;
            let (outcome, arrival) = outcome(&mut self.dice, troubled, cursed);
            if arrival == Arrival::AtOnce {
                self.broker.arrive(&copy);
            }
            let (ticket, token, alone) = (hand_over.ticket, hand_over.token, hand_over.alone);
            owner.publishing.push(Publish { ticket, token, copy, alone, outcome, arrival });
        }
        assert_eq!(owner.flow.in_flight(), owner.publishing.len());
    }

    /// One of the messages that are out is reported, in no order.
    fn report(&mut self, index: usize) {
        let owner = &mut self.owners[index];
        if owner.publishing.is_empty() {
            return;
        }
        let publish = owner.publishing.swap_remove(self.dice.below(owner.publishing.len()));
        match publish.arrival {
            Arrival::BeforeReport => self.broker.arrive(&publish.copy),
            Arrival::Late => self.broker.comes_late(publish.copy.clone()),
            Arrival::AtOnce | Arrival::Never => {}
        }
        let (past, convicted) = owner.flow.past(publish.ticket).expect("its claim is not settled");
        let tried = owner.tried_alone.get(&publish.copy.seq);
        let others = owner.confirmed.get(&publish.copy.topic);
        let guilty = publish.alone && tried.is_some_and(|tried| others.is_some_and(|others| others > tried));
        assert!(convicted == guilty || owner.gave_up, "{} is convicted: {convicted}", publish.copy.seq);
        let limits = self.settings().limits;
        let verdict = judge(&publish.outcome, past, &limits, convicted, self.dice.fraction());
        if matches!(verdict, Verdict::Dead { .. }) && self.on_dead(&publish.copy.topic) == OnDead::Skip {
            self.broker.unordered.insert(publish.copy.seq);
        }
        let owner = &mut self.owners[index];
        owner.resolve(&publish, verdict, self.now);
        if let Outcome::Retry(cause) = &publish.outcome
            && cause.scope == Scope::Destination
        {
            owner.flow.pause(&publish.copy.topic, self.now, self.dice.fraction());
        }
        assert_eq!(owner.flow.in_flight(), owner.publishing.len());
    }

    /// The connection breaks: what is on its way runs, or doesn't, or runs some time later.
    fn cut(&mut self, index: usize) {
        let mut unanswered: Vec<Arc<Settle>> = Vec::new();
        while let Some(reply) = self.owners[index].replies.pop_front() {
            if let Reply::Settle { settle, .. } = reply {
                unanswered.push(settle.into());
            }
        }
        while let Some(statement) = self.owners[index].sent.pop_front() {
            match statement {
                Statement::Settle(settle) => {
                    match self.dice.below(3) {
                        0 => {}
                        1 => {
                            let most = self.dice.between(1, 1 + settle.failed.len());
                            self.run_settle(&settle, index, most);
                        }
                        _ => self.strays.push(Stray { settle: settle.clone(), owner: index }),
                    }
                    unanswered.push(settle.into());
                }
                Statement::Claim { plan, token, .. } => {
                    let owner = &self.owners[index];
                    let live: Vec<Uuid> = owner.flow.live().collect();
                    if self.dice.percent(50) {
                        // A claim that lost its lane changes nothing, so that its result does not matter.
                        _ = self.database.claim(owner.id, token, &live, &plan, self.now);
                    }
                }
            }
        }
        self.recover(index);
        let again = unanswered.into_iter().map(|settle| Statement::Settle((*settle).clone()));
        self.owners[index].sent.extend(again);
    }

    /// After a lost reply: a new owner's token, then RECLAIM of what is not known, and ORPHANS.
    fn recover(&mut self, index: usize) {
        let owner = &mut self.owners[index];
        if owner.gave_up || owner.id != self.database.owner {
            owner.give_up();
            return;
        }
        self.last_id += 1;
        owner.id = self.last_id;
        self.database.owner = self.last_id;
        let known: Vec<Uuid> = owner.flow.live().collect();
        self.database.reclaim(owner.id, &known, 0, self.now);
        owner.flow.reset();
        self.orphans();
    }

    fn run_stray(&mut self) {
        if !self.strays.is_empty() {
            let stray = self.strays.swap_remove(self.dice.below(self.strays.len()));
            self.run_settle(&stray.settle, stray.owner, usize::MAX);
        }
    }
}
