//! Supervisor: compares what should live with what lives, and acts. It spawns, restarts with backoff, and
//! drains; it handles no event and holds no connection.

mod children;
mod plan;
mod restart;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Actor, ActorContext, AsyncContext, Context, StreamHandler};
use tokio::sync::{mpsc, oneshot};

use super::board::Board;
use super::exit::{ChildExited, ChildId, Exit, ExitGuard};
use super::signals::Signals;
use crate::config::Config;
use crate::telemetry;
use children::{Child, Nursery};
use plan::{Action, ChildState, plan};
use restart::Restarts;

/// How often desired and actual are compared when nothing happens: the delay of a restart beyond its rest, and of
/// a drain.
const TICK: Duration = Duration::from_millis(100);

/// Of the grace period, what is kept for closing the brokers' connections after the claimers drained.
const CLOSE_SHARE: u32 = 5;

#[derive(Debug)]
struct Life {
    state: ChildState,
    incarnation: u64,
    signals: Signals,
    started: Instant,
    restarts: Restarts,
    child: Option<Child>,
}

/// See the module.
#[derive(Debug)]
pub struct Supervisor {
    nursery: Nursery,
    desired: BTreeSet<ChildId>,
    lives: BTreeMap<ChildId, Life>,
    incarnations: u64,
    board: Arc<Board>,
    /// The process is told to end by these.
    signals: Signals,
    exits: (mpsc::UnboundedSender<ChildExited>, Option<mpsc::UnboundedReceiver<ChildExited>>),
    /// The worst end of a child during shutdown.
    worst: Exit,
    done: Option<oneshot::Sender<Exit>>,
}

impl Supervisor {
    /// Children start when the actor starts. After `signals` asked for a drain and the last child has ended,
    /// `done` gets the worst of their ends.
    pub fn new(
        config: Arc<Config>,
        board: Arc<Board>,
        signals: Signals,
        done: oneshot::Sender<Exit>,
    ) -> Self {
        telemetry::begins(
            config.tenants.keys().map(|name| &**name),
            config.brokers.keys().map(|name| &**name),
        );
        let nursery = Nursery::new(config, board.clone());
        let (tell, exits) = mpsc::unbounded_channel();
        Supervisor {
            desired: nursery.desired(),
            nursery,
            lives: BTreeMap::new(),
            incarnations: 0,
            board,
            signals,
            exits: (tell, Some(exits)),
            worst: Exit::Drained,
            done: Some(done),
        }
    }

    fn act(&mut self, ctx: &mut Context<Self>) {
        self.board.supervisor_acts();
        self.nursery.outlets().for_each(|outlet| telemetry::broker_in_flight(&outlet.name, &outlet.bound));
        if self.signals.is_draining() {
            self.desired.clear();
        }
        let states = self.lives.iter().map(|(child, life)| (child.clone(), life.state)).collect();
        for action in plan(&self.desired, &states, Instant::now()) {
            match action {
                Action::Start(child) => self.start(child),
                Action::Drain(child) => self.drain(&child),
                Action::Forget(child) => {
                    telemetry::child_rests(&child, false);
                    self.lives.remove(&child);
                }
            }
        }
        if self.signals.is_draining() && self.lives.is_empty() {
            if let Some(done) = self.done.take() {
                // Nobody waits any more: the process ends anyway.
                let _ = done.send(self.worst);
            }
            ctx.stop();
        }
    }

    fn start(&mut self, child: ChildId) {
        self.incarnations += 1;
        let incarnation = self.incarnations;
        let signals = Signals::new();
        let guard = ExitGuard::new(child.clone(), incarnation, self.exits.0.clone());
        let started = self.nursery.start(&child, signals.clone(), guard);
        let before = self.lives.get(&child);
        telemetry::child_started(&child, before.is_some());
        let restarts = before.map(|life| life.restarts).unwrap_or_default();
        let life = Life {
            state: ChildState::Running,
            incarnation,
            signals,
            started: Instant::now(),
            restarts,
            child: started,
        };
        self.lives.insert(child, life);
    }

    fn drain(&mut self, child: &ChildId) {
        let Some(life) = self.lives.get_mut(child) else { return };
        let left = self.signals.deadline().map_or(Duration::ZERO, |deadline| {
            deadline.saturating_duration_since(tokio::time::Instant::now())
        });
        let within = match child {
            ChildId::Claimer(_) => left - left / CLOSE_SHARE,
            ChildId::Publisher(_) | ChildId::Janitor => left,
        };
        life.state = ChildState::Draining;
        life.signals.drain(within);
    }

    fn exited(&mut self, exited: &ChildExited) {
        let Some(life) = self.lives.get_mut(&exited.child) else { return };
        if life.incarnation != exited.incarnation {
            return;
        }
        if let Some(child) = life.child.take() {
            child.gone();
        }
        if life.state == ChildState::Draining {
            telemetry::child_exited(exited, None);
            self.worst = worse(self.worst, exited.exit);
            self.lives.remove(&exited.child);
            return;
        }
        // Nobody told it to end.
        let now = Instant::now();
        let rest = life.restarts.ended(life.started, now, rand::random());
        telemetry::child_exited(exited, Some(rest));
        telemetry::child_rests(&exited.child, true);
        life.state = ChildState::Resting { until: now + rest };
    }
}

fn worse(one: Exit, other: Exit) -> Exit {
    match (one, other) {
        (Exit::Panicked, _) | (_, Exit::Panicked) => Exit::Panicked,
        (Exit::CutShort, _) | (_, Exit::CutShort) => Exit::CutShort,
        (Exit::Drained, Exit::Drained) => Exit::Drained,
    }
}

impl Actor for Supervisor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(mut exits) = self.exits.1.take() {
            ctx.add_stream(futures_util::stream::poll_fn(move |cx| exits.poll_recv(cx)));
        }
        self.act(ctx);
        ctx.run_interval(TICK, Self::act);
    }
}

impl StreamHandler<ChildExited> for Supervisor {
    fn handle(&mut self, exited: ChildExited, ctx: &mut Self::Context) {
        self.exited(&exited);
        self.act(ctx);
    }
}
