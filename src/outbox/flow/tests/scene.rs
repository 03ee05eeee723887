//! What the scenarios share: a flow, claims and answers by hand.

use std::time::Duration;

use uuid::Uuid;

use crate::outbox::event::{Event, OnDead};
use crate::outbox::flow::{ClaimAnswer, ClaimPlan, Flow, FlowSettings, HandOver, Path, Row, Settle, Ticket};
use crate::outbox::lease::Moment;
use crate::outbox::retry::Backoff;
use crate::outbox::settle::{Limits, Verdict};

pub(super) const LIMITS: Limits = Limits {
    max_refusals: 3,
    max_unknown: 2,
    backoff: Backoff { base: Duration::from_millis(500), max: Duration::from_secs(60) },
};

/// No event.
pub(super) const NONE: [i64; 0] = [];

pub(super) fn at(ms: u64) -> Moment {
    Moment::from_clock(Duration::from_millis(ms))
}

pub(super) fn event(seq: i64, topic: &str, key: &str) -> Event {
    let key = (!key.is_empty()).then(|| key.into());
    Event { seq, topic: topic.into(), key, attempts: 0, refusals: 0, body: None }
}

pub(super) fn rows<const N: usize>(events: [(i64, &str, &str); N]) -> Vec<Row> {
    events.map(|(seq, topic, key)| Row::Event(event(seq, topic, key))).into()
}

pub(super) fn refused() -> Verdict {
    Verdict::Refused { delay: Duration::from_millis(500), error: "no".into() }
}

pub(super) fn unknown() -> Verdict {
    Verdict::Unknown { delay: Duration::from_millis(500), error: "silence".into() }
}

pub(super) fn dead() -> Verdict {
    Verdict::Dead { error: "never".into() }
}

pub(super) fn settings(claims_in_flight: usize, batch_events: usize) -> FlowSettings {
    FlowSettings { limits: LIMITS, claims_in_flight, batch_events, order_horizon: Duration::from_secs(60) }
}

/// Knows these topics to have new events.
pub(super) fn flow<const N: usize>(topics: [&str; N]) -> Flow {
    let mut flow = Flow::new(settings(4, 100));
    discover(&mut flow, topics);
    flow
}

pub(super) fn discover<const N: usize>(flow: &mut Flow, topics: [&str; N]) {
    for topic in topics {
        flow.discovered(&topic.into(), OnDead::Block, true, None);
    }
}

pub(super) fn answer(flow: &mut Flow, plan: ClaimPlan, token: u128, now: Moment, rows: Vec<Row>) {
    let xmin = (plan.path == Path::Ready).then_some(1);
    flow.claimed(plan, ClaimAnswer { token: Uuid::from_u128(token), xmin, xid: None, rows }, now, now);
}

/// Claims and finds these rows. `token` is a number of the test's choice.
pub(super) fn claim(flow: &mut Flow, token: u128, now: Moment, rows: Vec<Row>) -> ClaimPlan {
    let plan = flow.begin_claim(now, 100).expect("there is something to claim");
    answer(flow, plan.clone(), token, now, rows);
    plan
}

pub(super) fn group(flow: &mut Flow, now: Moment) -> Vec<HandOver> {
    flow.next_group(now, true, 100, |_| true)
}

pub(super) fn seqs(group: &[HandOver]) -> Vec<i64> {
    group.iter().map(|hand_over| hand_over.event.seq).collect()
}

pub(super) fn ticket(group: &[HandOver], seq: i64) -> Ticket {
    group.iter().find(|hand_over| hand_over.event.seq == seq).expect("it was handed over").ticket
}

/// The ends of a claim's events that were not sent: claim, events, whether nothing of the claim is left.
type Ends = (u128, Vec<(i64, Verdict)>, bool);

pub(super) fn failures(settle: &Settle) -> Vec<Ends> {
    let failed = settle.failed.iter();
    failed
        .map(|failed| {
            let ends = failed.failures.iter().map(|failure| (failure.seq, failure.verdict.clone()));
            (failed.token.as_u128(), ends.collect(), failed.last)
        })
        .collect()
}

pub(super) fn settle(flow: &mut Flow, promoted: bool, now: Moment) -> Settle {
    let settle = flow.next_settle().expect("there is something to settle");
    flow.settled(&settle, promoted, now);
    settle
}
