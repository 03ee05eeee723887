//! Names of all metrics, with their units and what they mean. The only place where they are spelled.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

pub const EVENTS_CLAIMED: &str = "outrider_events_claimed_total";
pub const EVENTS_PUBLISHED: &str = "outrider_events_published_total";
pub const EVENTS_FAILED: &str = "outrider_publish_failures_total";
pub const EVENTS_SETTLED: &str = "outrider_events_settled_total";
pub const EVENTS_FENCED: &str = "outrider_events_fenced_total";
pub const EVENTS_SETTLE_UNKNOWN: &str = "outrider_events_settle_unknown_total";
pub const SETTLES_REPEATED: &str = "outrider_settles_repeated_total";
pub const DUPLICATES_ON_FIRST_ATTEMPT: &str = "outrider_duplicates_on_first_attempt_total";
pub const CLAIMS_RECLAIMED: &str = "outrider_claims_reclaimed_total";
pub const EVENTS_RECLAIMED: &str = "outrider_events_reclaimed_total";
pub const LANES_LOST: &str = "outrider_lanes_lost_total";
pub const EVENTS_IN_DOUBT: &str = "outrider_events_in_doubt_total";
pub const CLAIM_SECONDS: &str = "outrider_claim_seconds";
pub const PUBLISH_SECONDS: &str = "outrider_publish_seconds";
pub const SETTLE_SECONDS: &str = "outrider_settle_seconds";
pub const IN_FLIGHT_EVENTS: &str = "outrider_in_flight_events";
pub const IN_FLIGHT_EVENTS_LIMIT: &str = "outrider_in_flight_events_limit";
pub const IN_FLIGHT_BYTES: &str = "outrider_in_flight_bytes";
pub const IN_FLIGHT_BYTES_LIMIT: &str = "outrider_in_flight_bytes_limit";
pub const BROKER_TROUBLES: &str = "outrider_broker_troubles_total";
pub const BREAKER_OPEN: &str = "outrider_breaker_open";
pub const OLDEST_UNSENT_AGE: &str = "outrider_oldest_unsent_age_seconds";
pub const PENDING_EVENTS: &str = "outrider_pending_events";
pub const SCHEDULED_EVENTS: &str = "outrider_scheduled_events";
pub const TENANT_MEASURED: &str = "outrider_tenant_measured";
pub const DEAD_EVENTS: &str = "outrider_dead_events";
pub const PARKED_EVENTS: &str = "outrider_parked_events";
pub const BLOCKED_KEYS: &str = "outrider_blocked_keys";
pub const UNROUTED_TOPICS: &str = "outrider_unrouted_topics";
pub const LEASE: &str = "outrider_lease_seconds";
pub const PUBLISH_DEADLINE: &str = "outrider_publish_deadline_seconds";
pub const LANES_OWNED: &str = "outrider_lanes_owned";
pub const TENANT_UP: &str = "outrider_tenant_up";
pub const EVENTS_REMOVED: &str = "outrider_events_removed_total";
pub const CHILD_EXITS: &str = "outrider_child_exits_total";
pub const CHILD_RESTARTS: &str = "outrider_child_restarts_total";
pub const CHILD_RESTING: &str = "outrider_child_resting";
pub const FLOORS_PASSED: &str = "outrider_order_horizon_passed_total";

/// Bounds of the timers' buckets in seconds: from a statement on loopback to a publish deadline.
const SECONDS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// Installs the process's recorder. Once per process; its `render` is what `/metrics` answers.
pub fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), &SECONDS)?
        .install_recorder()?;
    describe();
    Ok(handle)
}

fn describe() {
    describe_counter!(EVENTS_CLAIMED, "events claimed, by tenant and broker");
    describe_counter!(EVENTS_PUBLISHED, "publishes that ended, by broker and outcome");
    describe_counter!(EVENTS_FAILED, "publishes that ended without a confirm, by broker and class of error");
    describe_counter!(EVENTS_SETTLED, "outcomes written back, by tenant and outcome");
    describe_counter!(
        EVENTS_FENCED,
        "outcomes that came after the claim was lost and changed nothing, by tenant"
    );
    describe_counter!(
        EVENTS_SETTLE_UNKNOWN,
        "outcomes whose settle got no reply before the lane was lost, by tenant"
    );
    describe_counter!(SETTLES_REPEATED, "settles sent again after a lost reply, by tenant");
    describe_counter!(
        DUPLICATES_ON_FIRST_ATTEMPT,
        "events that the broker called a duplicate on their first attempt: another event has the same id, by broker"
    );
    describe_counter!(CLAIMS_RECLAIMED, "claims taken back from an owner that lost its lane, by tenant");
    describe_counter!(EVENTS_RECLAIMED, "events of reclaimed claims: each may be delivered twice, by tenant");
    describe_counter!(
        LANES_LOST,
        "times that a lane was lost to another replica before it was given up, by tenant"
    );
    describe_counter!(
        EVENTS_IN_DOUBT,
        "events that were with a broker when their lane was lost: unknown, each may be delivered twice, by tenant"
    );
    describe_histogram!(CLAIM_SECONDS, Unit::Seconds, "time of a claim statement, by tenant");
    describe_histogram!(
        PUBLISH_SECONDS,
        Unit::Seconds,
        "time from a batch's hand-over to its report, by broker"
    );
    describe_histogram!(SETTLE_SECONDS, Unit::Seconds, "time to settle a report, by tenant");
    describe_gauge!(IN_FLIGHT_EVENTS, "events claimed and not settled, by broker");
    describe_gauge!(IN_FLIGHT_EVENTS_LIMIT, "most events that may be in flight, by broker");
    describe_gauge!(IN_FLIGHT_BYTES, Unit::Bytes, "payload handed over and not settled, by broker");
    describe_gauge!(IN_FLIGHT_BYTES_LIMIT, Unit::Bytes, "most payload that may be in flight, by broker");
    describe_counter!(
        BROKER_TROUBLES,
        "connects, probes and batches that found the broker in trouble, by broker and class of error"
    );
    describe_gauge!(BREAKER_OPEN, "1 while nothing is published to the broker because it is in trouble");
    describe_gauge!(
        OLDEST_UNSENT_AGE,
        Unit::Seconds,
        "age of the oldest event that is due and not sent, by tenant"
    );
    describe_gauge!(PENDING_EVENTS, "events that are not sent and not dead, by tenant; counted up to a cap");
    describe_gauge!(SCHEDULED_EVENTS, "events that are not due yet, by tenant; counted up to a cap");
    describe_gauge!(
        TENANT_MEASURED,
        "0 if the gauges of the tenant are old because its database could not be asked"
    );
    describe_gauge!(DEAD_EVENTS, "dead events, by tenant; counted up to a cap");
    describe_gauge!(
        PARKED_EVENTS,
        "events that wait behind an earlier one of their key, by tenant; counted up to a cap"
    );
    describe_gauge!(
        BLOCKED_KEYS,
        "keys with events that wait behind a dead or waiting one, by tenant; the view blocked_keys lists them; counted up to a cap"
    );
    describe_gauge!(UNROUTED_TOPICS, "topics with events and without a route, by tenant");
    describe_gauge!(
        LEASE,
        Unit::Seconds,
        "length of the lease in force, 0 without a lane, by tenant; follows the time from claim to settle"
    );
    describe_gauge!(
        PUBLISH_DEADLINE,
        Unit::Seconds,
        "most time for a publish that is handed over now, by tenant and broker; follows the time from claim to settle"
    );
    describe_gauge!(LANES_OWNED, "lanes that this replica owns, by tenant");
    describe_gauge!(TENANT_UP, "1 if the tenant's database answers and its schema fits");
    describe_counter!(EVENTS_REMOVED, "outbox rows removed by retention, by tenant");
    describe_counter!(CHILD_EXITS, "ends of actors, by role and reason");
    describe_counter!(
        CHILD_RESTARTS,
        "actors started again after they ended by themselves, by role and name"
    );
    describe_gauge!(
        CHILD_RESTING,
        "1 while an actor that ended by itself waits to be started again, by role and name"
    );
    describe_counter!(
        FLOORS_PASSED,
        "times that a transaction older than order_horizon was passed, by tenant"
    );
}
