//! One owner of the lane: a flow, the connection on which its statements run one after another, and a record
//! of what became of every event it claimed.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use outrider_broker::Outcome;
use uuid::Uuid;

use crate::outbox::flow::{ClaimAnswer, ClaimPlan, Flow, FlowSettings, HandOver, Row, Settle, Ticket};
use crate::outbox::lease::Moment;
use crate::outbox::settle::Verdict;

use super::broker::{Arrival, Copy};
use super::database::LaneLost;

#[derive(Debug)]
pub(super) enum Statement {
    Claim { plan: ClaimPlan, token: Uuid, asked: Moment },
    Settle(Settle),
}

#[derive(Debug)]
pub(super) enum Reply {
    Claim { plan: ClaimPlan, answer: Result<ClaimAnswer, LaneLost>, asked: Moment },
    Settle { settle: Settle, promoted: bool },
}

/// A message that the publisher has.
#[derive(Debug)]
pub(super) struct Publish {
    pub(super) ticket: Ticket,
    pub(super) token: Uuid,
    pub(super) copy: Copy,
    pub(super) alone: bool,
    pub(super) outcome: Outcome,
    pub(super) arrival: Arrival,
}

/// What became of a claimed event.
#[derive(Debug, Default)]
pub(super) struct End {
    handed_over: bool,
    pub(super) verdict: Option<Verdict>,
    settled: bool,
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: u64,
    pub(super) flow: Flow,
    /// RECLAIM ran: it may claim.
    pub(super) reclaimed: bool,
    /// It knows that the lane is lost.
    pub(super) gave_up: bool,
    pub(super) sent: VecDeque<Statement>,
    pub(super) replies: VecDeque<Reply>,
    pub(super) publishing: Vec<Publish>,
    pub(super) ends: HashMap<(Uuid, i64), End>,
    /// Claims whose row a settle removed, or was to remove.
    removed: HashSet<Uuid>,
    /// Claims that must be settled before a topic is claimed again.
    flushing: HashMap<Arc<str>, BTreeSet<Uuid>>,
    /// When an event ended unknown on its own, and when its topic was last confirmed.
    pub(super) tried_alone: HashMap<i64, Moment>,
    pub(super) confirmed: HashMap<Arc<str>, Moment>,
}

impl Owner {
    pub(super) fn new(id: u64, settings: FlowSettings) -> Self {
        Owner {
            id,
            flow: Flow::new(settings),
            reclaimed: false,
            gave_up: false,
            sent: VecDeque::new(),
            replies: VecDeque::new(),
            publishing: Vec::new(),
            ends: HashMap::new(),
            removed: HashSet::new(),
            flushing: HashMap::new(),
            tried_alone: HashMap::new(),
            confirmed: HashMap::new(),
        }
    }

    /// Nothing is on its way between it and the database.
    pub(super) fn connection_idle(&self) -> bool {
        self.sent.is_empty() && self.replies.is_empty()
    }

    pub(super) fn claim_on_its_way(&self) -> bool {
        self.sent.iter().any(|statement| matches!(statement, Statement::Claim { .. }))
            || self.replies.iter().any(|reply| matches!(reply, Reply::Claim { .. }))
    }

    pub(super) fn done(&self) -> bool {
        self.flow.is_empty() && self.publishing.is_empty() && self.connection_idle()
    }

    pub(super) fn give_up(&mut self) {
        self.gave_up = true;
        self.flow.abandon();
        self.sent.retain(|statement| matches!(statement, Statement::Settle(_)));
        self.replies.retain(|reply| matches!(reply, Reply::Settle { .. }));
    }

    /// Checks a plan and sends it.
    pub(super) fn send_claim(&mut self, plan: ClaimPlan, token: Uuid, most: usize, asked: Moment) {
        assert!(!plan.topics.is_empty() && plan.topics.iter().all(|part| part.limit > 0), "{plan:?}");
        let events: usize = plan.topics.iter().map(|part| part.limit).sum();
        assert!(events <= most, "asks for {events} events with permits for {most}");
        let live: BTreeSet<Uuid> = self.flow.live().collect();
        for part in &plan.topics {
            let unsettled = self.flushing.get(&part.topic).is_some_and(|claims| !claims.is_disjoint(&live));
            assert!(!unsettled, "claims {} before its released events are settled", part.topic);
        }
        self.sent.push_back(Statement::Claim { plan, token, asked });
    }

    /// The answer to a claim.
    pub(super) fn claimed(&mut self, plan: ClaimPlan, answer: ClaimAnswer, asked: Moment, now: Moment) {
        for row in &answer.rows {
            if let Row::Event(event) = row {
                let twice = self.ends.insert((answer.token, event.seq), End::default());
                assert!(twice.is_none(), "one claim has {} twice", event.seq);
            }
        }
        self.flow.claimed(plan, answer, asked, now);
    }

    /// Checks what is handed over.
    pub(super) fn hand_over(&mut self, hand_over: &HandOver) {
        let event = &hand_over.event;
        let unended = self.publishing.iter().map(|publish| &publish.copy);
        let first = event.key.is_none()
            || unended.clone().all(|copy| copy.key != event.key || copy.topic != event.topic);
        assert!(first, "{} goes while an earlier one of its key has no end", event.seq);
        assert!(!hand_over.alone || self.publishing.is_empty(), "{} does not go alone", event.seq);
        assert!(self.publishing.iter().all(|publish| !publish.alone), "{} goes beside", event.seq);
        assert!(!self.gave_up, "{} goes without a lane", event.seq);
        let end = self.ends.get_mut(&(hand_over.token, event.seq)).expect("it was claimed");
        assert!(!end.handed_over && end.verdict.is_none() && !end.settled, "{} goes again", event.seq);
        end.handed_over = true;
    }

    /// Tells the flow what became of a publish.
    pub(super) fn resolve(&mut self, publish: &Publish, verdict: Verdict, now: Moment) {
        let copy = &publish.copy;
        let end = self.ends.get_mut(&(publish.token, copy.seq)).expect("it was claimed");
        assert!(end.verdict.is_none());
        end.verdict = Some(verdict.clone());
        if verdict == Verdict::Sent {
            self.confirmed.insert(copy.topic.clone(), now);
        }
        if verdict == Verdict::Released {
            let live = self.flow.live();
            let awaited = self.sent.iter().filter_map(|statement| match statement {
                Statement::Claim { token, .. } => Some(*token),
                Statement::Settle(_) => None,
            });
            self.flushing.insert(copy.topic.clone(), live.chain(awaited).collect());
        }
        if publish.alone {
            match verdict {
                Verdict::Unknown { .. } => self.tried_alone.insert(copy.seq, now),
                _ => self.tried_alone.remove(&copy.seq),
            };
        }
        self.flow.resolve(publish.ticket, verdict, now);
    }

    /// Takes the flow's next settle and checks that it ends events once and as the broker said.
    pub(super) fn next_settle(&mut self) -> Option<Settle> {
        let settle = self.flow.next_settle()?;
        let mut ended = 0;
        for seq in &settle.sent {
            let end = self
                .ends
                .iter_mut()
                .find(|((_, other), end)| other == seq && !end.settled && end.verdict == Some(Verdict::Sent));
            end.expect("only what was confirmed is sent, and once").1.settled = true;
            ended += 1;
        }
        for failed in &settle.failed {
            for failure in &failed.failures {
                let end = self.ends.get_mut(&(failed.token, failure.seq)).expect("it was claimed");
                assert!(!end.settled, "{} ends twice", failure.seq);
                end.settled = true;
                ended += 1;
                match &end.verdict {
                    Some(verdict) => assert_eq!(*verdict, failure.verdict, "{}", failure.seq),
                    None => {
                        let unsent = matches!(failure.verdict, Verdict::Released | Verdict::Blocked);
                        assert!(unsent && !end.handed_over, "{} is still out: {failure:?}", failure.seq);
                    }
                }
            }
        }
        let removed = settle
            .failed
            .iter()
            .filter(|failed| failed.last)
            .map(|failed| failed.token)
            .chain(settle.done.clone());
        for token in removed {
            assert!(self.removed.insert(token), "a claim's row is removed twice");
            let open = self.ends.iter().find(|((other, _), end)| *other == token && !end.settled);
            assert!(open.is_none(), "a claim's row goes with an event that has no end: {open:?}");
        }
        assert_eq!(ended, settle.ended.iter().map(|(_, count)| count).sum::<usize>(), "permits come back");
        Some(settle)
    }

    /// Every event that it claimed has its end in the database.
    pub(super) fn assert_all_settled(&self) {
        for ((_, seq), end) in &self.ends {
            assert!(end.settled || self.gave_up && end.verdict.is_none(), "{seq} has no end: {end:?}");
        }
    }
}
