//! One lane's stream to one broker: the pure flow, the permits its claims hold, and what is waited for.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use actix::Recipient;
use outrider_broker::{Cause, ErrorClass, Outcome, Scope};
use tokio::sync::watch;
use uuid::Uuid;

use super::pace::Pace;
use super::routing::Routing;
use crate::actors::messages::{BatchPermit, PublishBatch, PublishReport};
use crate::actors::outlet::Outlet;
use crate::actors::permits::Permit;
use crate::actors::reasons::Reasons;
use crate::outbox::flow::{ClaimAnswer, ClaimPlan, Flow, FlowSettings, Row, Settle, Ticket};
use crate::outbox::lease::{Lease, Moment};
use crate::outbox::settle::{Limits, Past, judge};
use crate::telemetry;

/// Most events in one message to a publisher.
const GROUP: usize = 1_000;

/// Most events of a claim before a payload was seen: a small first fetch, whatever the payloads turn out to be.
const FIRST_CLAIM: usize = 64;

/// A claim may fetch payloads of at most this share of the broker's bytes, as far as the last ones tell. A smaller one
/// where more claims may be unsettled: what waits in memory is bounded like what is in flight.
const FETCH_SHARE: usize = 4;

#[derive(Debug)]
pub(super) struct Outflow {
    pub(super) outlet: Arc<Outlet>,
    pub(super) flow: Flow,
    pub(super) pace: Pace,
    limits: Limits,
    fetch_share: usize,
    publisher: watch::Receiver<Option<Recipient<PublishBatch>>>,
    /// The address, taken once per publisher: each clone of one has a slot of its own in the mailbox.
    address: Option<Recipient<PublishBatch>>,
    /// Permits of each unsettled claim, by token.
    permits: HashMap<Uuid, Permit>,
    /// A permit that was waited for.
    pub(super) reserve: Reserve,
    /// Average payload of the last claims, in bytes; `None` before the first.
    payload: Option<usize>,
    /// Topics that wait for their destination, with the reasons that were logged.
    troubled: HashMap<Arc<str>, Reasons>,
}

/// What this flow waits for, or got by waiting.
#[derive(Debug, Default)]
pub(super) struct Reserve {
    pub(super) event: Option<Permit>,
    pub(super) bytes: Option<Permit>,
    pub(super) waits_for_event: bool,
    bytes_wanted: Want,
}

/// Bytes that the next event needs and that were not free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Want {
    #[default]
    Nothing,
    Bytes(usize),
    /// They are waited for.
    Asked,
}

impl Reserve {
    /// So many bytes have to be waited for, which nobody does yet.
    pub(super) fn asks_for_bytes(&mut self) -> Option<usize> {
        let Want::Bytes(bytes) = self.bytes_wanted else { return None };
        self.bytes_wanted = Want::Asked;
        Some(bytes)
    }

    pub(super) fn got_bytes(&mut self, permit: Permit) {
        self.bytes_wanted = Want::Nothing;
        self.bytes = Some(permit);
    }
}

/// A group that was handed over, and what became of it.
pub(super) struct Returned {
    pub(super) broker: Arc<str>,
    /// Which life of the lane it belongs to.
    pub(super) life: u64,
    pub(super) tickets: Vec<(Ticket, Arc<str>, i64, bool)>,
    /// `None`: the publisher died over it.
    pub(super) report: Option<PublishReport>,
}

/// A group on its way.
pub(super) type Publishing = futures_util::future::BoxFuture<'static, Returned>;

impl Outflow {
    pub(super) fn new(outlet: Arc<Outlet>, settings: FlowSettings, pace: Pace) -> Self {
        let publisher = outlet.publisher();
        Outflow {
            publisher,
            outlet,
            pace,
            limits: settings.limits,
            fetch_share: settings.claims_in_flight.max(FETCH_SHARE),
            flow: Flow::new(settings),
            address: None,
            permits: HashMap::new(),
            reserve: Reserve::default(),
            payload: None,
            troubled: HashMap::new(),
        }
    }

    /// Takes permits for the next claim: as many as a claim may use and are free. `None`: wait for one.
    pub(super) fn permits(&mut self, batch_events: usize) -> Option<Permit> {
        let (_, max_bytes) = self.outlet.bound.bytes_in_use();
        let share = self.payload.map_or(FIRST_CLAIM, |payload| max_bytes / self.fetch_share / payload.max(1));
        let most = share.clamp(1, batch_events.max(1));
        let mut permit = match self.reserve.event.take() {
            Some(permit) => permit,
            None => return self.outlet.bound.try_events(most),
        };
        if let Some(more) = self.outlet.bound.try_events(most.saturating_sub(permit.count())) {
            permit.merge(more);
        }
        Some(permit)
    }

    /// A claim was answered: its events keep their permits, the rest is free again.
    pub(super) fn claimed(
        &mut self,
        plan: ClaimPlan,
        answer: ClaimAnswer,
        asked: Moment,
        now: Moment,
        mut permit: Permit,
    ) {
        let sizes = answer.rows.iter().filter_map(|row| match row {
            Row::Event(event) => Some(event.body.as_ref().map_or(0, |body| body.payload.len())),
            Row::Blocked { .. } => None,
        });
        let (events, bytes) = sizes.fold((0, 0), |(events, bytes), size| (events + 1, bytes + size));
        if let Some(seen) = bytes.checked_div(events) {
            // Rises at once, falls slowly: a fetch that is too large costs more than one that is too small.
            self.payload = Some(self.payload.map_or(seen, |known| seen.max((known + seen) / 2)));
            self.pace.claimed(answer.token, asked);
            if let Some(held) = permit.split(events) {
                self.permits.insert(answer.token, held);
            }
        }
        self.flow.claimed(plan, answer, asked, now);
    }

    /// Whether an event may be handed over now.
    pub(super) fn open(&self, lease: &Lease, now: Moment) -> bool {
        self.address.is_some() && self.outlet.is_up() && lease.allows(now, self.pace.deadline())
    }

    /// Takes the publisher's address if there is a new one.
    pub(super) fn refresh(&mut self) {
        if self.address.is_none() || self.publisher.has_changed().unwrap_or(true) {
            self.address = self.publisher.borrow_and_update().clone();
        }
    }

    /// Hands over what may go. With `open` false everything that waits goes back instead.
    pub(super) fn hand_over(
        &mut self,
        routing: &mut Routing,
        now: Moment,
        open: bool,
        life: u64,
    ) -> Option<Publishing> {
        let (outlet, reserve) = (&self.outlet, &mut self.reserve);
        let mut bytes: Option<Permit> = None;
        let mut refused = None;
        let group = self.flow.next_group(now, open, GROUP, |size| {
            let needed = size.clamp(1, outlet.bound.bytes_in_use().1);
            let reserved = reserve.bytes.take().filter(|reserved| reserved.count() >= needed);
            match reserved.or_else(|| outlet.bound.try_bytes(size)) {
                Some(granted) => {
                    match &mut bytes {
                        Some(bytes) => bytes.merge(granted),
                        None => bytes = Some(granted),
                    }
                    true
                }
                None => {
                    refused = Some(size);
                    false
                }
            }
        });
        // What nobody asked for is free again.
        reserve.bytes = None;
        if let (Want::Nothing, Some(bytes)) = (reserve.bytes_wanted, refused) {
            reserve.bytes_wanted = Want::Bytes(bytes);
        }
        let mut messages = Vec::with_capacity(group.len());
        let mut tickets = Vec::with_capacity(group.len());
        let mut events: Option<Permit> = None;
        for hand_over in group {
            let event = &hand_over.event;
            let past = Past { attempts: event.attempts, refusals: event.refusals };
            let message = match routing.message(event, outlet.shape) {
                Some(Ok(message)) => message,
                Some(Err(refusal)) => {
                    let verdict =
                        judge(&Outcome::Refused(refusal), past, &self.limits, false, rand::random());
                    self.flow.resolve(hand_over.ticket, verdict, now);
                    continue;
                }
                None => {
                    let verdict = crate::outbox::settle::Verdict::Released;
                    self.flow.resolve(hand_over.ticket, verdict, now);
                    continue;
                }
            };
            if let Some(permit) = self.permits.get_mut(&hand_over.token).and_then(|permit| permit.split(1)) {
                match &mut events {
                    Some(events) => events.merge(permit),
                    None => events = Some(permit),
                }
            }
            tickets.push((hand_over.ticket, event.topic.clone(), event.seq, event.attempts == 0));
            messages.push(message);
        }
        if messages.is_empty() {
            return None;
        }
        let broker = outlet.name.clone();
        let batch = PublishBatch {
            broker: broker.clone(),
            messages,
            deadline: Instant::now() + self.pace.deadline(),
            permit: BatchPermit { events, bytes },
        };
        // `open` says that there is an address.
        let reply = self.address.as_ref()?.send(batch);
        Some(Box::pin(async move { Returned { broker, life, tickets, report: reply.await.ok() } }))
    }

    /// A group came back: every event of it gets its end.
    pub(super) fn returned(&mut self, tenant: &str, returned: Returned, now: Moment) {
        let count = returned.tickets.len();
        let (outcomes, permit) = match returned.report {
            Some(report) => (report.outcomes, Some(report.permit)),
            None => {
                let cause = Cause::event(ErrorClass::Local, "the publisher died over it");
                (vec![Outcome::Unknown(cause); count], None)
            }
        };
        // The permits are the claim's until it is settled.
        if let Some(events) = permit.and_then(|permit| permit.events) {
            self.take_back(events, &returned.tickets);
        }
        let mut trouble: HashMap<Arc<str>, Cause> = HashMap::new();
        for ((ticket, topic, seq, first), outcome) in returned.tickets.into_iter().zip(outcomes) {
            let Some((past, convicted)) = self.flow.past(ticket) else { continue };
            match &outcome {
                Outcome::Confirmed(receipt) => {
                    if receipt.duplicate && first {
                        telemetry::duplicate_on_first_attempt(tenant, &self.outlet.name, seq);
                    }
                    if self.troubled.remove(&topic).is_some() {
                        telemetry::topic_resumed(tenant, &self.outlet.name, &topic);
                    }
                }
                // With the breaker open there is nothing to pause: nothing is claimed anyway.
                Outcome::Retry(cause) | Outcome::NotSent(cause) if self.outlet.is_up() => {
                    trouble.entry(topic.clone()).or_insert_with(|| cause.clone());
                }
                Outcome::Unknown(cause) if cause.scope == Scope::Destination => {
                    trouble.entry(topic.clone()).or_insert_with(|| cause.clone());
                }
                Outcome::Retry(_) | Outcome::NotSent(_) | Outcome::Unknown(_) | Outcome::Refused(_) => {}
            }
            let verdict = judge(&outcome, past, &self.limits, convicted, rand::random());
            self.flow.resolve(ticket, verdict, now);
        }
        for (topic, cause) in trouble {
            self.flow.pause(&topic, now, rand::random());
            if self.troubled.entry(topic.clone()).or_default().is_news(&cause.text) {
                telemetry::topic_paused(tenant, &self.outlet.name, &topic, &cause);
            }
        }
    }

    fn take_back(&mut self, mut events: Permit, tickets: &[(Ticket, Arc<str>, i64, bool)]) {
        for (ticket, ..) in tickets {
            let Some(token) = self.flow.token(*ticket) else { continue };
            let Some(one) = events.split(1) else { return };
            match self.permits.get_mut(&token) {
                Some(held) => held.merge(one),
                None => _ = self.permits.insert(token, one),
            }
        }
    }

    /// A settle is in the database: the permits of the events it ended are free.
    pub(super) fn settled(&mut self, settle: &Settle, promoted: bool, now: Moment) {
        self.flow.settled(settle, promoted, now);
        self.pace.settled(settle, now);
        for (token, count) in &settle.ended {
            self.release(*token, *count);
        }
    }

    /// The lane is lost. What waits is forgotten, what is in flight ends late.
    pub(super) fn abandon(&mut self) {
        self.reserve = Reserve::default();
        for (token, count) in self.flow.abandon() {
            self.release(token, count);
        }
    }

    fn release(&mut self, token: Uuid, count: usize) {
        let Some(held) = self.permits.get_mut(&token) else { return };
        drop(held.split(count));
        if held.count() == 0 {
            self.permits.remove(&token);
        }
    }
}
