//! A broker of the test's own, added to the registry as a third party would: the test writes every word it says, and
//! reads afterwards what it was given and when.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outrider::brokers::Registry;
use outrider_broker::{
    Broker, Cause, ConnectError, ConnectOptions, Connection, Facts, Fault, Message, Outcome, Params, Plugin,
    Receipt, async_trait,
};

/// What to do; each part may panic.
pub(crate) struct Script {
    pub(crate) connect: Box<dyn Fn() + Send + Sync>,
    pub(crate) alive: Box<dyn Fn() -> bool + Send + Sync>,
    pub(crate) answer: Box<dyn Fn(&Message) -> Outcome + Send + Sync>,
    /// How long each batch stays in flight.
    pub(crate) flight: Duration,
}

impl Default for Script {
    fn default() -> Self {
        Script {
            connect: Box::new(|| ()),
            alive: Box::new(|| true),
            answer: Box::new(|_| Outcome::Confirmed(Receipt::default())),
            flight: Duration::ZERO,
        }
    }
}

/// A batch that was handed over.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    pub(crate) seqs: Vec<i64>,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

impl Tried {
    /// Both were in flight at one time.
    pub(crate) fn overlaps(&self, other: &Tried) -> bool {
        self.began < other.ended && other.began < self.ended
    }
}

/// `kind = "script"`, with one script for all its brokers.
#[derive(Clone)]
pub(crate) struct Scripted {
    script: Arc<Script>,
    flight: Arc<Mutex<Duration>>,
    tried: Arc<Mutex<Vec<Tried>>>,
    connects: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new(script: Script) -> Self {
        Scripted {
            flight: Arc::new(Mutex::new(script.flight)),
            script: Arc::new(script),
            tried: Arc::default(),
            connects: Arc::default(),
        }
    }

    /// From now on each batch stays in flight this long.
    pub(crate) fn fly(&self, flight: Duration) {
        *self.flight.lock().unwrap() = flight;
    }

    /// The brokers that come with outrider, and this one.
    pub(crate) fn registry(&self) -> Registry {
        Registry::builtin().with(self.clone())
    }

    /// Batches that were answered, in the order of their answers.
    pub(crate) fn tried(&self) -> Vec<Tried> {
        self.tried.lock().unwrap().clone()
    }

    /// Connections that were made.
    pub(crate) fn connects(&self) -> usize {
        self.connects.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scripted").finish_non_exhaustive()
    }
}

impl Plugin for Scripted {
    fn kind(&self) -> &'static str {
        "script"
    }

    fn parse(&self, _: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Broker for Scripted {
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        Ok(to.clone())
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    async fn connect(&self, _: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        (self.script.connect)();
        self.connects.fetch_add(1, Ordering::SeqCst);
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl Connection for Scripted {
    async fn publish(&self, batch: Vec<Message>, _: Instant) -> Vec<Outcome> {
        let began = Instant::now();
        let outcomes = batch.iter().map(|message| (self.script.answer)(message)).collect();
        let flight = *self.flight.lock().unwrap();
        tokio::time::sleep(flight).await;
        let seqs = batch.iter().map(|message| message.seq).collect();
        self.tried.lock().unwrap().push(Tried { seqs, began, ended: Instant::now() });
        outcomes
    }

    async fn probe(&self, _: Instant) -> Result<(), Cause> {
        Ok(())
    }

    fn alive(&self) -> bool {
        (self.script.alive)()
    }

    async fn close(&self, _: Instant) {}
}
