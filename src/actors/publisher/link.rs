//! A link: this end of one configured broker. It connects, keeps the breaker, and lets batches through while
//! the breaker is closed. One cluster's outage stays in its own link.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use outrider_broker::{Broker, Cause, ConnectOptions, Connection, ErrorClass, Outcome, Scope};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use super::breaker::Breaker;
use crate::actors::board::{Board, Pulse};
use crate::actors::messages::{PublishBatch, PublishReport};
use crate::actors::outlet::{LinkState, Outlet};
use crate::actors::signals::Signals;
use crate::failpoints;
use crate::telemetry::{self, LinkChanged};

/// A plugin returns by the deadline; one that does not is cut off this much later. Longer, and a lease could end
/// with the batch still out: keep it below [`crate::outbox::lease::LEASE_MARGIN`].
const OVERDUE: Duration = Duration::from_millis(250);

/// How often a quiet link looks whether its connection is still alive.
const LOOK: Duration = Duration::from_secs(1);

/// Bound on one probe.
const PROBE: Duration = Duration::from_secs(5);

/// What a link needs to know of its broker.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    pub broker: Arc<dyn Broker>,
    pub connect_timeout: Duration,
    pub outlet: Arc<Outlet>,
    pub board: Arc<Board>,
}

#[derive(Debug)]
pub(super) struct Link {
    settings: LinkSettings,
    live: Mutex<Live>,
    /// Something for the keeper to look at: the breaker opened, or a batch ended without a word.
    look: Notify,
}

struct Live {
    breaker: Breaker,
    connection: Option<Arc<dyn Connection>>,
    /// Of the connection: what a batch of an earlier one meets says nothing about this one.
    generation: u64,
    /// A batch ended with no confirm at all: ask the broker whether it is still there.
    suspicion: bool,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("breaker", &self.breaker).finish_non_exhaustive()
    }
}

/// What the keeper does next.
enum Next {
    /// Wait until then, then connect or probe.
    Retry(Instant),
    /// The link is up: wait for a reason to look.
    Watch,
}

impl Link {
    pub(super) fn new(settings: LinkSettings) -> Arc<Self> {
        let breaker = Breaker::connecting(Instant::now());
        let live = Live { breaker, connection: None, generation: 0, suspicion: false };
        Arc::new(Link { settings, live: Mutex::new(live), look: Notify::new() })
    }

    fn live(&self) -> std::sync::MutexGuard<'_, Live> {
        // A panic while holding it leaves plain data behind, never a half-made change.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a batch. Every message gets its outcome, whatever the plugin does.
    pub(super) async fn publish(&self, batch: PublishBatch) -> PublishReport {
        let PublishBatch { messages, deadline, permit, broker } = batch;
        let count = messages.len();
        let (connection, generation) = {
            let live = self.live();
            match (&live.breaker, &live.connection) {
                (Breaker::Closed, Some(connection)) => (connection.clone(), live.generation),
                (breaker, _) => {
                    let cause = match breaker {
                        Breaker::Open { cause, .. } => cause.clone(),
                        Breaker::Closed => Cause::broker(ErrorClass::Local, "not connected"),
                    };
                    return PublishReport { outcomes: vec![Outcome::NotSent(cause); count], permit };
                }
            }
        };
        let begun = Instant::now();
        // A task of its own: it runs on the I/O threads, and a panic in the plugin ends the batch and nothing else.
        let mut task = tokio::spawn(async move {
            failpoints::publish(&messages);
            connection.publish(messages, deadline).await
        });
        let outcomes = match timeout_at((deadline + OVERDUE).into(), &mut task).await {
            Ok(Ok(outcomes)) if outcomes.len() == count => outcomes,
            Ok(Ok(_)) => self.broken_plugin(generation, count, "the plugin lost count of its outcomes"),
            Ok(Err(_)) => self.broken_plugin(generation, count, "the plugin panicked"),
            Err(_) => {
                task.abort();
                self.outlast("a publish past its deadline", task);
                self.broken_plugin(generation, count, "the plugin did not return by the deadline")
            }
        };
        telemetry::batch_published(&broker, &outcomes, begun.elapsed());
        self.learn(generation, &outcomes);
        PublishReport { outcomes, permit }
    }

    /// A call was cut off. It ends with its next pause; while it does not, it has a thread that others need.
    fn outlast<T: Send + 'static>(&self, call: &str, task: JoinHandle<T>) {
        let who = format!("the plugin of `{}`, in {call},", self.settings.outlet.name);
        let pulse = self.settings.board.pulse(who, Duration::ZERO);
        tokio::spawn(async move {
            let _ = task.await;
            drop(pulse);
        });
    }

    fn broken_plugin(&self, generation: u64, count: usize, what: &str) -> Vec<Outcome> {
        telemetry::plugin_broke(&self.settings.outlet.name, what);
        let cause = Cause::event(ErrorClass::ClientFatal, what);
        let mut live = self.live();
        if live.generation == generation {
            live.suspicion = true;
        }
        drop(live);
        self.look.notify_one();
        vec![Outcome::Unknown(cause); count]
    }

    /// What a batch's outcomes say about the broker as a whole.
    fn learn(&self, generation: u64, outcomes: &[Outcome]) {
        let trouble =
            outcomes.iter().filter(|outcome| !matches!(outcome, Outcome::Refused(_))).find_map(|outcome| {
                outcome.cause().filter(|cause| {
                    cause.scope == Scope::Broker
                        && !matches!(cause.class, ErrorClass::ClientFull | ErrorClass::Local)
                })
            });
        let silent =
            !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Confirmed(_) | Outcome::Refused(_)))
                && outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unknown(_)));
        if let Some(cause) = trouble {
            self.trouble(Some(generation), cause.clone());
        } else if silent {
            let mut live = self.live();
            live.suspicion |= live.generation == generation;
        } else {
            return;
        }
        self.look.notify_one();
    }

    /// Opens the breaker. `generation`: only if that connection is still the one in use.
    fn trouble(&self, generation: Option<u64>, cause: Cause) {
        let mut live = self.live();
        if generation.is_some_and(|generation| generation != live.generation) {
            return;
        }
        let news = live.breaker.trouble(cause.clone(), Instant::now(), rand::random());
        drop(live);
        self.settings.outlet.set_state(LinkState::Down(cause.clone()));
        telemetry::broker_troubled(&self.settings.outlet.name, &cause);
        if news {
            telemetry::link_changed(&self.settings.outlet.name, LinkChanged::Down(&cause));
        }
    }

    /// Keeps the link until it is told to drain, then closes the connection. Returns whether that was done in time.
    pub(super) async fn keep(self: Arc<Self>, signals: Signals) -> bool {
        let who = format!("the link to `{}`", self.settings.outlet.name);
        let pulse = self.settings.board.pulse(who, Duration::ZERO);
        loop {
            let next = match &self.live().breaker {
                Breaker::Closed => Next::Watch,
                Breaker::Open { retry_at, .. } => Next::Retry(*retry_at),
            };
            pulse.acts_within(match &next {
                Next::Retry(at) => at.saturating_duration_since(Instant::now()),
                Next::Watch => LOOK,
            });
            tokio::select! {
                () = signals.draining() => break,
                () = self.wait(&next) => {}
            }
            tokio::select! {
                () = signals.draining() => break,
                () = self.attend(&next, &pulse) => {}
            }
        }
        // Closing has the deadline of the drain.
        drop(pulse);
        self.close(&signals).await
    }

    async fn wait(&self, next: &Next) {
        match next {
            Next::Retry(at) => tokio::time::sleep_until((*at).into()).await,
            Next::Watch => {
                let _ = tokio::time::timeout(LOOK, self.look.notified()).await;
            }
        }
    }

    async fn attend(&self, next: &Next, pulse: &Pulse) {
        pulse.acts_within(Duration::ZERO);
        let (connection, suspicion) = {
            let mut live = self.live();
            (live.connection.clone(), std::mem::take(&mut live.suspicion))
        };
        let alive = connection.filter(|connection| connection.alive());
        match (next, alive) {
            (Next::Watch, Some(_)) if !suspicion => {}
            (_, Some(connection)) => {
                pulse.acts_within(PROBE + OVERDUE);
                let deadline = Instant::now() + PROBE;
                match timeout_at((deadline + OVERDUE).into(), connection.probe(deadline)).await {
                    Ok(Ok(())) => self.up(),
                    Ok(Err(cause)) => self.trouble(None, cause),
                    Err(_) => {
                        let text = "the plugin did not return from a probe by its deadline";
                        self.trouble(None, Cause::broker(ErrorClass::ClientFatal, text));
                    }
                }
            }
            (Next::Watch, None) => {
                self.trouble(None, Cause::broker(ErrorClass::Unreachable, "the connection is gone"));
            }
            (Next::Retry(_), None) => {
                // With the end of the connection before.
                pulse.acts_within(self.settings.connect_timeout + 3 * OVERDUE);
                self.connect().await;
            }
        }
    }

    async fn connect(&self) {
        self.drop_connection().await;
        let outlet = &self.settings.outlet;
        let options = ConnectOptions {
            client_name: format!("outrider/{}", outlet.name),
            timeout: self.settings.connect_timeout,
            publish_deadline: outlet.publish_deadline.max,
        };
        let limit = self.settings.connect_timeout + OVERDUE;
        let broker = self.settings.broker.clone();
        let mut task = tokio::spawn(async move { broker.connect(options).await });
        match tokio::time::timeout(limit, &mut task).await {
            Ok(Ok(Ok(connection))) => {
                let mut live = self.live();
                live.connection = Some(connection);
                live.generation += 1;
                drop(live);
                self.up();
            }
            Ok(Ok(Err(error))) => self.trouble(None, error.0),
            Ok(Err(_)) => self.trouble(None, Cause::broker(ErrorClass::ClientFatal, "the plugin panicked")),
            Err(_) => {
                task.abort();
                self.outlast("a connect past its timeout", task);
                let text = format!("no connection within {:?}", self.settings.connect_timeout);
                self.trouble(None, Cause::broker(ErrorClass::Timeout, text));
            }
        }
    }

    fn up(&self) {
        let down_for = self.live().breaker.success(Instant::now());
        self.settings.outlet.set_state(LinkState::Up);
        if let Some(down_for) = down_for {
            telemetry::link_changed(&self.settings.outlet.name, LinkChanged::Up { down_for });
        }
    }

    /// A connection that can't be used any more must not send anything later.
    async fn drop_connection(&self) {
        let old = self.live().connection.take();
        if let Some(old) = old {
            let deadline = Instant::now() + OVERDUE;
            let _ = timeout_at((deadline + OVERDUE).into(), old.close(deadline)).await;
        }
    }

    async fn close(&self, signals: &Signals) -> bool {
        let Some(connection) = self.live().connection.take() else { return true };
        let deadline = signals.deadline().unwrap_or_else(tokio::time::Instant::now);
        timeout_at(deadline + OVERDUE, connection.close(deadline.into())).await.is_ok()
    }
}
