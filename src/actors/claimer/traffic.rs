//! What a lane has on its way: a flow to each broker, the groups that are out, and the permits that are waited for.
//!
//! Takes reports in and hands over what may go, while the [`super::cycle`] sends statements and also while one of
//! them runs: the next event of a key must not wait for a claim's answer. Must not: talk to the database.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;
use uuid::Uuid;

use super::outflow::{Outflow, Publishing, Returned};
use super::pace::Pace;
use super::routing::Routing;
use super::{ClaimerSettings, clock};
use crate::actors::board::SLACK;
use crate::actors::outlet::LinkState;
use crate::actors::permits::Permit;
use crate::failpoints;
use crate::outbox::OnDead;
use crate::outbox::flow::{ClaimAnswer, ClaimPlan, Flow, FlowSettings, Settle};
use crate::outbox::lease::{Lease, Moment};
use crate::outbox::settle::Limits;

type Outflows = BTreeMap<Arc<str>, Outflow>;

/// Something waited for outside the database and the publishers.
enum Wake {
    Event(Arc<str>, u64, Permit),
    Bytes(Arc<str>, u64, Permit),
    /// A link came up or went down.
    Link(Arc<str>),
}

/// See the module.
pub(super) struct Traffic {
    settings: Arc<ClaimerSettings>,
    routing: Routing,
    outflows: Outflows,
    /// Lives of the lane that were lost with something in flight.
    late: BTreeMap<u64, Outflows>,
    /// Counts the times that the lane was lost or given.
    life: u64,
    publishing: FuturesUnordered<Publishing>,
    /// When the last group that was handed over has ended, whatever becomes of it.
    out_until: Moment,
    waking: FuturesUnordered<BoxFuture<'static, Wake>>,
}

impl Traffic {
    pub(super) fn new(settings: Arc<ClaimerSettings>) -> Self {
        let tenant = &settings.tenant;
        let waking = FuturesUnordered::new();
        for outlet in settings.outlets.values() {
            waking.push(link_change(outlet.name.clone(), outlet.watch()));
        }
        Traffic {
            routing: Routing::new(tenant.name.clone(), tenant.routes.clone(), tenant.delivery.on_dead),
            outflows: outflows(&settings),
            late: BTreeMap::new(),
            life: 0,
            publishing: FuturesUnordered::new(),
            out_until: Moment::ZERO,
            waking,
            settings,
        }
    }

    /// Flows of the present life.
    pub(super) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.outflows.values().map(|outflow| &outflow.flow)
    }

    pub(super) fn flows_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.outflows.values_mut().map(|outflow| &mut outflow.flow)
    }

    pub(super) fn brokers(&self) -> impl Iterator<Item = &Arc<str>> {
        self.outflows.keys()
    }

    pub(super) fn life(&self) -> u64 {
        self.life
    }

    /// The flow that a topic belongs to; `None` for one without a route.
    pub(super) fn route(&mut self, topic: &Arc<str>) -> Option<(&mut Flow, OnDead)> {
        let route = self.routing.topic(topic)?;
        let on_dead = route.on_dead;
        let outflow = self.outflows.get_mut(&route.broker)?;
        Some((&mut outflow.flow, on_dead))
    }

    /// Plans a claim for a broker whose link is up, if there is work and a permit for it.
    pub(super) fn next_claim(
        &mut self,
        broker: &Arc<str>,
        lease: &Lease,
        now: Moment,
        batch_events: usize,
    ) -> Option<(ClaimPlan, Permit)> {
        let outflow = self.outflows.get_mut(broker)?;
        outflow.refresh();
        if !outflow.open(lease, now) || !outflow.flow.wants_claim(now) {
            return None;
        }
        let Some(permit) = outflow.permits(batch_events) else {
            if !std::mem::replace(&mut outflow.reserve.waits_for_event, true) {
                let (outlet, broker, life) = (outflow.outlet.clone(), broker.clone(), self.life);
                self.waking
                    .push(async move { Wake::Event(broker, life, outlet.bound.event().await) }.boxed());
            }
            return None;
        };
        let plan = outflow.flow.begin_claim(now, permit.count())?;
        Some((plan, permit))
    }

    /// A permit that was waited for and has no use any more is somebody else's.
    pub(super) fn return_unused(&mut self) {
        self.outflows.values_mut().for_each(|outflow| outflow.reserve.event = None);
    }

    /// Tokens of a broker's claims that are not settled.
    pub(super) fn live(&self, broker: &str) -> Vec<Uuid> {
        self.outflows.get(broker).into_iter().flat_map(|outflow| outflow.flow.live()).collect()
    }

    pub(super) fn claimed(
        &mut self,
        broker: &str,
        plan: ClaimPlan,
        answer: ClaimAnswer,
        asked: Moment,
        permit: Permit,
    ) {
        if let Some(outflow) = self.outflows.get_mut(broker) {
            outflow.claimed(plan, answer, asked, clock::now(), permit);
        }
    }

    /// What has to be written back now, with the broker and the life that it belongs to.
    pub(super) fn next_settle(&mut self) -> Option<(Arc<str>, u64, Settle)> {
        let late = self.late.iter_mut().map(|(life, outflows)| (*life, outflows));
        let lives = std::iter::once((self.life, &mut self.outflows)).chain(late);
        let mut all = lives.flat_map(|(life, outflows)| {
            outflows.iter_mut().map(move |(broker, outflow)| (broker, life, outflow))
        });
        all.find_map(|(broker, life, outflow)| Some((broker.clone(), life, outflow.flow.next_settle()?)))
    }

    pub(super) fn settled(&mut self, life: u64, broker: &str, settle: &Settle, promoted: bool) {
        if let Some(outflow) = self.outflow(life, broker) {
            outflow.settled(settle, promoted, clock::now());
        }
    }

    /// The lane is lost or given: nothing more is handed over, what is in flight ends late.
    pub(super) fn end_life(&mut self) {
        let mut ended = std::mem::replace(&mut self.outflows, outflows(&self.settings));
        for (broker, ended) in &mut ended {
            ended.abandon();
            if let Some(outflow) = self.outflows.get_mut(broker) {
                outflow.pace.inherit(&mut ended.pace);
            }
        }
        self.late.insert(self.life, ended);
        self.life += 1;
        self.drop_finished_lives();
    }

    pub(super) fn drop_finished_lives(&mut self) {
        self.late.retain(|_, outflows| outflows.values().any(|outflow| !outflow.flow.is_empty()));
    }

    /// Nothing of a lost life is in flight or unsettled.
    pub(super) fn late_is_empty(&self) -> bool {
        self.late.is_empty()
    }

    /// Hands over what may go under this lease; what may not goes back.
    pub(super) fn hand_over(&mut self, pass: Option<Lease>) {
        let now = clock::now();
        for (broker, outflow) in &mut self.outflows {
            outflow.refresh();
            let open = pass.is_some_and(|lease| outflow.open(&lease, now));
            while let Some(publishing) = outflow.hand_over(&mut self.routing, now, open, self.life) {
                self.publishing.push(publishing);
                self.out_until = self.out_until.max(now.after(outflow.pace.deadline()));
                failpoints::reach("after-hand-over");
            }
            if let Some(bytes) = outflow.reserve.asks_for_bytes() {
                let (outlet, broker, life) = (outflow.outlet.clone(), broker.clone(), self.life);
                self.waking
                    .push(async move { Wake::Bytes(broker, life, outlet.bound.bytes(bytes).await) }.boxed());
            }
        }
    }

    /// Takes in every report that is there.
    pub(super) fn collect(&mut self) {
        while let Some(()) = self.news().now_or_never() {}
    }

    /// Waits for a report or a permit, and takes it in. Cancel safe.
    pub(super) async fn news(&mut self) {
        tokio::select! {
            Some(returned) = self.publishing.next() => self.returned(returned),
            Some(wake) = self.waking.next() => self.woken(wake),
            else => std::future::pending().await,
        }
    }

    /// Runs a statement to its end, and meanwhile takes in reports and hands over what they let go.
    pub(super) async fn during<T>(&mut self, pass: Option<Lease>, statement: impl Future<Output = T>) -> T {
        let mut statement = pin!(statement);
        loop {
            tokio::select! {
                biased;
                answer = &mut statement => return answer,
                () = self.news() => {}
            }
            self.collect();
            self.hand_over(pass);
        }
    }

    /// When there may be something to claim or to hand over without a word from outside.
    pub(super) fn wakes_at(&self, lease: &Lease, now: Moment) -> Option<Moment> {
        let open = self.outflows.values().filter(|outflow| outflow.open(lease, now));
        open.filter_map(|outflow| outflow.flow.wakes_at(now)).filter(|wakes| *wakes > now).min()
    }

    /// When the last publish that was handed over has ended, whatever becomes of it.
    pub(super) fn out_until(&self) -> Moment {
        self.out_until
    }

    /// A report is missing long after its publish has ended: the publisher is stuck, and so is what waits for it.
    pub(super) fn is_overdue(&self, now: Moment) -> bool {
        !self.publishing.is_empty() && now > self.out_until.after(SLACK)
    }

    /// The lease that covers what is measured.
    pub(super) fn lease_wanted(&self) -> Duration {
        let bounds = self.settings.tenant.delivery.lease;
        let wanted = self.outflows.values().map(|outflow| outflow.pace.lease(bounds));
        wanted.max().unwrap_or(bounds.min)
    }

    /// A lease of this length is in force.
    pub(super) fn leased(&mut self, lease: Duration) {
        self.outflows.values_mut().for_each(|outflow| outflow.pace.leased(lease));
    }

    fn outflow(&mut self, life: u64, broker: &str) -> Option<&mut Outflow> {
        let outflows = if life == self.life { Some(&mut self.outflows) } else { self.late.get_mut(&life) };
        outflows.and_then(|outflows| outflows.get_mut(broker))
    }

    fn returned(&mut self, returned: Returned) {
        let tenant = self.settings.tenant.name.clone();
        let (life, broker, now) = (returned.life, returned.broker.clone(), clock::now());
        if let Some(outflow) = self.outflow(life, &broker) {
            outflow.returned(&tenant, returned, now);
        }
    }

    fn woken(&mut self, wake: Wake) {
        match wake {
            Wake::Event(broker, life, permit) => {
                if let Some(outflow) = self.outflow(life, &broker) {
                    outflow.reserve.waits_for_event = false;
                    outflow.reserve.event = Some(permit);
                }
            }
            Wake::Bytes(broker, life, permit) => {
                if let Some(outflow) = self.outflow(life, &broker) {
                    outflow.reserve.got_bytes(permit);
                }
            }
            Wake::Link(broker) => {
                if let Some(outlet) = self.settings.outlets.get(&broker) {
                    self.waking.push(link_change(broker, outlet.watch()));
                }
            }
        }
    }
}

fn outflows(settings: &ClaimerSettings) -> Outflows {
    let delivery = &settings.tenant.delivery;
    let number = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
    let flow = FlowSettings {
        limits: Limits {
            max_refusals: delivery.max_refusals,
            max_unknown: delivery.max_unknown,
            backoff: delivery.backoff,
        },
        claims_in_flight: number(delivery.claims_in_flight),
        batch_events: number(delivery.batch_events),
        order_horizon: delivery.order_horizon,
    };
    let used: BTreeSet<&Arc<str>> = settings.tenant.routes.iter().map(|route| &route.broker).collect();
    settings
        .outlets
        .iter()
        .filter(|(name, _)| used.contains(name))
        .map(|(name, outlet)| {
            (name.clone(), Outflow::new(outlet.clone(), flow, Pace::new(&settings.tenant, outlet)))
        })
        .collect()
}

fn link_change(broker: Arc<str>, mut state: watch::Receiver<LinkState>) -> BoxFuture<'static, Wake> {
    async move {
        if state.changed().await.is_err() {
            // The outlet lives as long as the claimer: this does not happen, and would spin if it ended.
            std::future::pending::<()>().await;
        }
        Wake::Link(broker)
    }
    .boxed()
}
