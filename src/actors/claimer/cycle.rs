//! The cycle of one lane: take it, claim, hand over, settle, renew, give it up. It waits and calls; what to do is
//! decided by [`crate::outbox::flow`], [`super::ownership`] and [`super::pacing`].
//!
//! One task, one connection: the statements of a lane run one after another. No statement is ever dropped half-way.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::ownership::{HEARTBEAT, Owned, SWEEP, Seeking};
use super::pacing::Pacing;
use super::renewal::Renewal;
use super::settling::{Settling, Unsettled};
use super::traffic::Traffic;
use super::{ClaimerSettings, DATABASE, clock, report};
use crate::actors::board::{Pulse, STATEMENT, TenantState};
use crate::actors::exit::Exit;
use crate::actors::fleet::ALIVE_WITHIN;
use crate::actors::permits::Permit;
use crate::actors::signals::Signals;
use crate::failpoints;
use crate::outbox::OnDead;
use crate::outbox::flow::{ClaimAnswer, ClaimPlan, Flow, Path, Row};
use crate::outbox::lease::{LEASE_MARGIN, Lease, Moment};
use crate::outbox::share::Share;
use crate::store::{self, ClaimRequest, KnownTopic, Store, StoreError, TopicRequest};
use crate::telemetry;

pub(super) struct Cycle {
    settings: Arc<ClaimerSettings>,
    lane: i16,
    store: Store,
    pulse: Pulse,
    owned: Option<Owned>,
    seeking: Seeking,
    /// When a replica whose share the lane was last let it lie, and its name.
    let_lie: Option<(Moment, Arc<str>)>,
    traffic: Traffic,
    settling: Settling,
    pacing: Pacing,
    renewal: Renewal,
    /// Events were claimed since the database was last asked for work.
    busy: bool,
    heartbeat_at: Moment,
    /// Topics with work and without a route, as last reported; `None` while nothing of it is reported.
    unrouted: Option<BTreeSet<String>>,
    failures: u32,
    retry_at: Moment,
    draining: bool,
}

impl Cycle {
    pub(super) fn new(settings: Arc<ClaimerSettings>, lane: i16, store: Store) -> Self {
        let delivery = &settings.tenant.delivery;
        let now = clock::now();
        let who = format!("the claimer of `{}` in lane {lane}", settings.tenant.name);
        let pulse = settings.board.pulse(who, STATEMENT);
        let pacing = Pacing::new(delivery.poll.min, delivery.poll.max);
        Cycle {
            traffic: Traffic::new(settings.clone()),
            lane,
            store,
            pulse,
            owned: None,
            seeking: Seeking::new(now),
            let_lie: None,
            settling: Settling::default(),
            pacing,
            renewal: Renewal::new(delivery.lease.min),
            busy: false,
            heartbeat_at: now,
            unrouted: None,
            failures: 0,
            retry_at: now,
            draining: false,
            settings,
        }
    }

    /// Runs until told to drain and everything is settled or given back, or the time for that is over.
    pub(super) async fn run(mut self, signals: Signals) -> Exit {
        loop {
            self.draining = signals.is_draining();
            if self.draining {
                self.traffic.flows_mut().for_each(Flow::hurry);
            }
            self.traffic.collect();
            self.lives();
            let progress = self.advance().await;
            self.traffic.hand_over(self.pass());
            if self.draining && self.finished() {
                self.leave().await;
                return Exit::Drained;
            }
            if signals.deadline().is_some_and(|deadline| deadline <= tokio::time::Instant::now()) {
                self.leave().await;
                return Exit::CutShort;
            }
            if !progress {
                self.wait(&signals).await;
            }
        }
    }

    /// Says that it acts, and will again after its next statement at the latest.
    fn lives(&self) {
        self.lives_through(STATEMENT);
    }

    /// Not while a report that must be there is missing: then something is stuck, if not this.
    fn lives_through(&self, time: Duration) {
        if !self.traffic.is_overdue(clock::now()) {
            self.pulse.acts_within(time);
        }
    }

    fn tenant(&self) -> &str {
        &self.settings.tenant.name
    }

    /// Nothing is owned, in flight or unsettled any more.
    fn finished(&self) -> bool {
        self.owned.is_none() && self.traffic.late_is_empty() && self.settling.is_empty()
    }

    /// Sends the statements that are due. Returns whether there may be more to do at once.
    async fn advance(&mut self) -> bool {
        let now = clock::now();
        if now < self.retry_at {
            return false;
        }
        match self.statements(now).await {
            Ok(progress) => {
                self.failures = 0;
                report(&self.settings, TenantState::Working);
                progress
            }
            Err(error) => {
                if let Some(owned) = &mut self.owned {
                    owned.doubt |= error.outcome_unknown();
                }
                self.failures = self.failures.saturating_add(1);
                self.retry_at = clock::now().after(DATABASE.delay(self.failures, rand::random()));
                report(&self.settings, TenantState::Failing(format!("failed to {error}")));
                false
            }
        }
    }

    async fn statements(&mut self, now: Moment) -> Result<bool, StoreError> {
        if self.owned.as_ref().is_some_and(|owned| owned.doubt || !owned.reclaimed) {
            self.make_certain().await?;
        }
        let mut progress = self.settle(now).await?;
        self.traffic.drop_finished_lives();
        if self.owned.is_some() {
            progress |= self.keep(now).await?;
        } else if !self.draining {
            progress |= self.seek(now).await?;
        }
        Ok(progress)
    }

    /// Says that this replica lives, and learns which others do.
    async fn heartbeat(&mut self, now: Moment) -> Result<(), StoreError> {
        if now < self.heartbeat_at || self.draining {
            return Ok(());
        }
        let replicas = self.store.heartbeat(&self.settings.replica, ALIVE_WITHIN).await?;
        self.settings.fleet.saw(&replicas);
        self.heartbeat_at = now.after(HEARTBEAT);
        Ok(())
    }

    /// Without the lane: looks whether it is free and ours to take.
    async fn seek(&mut self, now: Moment) -> Result<bool, StoreError> {
        self.heartbeat(now).await?;
        if now < self.seeking.look_at {
            return Ok(false);
        }
        let lanes = self.store.lanes().await?;
        let left = lanes.iter().find(|row| row.lane == self.lane).map_or(Duration::MAX, |row| row.left);
        let (share, replica) = self.settings.fleet.share(&self.settings.tenant.name);
        if !self.seeking.looked(now, left, share) {
            return Ok(false);
        }
        let (owner, asked) = (Uuid::new_v4(), clock::now());
        let lease = self.renewal.ask(asked, Moment::ZERO);
        // After a lost reply this token is forgotten: if the take was done, its lease runs out.
        let epoch = self.store.take(self.lane, owner, &self.settings.replica, lease, false).await?;
        let Some(epoch) = epoch else { return Ok(false) };
        self.let_lie = (share != Share::Mine).then_some((now, replica));
        telemetry::lane_taken(self.tenant(), self.lane, epoch);
        telemetry::lanes_owned(self.tenant(), 1);
        self.owned = Some(Owned::taken(owner, Lease::new(asked, lease), now));
        self.leased(lease);
        self.make_certain().await?;
        self.pacing.wake(now);
        Ok(true)
    }

    /// After a take, or after a lost reply: makes the database and this memory agree on who owns the lane and what is
    /// claimed.
    async fn make_certain(&mut self) -> Result<(), StoreError> {
        let Some(owned) = &mut self.owned else { return Ok(()) };
        if owned.doubt {
            // A claim that still runs on the server is waited for, one that has not begun is shut out.
            let owner = Uuid::new_v4();
            owned.tried.push(owner);
            let tried = owned.tried.clone();
            if !self.renew(owner, &tried).await? {
                self.lose();
                return Ok(());
            }
        }
        self.lives();
        let Some(owned) = &self.owned else { return Ok(()) };
        let known: Vec<Uuid> = self.traffic.flows().flat_map(Flow::live).collect();
        let fresh = !owned.reclaimed;
        let reclaim = self.store.reclaim(self.lane, owned.owner, &known, fresh).await?;
        if fresh && !reclaim.claims.is_empty() {
            let events = reclaim.claims.iter().map(|claim| claim.seqs.len()).sum();
            telemetry::claims_reclaimed(&self.settings.tenant.name, self.lane, reclaim.claims.len(), events);
        }
        self.orphans().await?;
        if let Some(owned) = &mut self.owned {
            owned.reclaimed = true;
            owned.doubt = false;
        }
        self.traffic.flows_mut().for_each(Flow::reset);
        self.pacing.wake(clock::now());
        Ok(())
    }

    /// Renews the lease under the token `owner`, if the lane is still held under one of `owners`. False: it is lost.
    async fn renew(&mut self, owner: Uuid, owners: &[Uuid]) -> Result<bool, StoreError> {
        let asked = clock::now();
        let lease = self.renewal.ask(asked, self.traffic.out_until());
        let renewed = self.store.renew(self.lane, owner, owners, lease).await?;
        let (Some(left), Some(owned)) = (renewed, &mut self.owned) else { return Ok(false) };
        (owned.owner, owned.tried, owned.lease) = (owner, vec![owner], Lease::new(asked, left));
        self.leased(lease);
        Ok(true)
    }

    /// A lease of this length is in force: publish deadlines may be as long as it covers.
    fn leased(&mut self, lease: Duration) {
        self.traffic.leased(lease);
        telemetry::lease_changed(self.tenant(), lease);
    }

    async fn orphans(&mut self) -> Result<(), StoreError> {
        self.lives();
        let on_dead = self.settings.tenant.delivery.on_dead;
        let others: Vec<&str> = self
            .traffic
            .flows()
            .flat_map(|flow| flow.topics_with(other(on_dead)))
            .map(|topic| &**topic)
            .collect();
        self.store.orphans(self.lane, on_dead, &others).await?;
        self.settling.orphans = false;
        Ok(())
    }

    /// With the lane: renews it, looks for work, claims.
    async fn keep(&mut self, now: Moment) -> Result<bool, StoreError> {
        self.heartbeat(now).await?;
        let Some(owned) = &self.owned else { return Ok(false) };
        let owner = owned.owner;
        self.renewal.want(self.traffic.lease_wanted());
        if self.renewal.is_due(&owned.lease, now) && !self.renew(owner, &[owner]).await? {
            self.lose();
            return Ok(true);
        }
        let Some(owned) = &mut self.owned else { return Ok(false) };
        let (share, replica) = self.settings.fleet.share(&self.settings.tenant.name);
        // One that let it lie says nothing about another whose share it has become.
        let let_lie = self.let_lie.as_ref().filter(|(_, name)| *name == replica).map(|(at, _)| *at);
        owned.giving |= self.draining || owned.should_give(now, share, let_lie);
        if owned.giving {
            let empty = self.traffic.flows().all(Flow::is_empty);
            return if empty && self.settling.is_empty() { self.give().await } else { Ok(false) };
        }
        if now >= owned.sweep_at {
            owned.sweep_at = now.after(SWEEP);
            self.traffic.flows_mut().for_each(Flow::sweep);
            self.settling.orphans = true;
        }
        if self.settling.orphans {
            self.orphans().await?;
        }
        self.lives();
        self.pass_horizon(now).await?;
        if now >= self.pacing.next() {
            self.discover(now).await?;
        }
        self.claim_all().await
    }

    async fn pass_horizon(&mut self, now: Moment) -> Result<(), StoreError> {
        let mut passed = false;
        for flow in self.traffic.flows_mut() {
            passed |= flow.pass_horizon(now);
        }
        if passed {
            let writer = self.store.oldest_writer().await?;
            let writer = writer.and_then(|writer| Some((writer.pid?, writer.age?)));
            telemetry::floor_passed(self.tenant(), writer);
        }
        Ok(())
    }

    /// Asks which topics have work.
    async fn discover(&mut self, now: Moment) -> Result<(), StoreError> {
        let known = self.traffic.flows().flat_map(Flow::known);
        let known: Vec<KnownTopic<'_>> = known.map(|(topic, floor)| KnownTopic { topic, floor }).collect();
        let work = self.store.topics(self.lane, &known).await?;
        let mut unrouted = BTreeSet::new();
        for found in work {
            let topic: Arc<str> = found.topic.as_str().into();
            match self.traffic.route(&topic) {
                Some((flow, on_dead)) => {
                    let due = found.next_due.map(|wait| now.after(wait));
                    flow.discovered(&topic, on_dead, found.ready, due);
                }
                None => _ = unrouted.insert(found.topic),
            }
        }
        if self.unrouted.as_ref() != Some(&unrouted) {
            let names: Vec<&str> = unrouted.iter().map(String::as_str).collect();
            telemetry::topics_unrouted(self.tenant(), &names);
            self.unrouted = Some(unrouted);
        }
        self.pacing.asked(now, std::mem::take(&mut self.busy));
        Ok(())
    }

    /// Claims for every broker what permits allow.
    async fn claim_all(&mut self) -> Result<bool, StoreError> {
        let brokers: Vec<Arc<str>> = self.traffic.brokers().cloned().collect();
        let mut progress = false;
        for broker in brokers {
            while let Some((plan, permit)) = self.next_claim(&broker) {
                progress = true;
                self.lives();
                if !self.claim(&broker, plan, permit).await? {
                    self.lose();
                    return Ok(true);
                }
                // What was claimed goes out while the next statement runs.
                self.traffic.hand_over(self.pass());
            }
        }
        self.traffic.return_unused();
        Ok(progress)
    }

    /// Plans a claim for a broker whose link is up, if there is work and a permit for it.
    fn next_claim(&mut self, broker: &Arc<str>) -> Option<(ClaimPlan, Permit)> {
        let now = clock::now();
        let lease = self.owned.as_ref().filter(|owned| !owned.giving)?.lease;
        let batch_events = usize::try_from(self.settings.tenant.delivery.batch_events).unwrap_or(usize::MAX);
        if self.settling.holds_back(broker) {
            return None;
        }
        self.traffic.next_claim(broker, &lease, now, batch_events)
    }

    /// Sends a claim. False: the lane is lost.
    async fn claim(
        &mut self,
        broker: &Arc<str>,
        plan: ClaimPlan,
        permit: Permit,
    ) -> Result<bool, StoreError> {
        let Some(owned) = &self.owned else { return Ok(false) };
        let pass = self.pass();
        let live: Vec<Uuid> = self.traffic.live(broker);
        let topics: Vec<TopicRequest<'_>> = plan
            .topics
            .iter()
            .map(|topic| TopicRequest {
                topic: &topic.topic,
                after: topic.after,
                limit: u32::try_from(topic.limit).unwrap_or(u32::MAX),
                on_dead: topic.on_dead,
            })
            .collect();
        let token = Uuid::new_v4();
        let request =
            ClaimRequest { lane: self.lane, owner: owned.owner, broker, token, live: &live, topics: &topics };
        let (asked, begun) = (clock::now(), Instant::now());
        failpoints::reach("before-claim");
        let claimed = match plan.path {
            Path::Ready => self.traffic.during(pass, self.store.claim(&request)).await?,
            Path::Due => self.traffic.during(pass, self.store.claim_due(&request)).await?,
        };
        if claimed.lane_lost() {
            return Ok(false);
        }
        let rows: Vec<Row> = claimed.rows.into_iter().map(row).collect();
        let events = rows.iter().filter(|row| matches!(row, Row::Event(_))).count();
        telemetry::events_claimed(&self.settings.tenant.name, broker, events, begun.elapsed());
        self.busy |= !rows.is_empty();
        if events > 0 {
            failpoints::reach("after-claim");
        }
        let ready = plan.path == Path::Ready;
        let answer = ClaimAnswer { token, xmin: ready.then_some(claimed.xmin), xid: claimed.xid, rows };
        self.traffic.claimed(broker, plan, answer, asked, permit);
        Ok(true)
    }

    /// Writes back what ended.
    async fn settle(&mut self, now: Moment) -> Result<bool, StoreError> {
        while let Some((broker, life, settle)) = self.traffic.next_settle() {
            self.settling.push(Unsettled::new(broker, life, settle));
        }
        let mut progress = false;
        loop {
            self.lives();
            let pass = self.pass();
            let write = self.settling.write(&mut self.store, &self.settings.tenant.name, self.lane, now);
            let Some(settled) = self.traffic.during(pass, write).await? else { return Ok(progress) };
            progress = true;
            let unsettled = settled.unsettled;
            self.traffic.settled(unsettled.life, &unsettled.broker, &unsettled.settle, settled.promoted);
        }
    }

    /// Gives the lane up, with nothing in flight.
    async fn give(&mut self) -> Result<bool, StoreError> {
        let Some(owned) = &self.owned else { return Ok(false) };
        failpoints::reach("give");
        let free = self.store.give(self.lane, owned.owner, Duration::ZERO).await?;
        telemetry::lane_given(self.tenant(), self.lane, free.unwrap_or(false));
        let (_, replica) = self.settings.fleet.share(self.tenant());
        self.let_lie = Some((clock::now(), replica));
        self.end_life();
        Ok(true)
    }

    /// The lane is somebody else's.
    fn lose(&mut self) {
        let in_flight = self.traffic.flows().map(Flow::in_flight).sum();
        telemetry::lane_lost(self.tenant(), self.lane, in_flight);
        self.settling.lane_lost(&self.settings.tenant.name, self.traffic.life());
        self.end_life();
    }

    fn end_life(&mut self) {
        self.traffic.end_life();
        self.owned = None;
        self.seeking = Seeking::new(clock::now().after(super::ownership::LOOK));
        telemetry::lanes_owned(self.tenant(), 0);
        telemetry::lease_changed(self.tenant(), Duration::ZERO);
        if self.unrouted.take().is_some() {
            // The next owner counts them.
            telemetry::topics_unrouted(self.tenant(), &[]);
        }
    }

    /// The lease under which events may be handed over now.
    fn pass(&self) -> Option<Lease> {
        let owned = self.owned.as_ref().filter(|owned| !owned.giving && !self.draining)?;
        Some(owned.lease)
    }

    /// Waits until there may be something to do.
    async fn wait(&mut self, signals: &Signals) {
        let now = clock::now();
        let pause = self.wakes_at(now).since(now);
        self.lives_through(pause.max(STATEMENT));
        let draining = signals.is_draining();
        let deadline = signals.deadline();
        tokio::select! {
            () = self.traffic.news() => {}
            () = tokio::time::sleep(pause) => {}
            () = signals.draining(), if !draining => {}
            () = sleep_until(deadline), if deadline.is_some() => {}
        }
    }

    /// When something is due without a word from outside.
    fn wakes_at(&self, now: Moment) -> Moment {
        if now < self.retry_at {
            return self.retry_at;
        }
        // What came to its end without leaving the process: a drain gives it back, or it can't be made a message.
        if self.traffic.flows().any(Flow::wants_settle) {
            return now;
        }
        let Some(owned) = &self.owned else {
            let look = if self.draining {
                now.after(HEARTBEAT)
            } else {
                self.seeking.look_at.min(self.heartbeat_at)
            };
            return self.settling.next_at().map_or(look, |settle| look.min(settle));
        };
        let mut at = owned.lease.renew_at();
        if !self.draining {
            at = at.min(self.heartbeat_at);
        }
        if !owned.giving {
            at = at.min(owned.sweep_at).min(self.pacing.next());
            // What could be claimed now waits for a permit, a settle or a claim in flight, which wake by themselves.
            let wakes = self.traffic.wakes_at(&owned.lease, now).filter(|wakes| *wakes > now);
            at = wakes.map_or(at, |wakes| at.min(wakes));
        }
        self.settling.next_at().map_or(at, |settle| at.min(settle))
    }

    /// The end: what can't be finished is left to the next owner, and the others are told.
    async fn leave(&mut self) {
        if let Some(owned) = &self.owned {
            let rest = self.traffic.out_until().after(LEASE_MARGIN).since(clock::now());
            // Lost replies don't matter any more: the lease ends all the same.
            let _ = self.store.give(self.lane, owned.owner, rest).await;
        }
        let _ = self.store.depart(&self.settings.replica).await;
        self.store.disconnect().await;
    }
}

fn row(row: store::Row) -> Row {
    match row {
        store::Row::Event(event) => Row::Event(event),
        store::Row::Blocked { seq, topic } => Row::Blocked { seq, topic },
    }
}

fn other(on_dead: OnDead) -> OnDead {
    match on_dead {
        OnDead::Block => OnDead::Skip,
        OnDead::Skip => OnDead::Block,
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
