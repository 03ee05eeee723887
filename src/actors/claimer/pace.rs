//! The pace of one lane's stream to one broker: what is measured of it, and the publish deadline that follows from that
//! and from the lease in force. Holds the state; [`crate::outbox::pace`] has the rules.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::actors::outlet::Outlet;
use crate::config::TenantConfig;
use crate::outbox::flow::Settle;
use crate::outbox::lease::Moment;
use crate::outbox::pace::{self, Bounds, Latency};
use crate::outbox::settle::Verdict;
use crate::telemetry;

#[derive(Clone, Debug)]
pub(super) struct Pace {
    tenant: Arc<str>,
    broker: Arc<str>,
    bounds: Bounds,
    longest_lease: Duration,
    latency: Latency,
    /// When each claim was asked for that is not settled, by token.
    claimed: HashMap<Uuid, Moment>,
    /// The lease in force.
    leased: Duration,
    deadline: Duration,
}

impl Pace {
    pub(super) fn new(tenant: &TenantConfig, outlet: &Outlet) -> Self {
        let (lease, bounds) = (tenant.delivery.lease, outlet.publish_deadline);
        let pace = Pace {
            tenant: tenant.name.clone(),
            broker: outlet.name.clone(),
            bounds,
            longest_lease: lease.max,
            latency: Latency::default(),
            claimed: HashMap::new(),
            leased: lease.min,
            deadline: bounds.min,
        };
        telemetry::publish_deadline_changed(&pace.tenant, &pace.broker, pace.deadline);
        pace
    }

    /// Most time for a publish that is handed over now.
    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The lease that covers what is measured.
    pub(super) fn lease(&self, bounds: Bounds) -> Duration {
        pace::lease(bounds, self.latency.p99(), self.wanted())
    }

    /// A lease of this length is in force: no deadline may be longer than it covers.
    pub(super) fn leased(&mut self, lease: Duration) {
        self.leased = lease;
        self.adapt();
    }

    /// A claim with events came back, `asked` for then.
    pub(super) fn claimed(&mut self, token: Uuid, asked: Moment) {
        self.claimed.insert(token, asked);
    }

    /// A settle is in the database. Only what was published says how long that takes.
    pub(super) fn settled(&mut self, settle: &Settle, now: Moment) {
        for (token, ended) in &settle.ended {
            let Some(asked) = self.claimed.get(token) else { continue };
            let failed = settle.failed.iter().find(|failed| failed.token == *token);
            let back = failed.into_iter().flat_map(|failed| &failed.failures);
            let unpublished = back
                .filter(|failure| matches!(failure.verdict, Verdict::Released | Verdict::Blocked))
                .count();
            self.latency.record(now, now.since(*asked), ended.saturating_sub(unpublished));
        }
        for token in settle.done.iter().chain(settle.failed.iter().filter(|f| f.last).map(|f| &f.token)) {
            self.claimed.remove(token);
        }
        self.adapt();
    }

    /// Of the life that begins now: the broker is as slow as it was.
    pub(super) fn inherit(&mut self, before: &mut Pace) {
        self.latency = std::mem::take(&mut before.latency);
    }

    fn wanted(&self) -> Duration {
        pace::deadline(self.bounds, self.latency.p99(), self.longest_lease)
    }

    fn adapt(&mut self) {
        let deadline = self.wanted().min(pace::covered(self.leased)).max(self.bounds.min);
        if deadline != self.deadline {
            self.deadline = deadline;
            telemetry::publish_deadline_changed(&self.tenant, &self.broker, deadline);
        }
    }
}
