//! What happens, as calls: each one logs and counts. Names of events are facts in the past tense. Nothing here
//! holds a payload, a key, a header's value or a secret.

mod log;
pub mod metrics;

use std::time::Duration;

use ::metrics::{counter, gauge, histogram};
use outrider_broker::{Cause, Outcome};
use tracing::{debug, error, info, warn};

use crate::actors::exit::{ChildExited, ChildId, Exit};
use crate::actors::permits::Bound;
use crate::store::{Stats, StoreError};

pub use log::init as init_log;

/// The daemon begins with these tenants and brokers. What happens rarely is counted from 0 on: of a counter that
/// appears with its first increment, a rate or an alert misses that one.
pub fn begins<'a>(tenants: impl Iterator<Item = &'a str>, brokers: impl Iterator<Item = &'a str>) {
    for tenant in tenants {
        let label = || tenant.to_owned();
        for name in [
            metrics::EVENTS_FENCED,
            metrics::EVENTS_SETTLE_UNKNOWN,
            metrics::SETTLES_REPEATED,
            metrics::CLAIMS_RECLAIMED,
            metrics::EVENTS_RECLAIMED,
            metrics::LANES_LOST,
            metrics::EVENTS_IN_DOUBT,
            metrics::EVENTS_REMOVED,
            metrics::FLOORS_PASSED,
        ] {
            counter!(name, "tenant" => label()).increment(0);
        }
        for outcome in ["sent", "refused", "unknown", "dead", "released", "blocked"] {
            counter!(metrics::EVENTS_SETTLED, "tenant" => label(), "outcome" => outcome).increment(0);
        }
        gauge!(metrics::UNROUTED_TOPICS, "tenant" => label()).set(0.0);
        lanes_owned(tenant, 0);
        lease_changed(tenant, Duration::ZERO);
    }
    for broker in brokers {
        let label = || broker.to_owned();
        counter!(metrics::DUPLICATES_ON_FIRST_ATTEMPT, "broker" => label()).increment(0);
        for outcome in ["confirmed", "retry", "refused", "unknown", "not_sent"] {
            counter!(metrics::EVENTS_PUBLISHED, "broker" => label(), "outcome" => outcome).increment(0);
        }
        // No link begins with a connection.
        gauge!(metrics::BREAKER_OPEN, "broker" => label()).set(1.0);
    }
    for role in ["claimer", "publisher", "janitor"] {
        counter!(metrics::CHILD_EXITS, "role" => role, "reason" => "panicked").increment(0);
    }
}

/// A batch's report is in.
pub fn batch_published(broker: &str, outcomes: &[Outcome], took: Duration) {
    let broker: std::sync::Arc<str> = broker.into();
    histogram!(metrics::PUBLISH_SECONDS, "broker" => broker.clone()).record(took.as_secs_f64());
    let mut confirmed = 0;
    for outcome in outcomes {
        let Some(cause) = outcome.cause() else {
            confirmed += 1;
            continue;
        };
        counter!(metrics::EVENTS_PUBLISHED, "broker" => broker.clone(), "outcome" => outcome.name())
            .increment(1);
        counter!(metrics::EVENTS_FAILED, "broker" => broker.clone(), "class" => cause.class.name())
            .increment(1);
    }
    if confirmed > 0 {
        counter!(metrics::EVENTS_PUBLISHED, "broker" => broker, "outcome" => "confirmed")
            .increment(confirmed);
    }
}

/// The broker knows an id that was never sent before.
pub fn duplicate_on_first_attempt(tenant: &str, broker: &str, seq: i64) {
    counter!(metrics::DUPLICATES_ON_FIRST_ATTEMPT, "broker" => broker.to_owned()).increment(1);
    warn!(
        tenant,
        broker,
        seq,
        "the broker has a message of this id already, on the event's first attempt: ids are not unique"
    );
}

/// A plugin broke its contract.
pub fn plugin_broke(broker: &str, what: &str) {
    error!(broker, "{what}; its batch counts as unknown");
}

/// A connect, a probe or a batch found a broker in trouble, for whatever reason and however often.
pub fn broker_troubled(broker: &str, cause: &Cause) {
    counter!(metrics::BROKER_TROUBLES, "broker" => broker.to_owned(), "class" => cause.class.name())
        .increment(1);
}

/// A link's breaker opened for a (new) reason, or closed.
#[derive(Debug)]
pub enum LinkChanged<'a> {
    Up { down_for: Duration },
    Down(&'a Cause),
}

pub fn link_changed(broker: &str, change: LinkChanged<'_>) {
    let open = matches!(change, LinkChanged::Down(_));
    gauge!(metrics::BREAKER_OPEN, "broker" => broker.to_owned()).set(if open { 1.0 } else { 0.0 });
    match change {
        LinkChanged::Up { down_for } => info!(broker, ?down_for, "broker is up"),
        LinkChanged::Down(cause) => {
            warn!(broker, class = cause.class.name(), "broker is down, its events wait: {cause}");
        }
    }
}

pub fn broker_in_flight(broker: &str, bound: &Bound) {
    let label = || broker.to_owned();
    let ((events, max_events), (bytes, max_bytes)) = (bound.events_in_use(), bound.bytes_in_use());
    gauge!(metrics::IN_FLIGHT_EVENTS, "broker" => label()).set(events as f64);
    gauge!(metrics::IN_FLIGHT_EVENTS_LIMIT, "broker" => label()).set(max_events as f64);
    gauge!(metrics::IN_FLIGHT_BYTES, "broker" => label()).set(bytes as f64);
    gauge!(metrics::IN_FLIGHT_BYTES_LIMIT, "broker" => label()).set(max_bytes as f64);
}

/// A topic's destination is in trouble: nothing of the topic is claimed for a while. Called once per reason.
pub fn topic_paused(tenant: &str, broker: &str, topic: &str, cause: &Cause) {
    warn!(tenant, broker, topic, class = cause.class.name(), "topic waits: {cause}");
}

pub fn topic_resumed(tenant: &str, broker: &str, topic: &str) {
    info!(tenant, broker, topic, "topic flows again");
}

pub fn events_claimed(tenant: &str, broker: &str, events: usize, took: Duration) {
    histogram!(metrics::CLAIM_SECONDS, "tenant" => tenant.to_owned()).record(took.as_secs_f64());
    if events > 0 {
        counter!(metrics::EVENTS_CLAIMED, "tenant" => tenant.to_owned(), "broker" => broker.to_owned())
            .increment(events as u64);
    }
}

/// Outcomes are in the database. `outcome` is `sent`, `refused`, `unknown`, `dead`, `released` or `blocked`.
pub fn events_settled(tenant: &str, outcome: &'static str, events: usize) {
    if events > 0 {
        counter!(metrics::EVENTS_SETTLED, "tenant" => tenant.to_owned(), "outcome" => outcome)
            .increment(events as u64);
    }
}

pub fn settle_took(tenant: &str, took: Duration) {
    histogram!(metrics::SETTLE_SECONDS, "tenant" => tenant.to_owned()).record(took.as_secs_f64());
}

/// An event is dead. `error` is the broker's or the plugin's word, never the event's content.
pub fn event_died(tenant: &str, topic: &str, seq: i64, error: &str) {
    warn!(tenant, topic, seq, "event is dead: {error}");
}

pub fn events_fenced(tenant: &str, events: usize) {
    counter!(metrics::EVENTS_FENCED, "tenant" => tenant.to_owned()).increment(events as u64);
    warn!(tenant, events, "outcomes came after the claim was lost and changed nothing");
}

pub fn settle_unknown(tenant: &str, events: usize) {
    counter!(metrics::EVENTS_SETTLE_UNKNOWN, "tenant" => tenant.to_owned()).increment(events as u64);
    warn!(tenant, events, "outcomes may or may not have been written before the lane was lost");
}

pub fn settle_repeated(tenant: &str) {
    counter!(metrics::SETTLES_REPEATED, "tenant" => tenant.to_owned()).increment(1);
}

pub fn lane_taken(tenant: &str, lane: i16, epoch: i64) {
    info!(tenant, lane, epoch, "lane taken");
}

/// A lane is somebody else's. The events that are `in_flight` are unknown from now on: the next owner counts an attempt
/// of each and sends it again, whatever is heard of it here but a confirm.
pub fn lane_lost(tenant: &str, lane: i16, in_flight: usize) {
    counter!(metrics::LANES_LOST, "tenant" => tenant.to_owned()).increment(1);
    counter!(metrics::EVENTS_IN_DOUBT, "tenant" => tenant.to_owned()).increment(in_flight as u64);
    warn!(
        tenant,
        lane,
        in_flight,
        "lane lost: another replica took it, or the lease ran out; what is in flight is unknown"
    );
}

pub fn lane_given(tenant: &str, lane: i16, free: bool) {
    info!(tenant, lane, free, "lane given up");
}

pub fn lanes_owned(tenant: &str, lanes: usize) {
    gauge!(metrics::LANES_OWNED, "tenant" => tenant.to_owned()).set(lanes as f64);
}

/// The lease in force has this length now; zero: no lane is owned.
pub fn lease_changed(tenant: &str, lease: Duration) {
    gauge!(metrics::LEASE, "tenant" => tenant.to_owned()).set(lease.as_secs_f64());
}

/// What is handed over from now on has this much time.
pub fn publish_deadline_changed(tenant: &str, broker: &str, deadline: Duration) {
    gauge!(metrics::PUBLISH_DEADLINE, "tenant" => tenant.to_owned(), "broker" => broker.to_owned())
        .set(deadline.as_secs_f64());
    debug!(tenant, broker, ?deadline, "publish deadline");
}

/// Claims of an earlier owner were taken back.
pub fn claims_reclaimed(tenant: &str, lane: i16, claims: usize, events: usize) {
    counter!(metrics::CLAIMS_RECLAIMED, "tenant" => tenant.to_owned()).increment(claims as u64);
    counter!(metrics::EVENTS_RECLAIMED, "tenant" => tenant.to_owned()).increment(events as u64);
    warn!(
        tenant,
        lane,
        claims,
        events,
        "took back claims of an owner that lost the lane; their events may arrive twice"
    );
}

/// The tenant's database fails for a (new) reason.
pub fn tenant_failed(tenant: &str, reason: &str) {
    gauge!(metrics::TENANT_UP, "tenant" => tenant.to_owned()).set(0.0);
    warn!(tenant, "tenant waits: {reason}");
}

pub fn tenant_worked(tenant: &str) {
    gauge!(metrics::TENANT_UP, "tenant" => tenant.to_owned()).set(1.0);
    info!(tenant, "tenant works");
}

/// How many topics of a tenant have events and no route; `topics` names them.
pub fn topics_unrouted(tenant: &str, topics: &[&str]) {
    gauge!(metrics::UNROUTED_TOPICS, "tenant" => tenant.to_owned()).set(topics.len() as f64);
    if !topics.is_empty() {
        warn!(
            tenant,
            ?topics,
            "topics without a route: their events are held. Add a route to the tenant's file"
        );
    }
}

pub fn floor_passed(tenant: &str, oldest_writer: Option<(i32, Duration)>) {
    counter!(metrics::FLOORS_PASSED, "tenant" => tenant.to_owned()).increment(1);
    let (pid, age) = oldest_writer.unzip();
    warn!(
        tenant,
        pid,
        ?age,
        "a write transaction is older than order_horizon: its events are delivered, their order is not promised"
    );
}

pub fn events_removed(tenant: &str, events: u64) {
    if events > 0 {
        counter!(metrics::EVENTS_REMOVED, "tenant" => tenant.to_owned()).increment(events);
    }
}

pub fn child_exited(exited: &ChildExited, restart_in: Option<Duration>) {
    let (role, name) = (exited.child.role(), exited.child.name());
    let reason = match exited.exit {
        Exit::Drained => "drained",
        Exit::CutShort => "cut_short",
        Exit::Panicked => "panicked",
    };
    counter!(metrics::CHILD_EXITS, "role" => role, "reason" => reason).increment(1);
    match restart_in {
        Some(delay) => error!(role, name, reason, ?delay, "actor ended and is restarted"),
        None => info!(role, name, reason, "actor ended"),
    }
}

/// A child waits to be started again after it ended by itself, or waits no more.
pub fn child_rests(child: &ChildId, rests: bool) {
    let (role, name) = (child.role(), child.name().to_owned());
    gauge!(metrics::CHILD_RESTING, "role" => role, "name" => name).set(if rests { 1.0 } else { 0.0 });
}

/// A child begins: for the first time, or once more after it ended by itself.
pub fn child_started(child: &ChildId, again: bool) {
    let (role, name) = (child.role(), child.name().to_owned());
    counter!(metrics::CHILD_RESTARTS, "role" => role, "name" => name).increment(u64::from(again));
    child_rests(child, false);
}

/// The janitor read a tenant's gauges.
pub fn tenant_measured(tenant: &str, stats: &Stats) {
    let label = || tenant.to_owned();
    let age = stats.oldest_unsent_age.unwrap_or_default();
    gauge!(metrics::TENANT_MEASURED, "tenant" => label()).set(1.0);
    gauge!(metrics::OLDEST_UNSENT_AGE, "tenant" => label()).set(age.as_secs_f64());
    gauge!(metrics::PENDING_EVENTS, "tenant" => label()).set(stats.pending() as f64);
    gauge!(metrics::SCHEDULED_EVENTS, "tenant" => label()).set(stats.scheduled as f64);
    gauge!(metrics::DEAD_EVENTS, "tenant" => label()).set(stats.dead as f64);
    gauge!(metrics::PARKED_EVENTS, "tenant" => label()).set(stats.parked as f64);
    gauge!(metrics::BLOCKED_KEYS, "tenant" => label()).set(stats.blocked_keys as f64);
}

/// The janitor could not: the gauges hold old values.
pub fn tenant_unmeasured(tenant: &str, error: Option<&StoreError>) {
    gauge!(metrics::TENANT_MEASURED, "tenant" => tenant.to_owned()).set(0.0);
    if let Some(error) = error {
        debug!(tenant, "janitor failed to {error}");
    }
}
