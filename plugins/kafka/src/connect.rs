//! A librdkafka producer: made, waited for, taken back from, and ended off the async threads.
//!
//! librdkafka's calls for creating, asking for metadata, flushing and destroying block; here they run on
//! blocking or own threads. What may be called from a task is marked so. Must not: know what an outcome is.

use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use outrider_broker::{Cause, ConnectError, ConnectOptions, ErrorClass, Message};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{Producer, PurgeConfig, ThreadedProducer};
use tokio::sync::{Notify, oneshot};
use tokio::task::{self, JoinHandle};

use crate::batch::{Batch, Report};
use crate::classify::{self, Persistence};
use crate::context::{Context, Health};
use crate::params::{Purpose, Settings};
use crate::{native, record};

/// How often connecting looks whether the wait has become pointless (a refused password).
const LOOK: Duration = Duration::from_millis(100);

/// How long a producer that is ended may take to hand back what was purged.
const HAND_BACK: Duration = Duration::from_millis(100);

/// What a producer is made from.
#[derive(Clone, Debug)]
pub(crate) struct Blueprint {
    pub(crate) settings: Arc<Settings>,
    pub(crate) options: ConnectOptions,
    pub(crate) health: Arc<Health>,
}

/// How far a hand-over came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Everything is in the client or has its report.
    Complete,
    /// The client's queue is full: wait for room and go on.
    Full,
    /// There is no client any more.
    Ended,
}

/// One producer. Dropping it ends it on a thread of its own, without waiting.
pub(crate) struct Client {
    producer: RwLock<Option<ThreadedProducer<Context>>>,
    room: Arc<Notify>,
}

impl Client {
    /// Makes a producer and waits until a broker has answered it.
    pub(crate) async fn connect(blueprint: Blueprint) -> Result<Client, ConnectError> {
        let timeout = blueprint.options.timeout;
        let deadline = Instant::now() + timeout;
        let connecting = task::spawn_blocking(move || {
            let client = Client::open(&blueprint, Purpose::Publish)?;
            client.wait_for_answer(&blueprint.health, deadline, timeout)?;
            Ok(client)
        });
        let unfinished = |text: &str| ConnectError(Cause::broker(ErrorClass::Timeout, text));
        // Past its deadline the thread ends by itself, and its client with it.
        match tokio::time::timeout_at((deadline + LOOK).into(), connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(_)) => Err(unfinished("the connecting thread ended early")),
            Err(_) => Err(unfinished("the client did not start in time")),
        }
    }

    /// Makes a producer without waiting for a broker. Blocks while certificate files are read.
    pub(crate) fn open(blueprint: &Blueprint, purpose: Purpose) -> Result<Client, ConnectError> {
        let Blueprint { settings, options, health } = blueprint;
        let room = Arc::new(Notify::new());
        let context = Context::new(Arc::clone(health), Arc::clone(&room));
        match settings.client_config(options, purpose).create_with_context(context) {
            Ok(producer) => Ok(Client { producer: RwLock::new(Some(producer)), room }),
            Err(error) => {
                // Other variants may quote a parameter's value.
                let text = match &error {
                    KafkaError::ClientCreation(text) => settings.presentable(text),
                    other => format!("librdkafka takes no such configuration ({:?})", classify::code(other)),
                };
                let text = format!("the client could not be made, correct the parameters: {text}");
                Err(ConnectError(Cause::broker(ErrorClass::Invalid, text)))
            }
        }
    }

    fn wait_for_answer(
        &self,
        health: &Health,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<(), ConnectError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.examine(health);
            let refusal = health.refusal().or_else(|| health.end());
            if left.is_zero() || refusal.is_some() {
                let cause = refusal.or_else(|| health.cause());
                return Err(ConnectError(unanswered(cause, timeout)));
            }
            let Some(producer) = self.producer() else {
                return Err(ConnectError(Cause::broker(ErrorClass::Local, "the connection was closed")));
            };
            let look = LOOK.min(left);
            let begun = Instant::now();
            // Comes with the metadata that the client asks for by itself. A server that has no id answers
            // early without one, and is asked for a list of topics instead.
            let answered = producer.client().fetch_cluster_id(look).is_some()
                || (begun.elapsed() < look / 2
                    && native::sign_of_life(producer.client(), look.max(left / 4)).is_ok());
            if answered {
                health.recovered();
                return Ok(());
            }
        }
    }

    /// Puts messages into the client from `next` on, in order, until all are in or its queue is full.
    /// `next` is then the first that is not in. Does not block.
    pub(crate) fn hand_over(
        &self,
        messages: &[Message],
        chosen: &[usize],
        batch: &Arc<Batch>,
        next: &mut usize,
    ) -> Progress {
        let guard = self.producer.read().unwrap_or_else(PoisonError::into_inner);
        let Some(producer) = guard.as_ref() else { return Progress::Ended };
        while let Some(message) = chosen.get(*next).and_then(|&index| messages.get(index)) {
            if let Err((error, back)) = producer.send(record::build(message, batch.ticket(*next))) {
                let code = classify::code(&error);
                if code == RDKafkaErrorCode::QueueFull {
                    return Progress::Full;
                }
                back.delivery_opaque.settle(Report::Failed { code, persistence: Persistence::No });
            }
            *next += 1;
        }
        Progress::Complete
    }

    /// Ends when messages have left the client's queue. Cancel safe.
    pub(crate) async fn room(&self) {
        self.room.notified().await;
    }

    /// Takes everything back that has no report yet; the reports come at once. Does not block.
    pub(crate) fn take_back(&self) {
        if let Some(producer) = self.producer.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            producer.purge(everything());
        }
    }

    /// Tells `health` of an error that ended this client for good. Does not block.
    pub(crate) fn examine(&self, health: &Health) {
        let guard = self.producer.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(reason) = guard.as_ref().and_then(|producer| native::fatal_error(producer.client())) {
            health.died(&reason);
        }
    }

    /// Asks a broker for an answer, on a thread that blocks for up to `timeout`. `None`: the client has ended.
    pub(crate) fn ask(&self, timeout: Duration) -> Option<JoinHandle<Result<(), RDKafkaErrorCode>>> {
        let producer = self.producer()?;
        // The thread also drops this handle, which may be the last one.
        Some(task::spawn_blocking(move || native::sign_of_life(producer.client(), timeout)))
    }

    /// Ends the producer on a thread of its own: what is inside may still leave until `flush_until`, the rest
    /// is taken back. The receiver resolves (to whatever) once nothing can leave any more.
    pub(crate) fn end(&self, flush_until: Instant) -> oneshot::Receiver<()> {
        let (ended, receiver) = oneshot::channel();
        let producer = self.producer.write().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(producer) = producer {
            let work = move || {
                let time = flush_until.saturating_duration_since(Instant::now());
                if producer.in_flight_count() > 0 && producer.flush(time).is_err() {
                    producer.purge(everything());
                    // Serves the reports of what was purged; what is not served by then is silent.
                    let _ = producer.flush(HAND_BACK);
                }
                let _ = ended.send(());
                drop(producer);
            };
            if let Err(error) = thread::Builder::new().name("kafka-end".to_owned()).spawn(work) {
                tracing::error!(%error, "no thread to end a Kafka client on: ended it in place");
            }
        }
        receiver
    }

    /// A handle for a blocking call, which must not hold the lock.
    fn producer(&self) -> Option<ThreadedProducer<Context>> {
        self.producer.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.end(Instant::now()));
    }
}

fn everything() -> PurgeConfig {
    PurgeConfig::default().queue().inflight().non_blocking()
}

/// Why connecting failed.
fn unanswered(cause: Option<Cause>, timeout: Duration) -> Cause {
    let Some(cause) = cause else {
        let text = format!("no broker of `bootstrap.servers` answered within {timeout:?}");
        return Cause::broker(ErrorClass::Timeout, text);
    };
    let mut cause = classify::unanswered(RDKafkaErrorCode::OperationTimedOut, Some(cause));
    // A listener that expects another protocol does not say so, it hangs up.
    if cause.text.contains("Disconnected") {
        cause.text.push_str("; is `security.protocol` what the listener expects?");
    }
    cause
}
