//! A named place in the process where messages end up, and the handle by which a test rules over it.
//!
//! Not a queue: nothing is taken out by reading. The same name gives the same store for the life of the process,
//! so tests that run side by side use names of their own.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use outrider_broker::{Cause, ErrorClass, Message, Outcome, Receipt};
use tokio::sync::watch;

use crate::params::Settings;
use crate::rules::{Behaviour, RuleId, Rules};

static STORES: LazyLock<Mutex<HashMap<String, Arc<Store>>>> = LazyLock::new(Mutex::default);

/// The store of one name. All methods may be called at any time from anywhere.
#[derive(Debug)]
pub struct Store {
    inner: Mutex<Inner>,
    /// Counts changes of any kind, so that one can wait for the next.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    kept: Vec<Message>,
    rules: Rules,
    down: Option<Cause>,
    in_flight: usize,
    most_in_flight: usize,
    connects: usize,
}

/// What was decided about one message.
pub(crate) enum Verdict {
    Ended(Outcome),
    Stalled,
    Panic,
}

impl Store {
    /// The store of that name, made if there is none.
    pub fn named(name: &str) -> Arc<Store> {
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || Arc::new(Store { inner: Mutex::default(), changes: watch::Sender::new(0) });
        Arc::clone(stores.entry(name.to_owned()).or_insert_with(made))
    }

    /// Holds from now on for every message that `concerns` says yes to, unless an earlier rule does.
    pub fn tell(
        &self,
        concerns: impl Fn(&Message) -> bool + Send + Sync + 'static,
        behaviour: Behaviour,
    ) -> RuleId {
        self.change(|inner| inner.rules.add(concerns, behaviour, None))
    }

    /// Like [`Store::tell`], for the first `times` messages only. Zero is once, and a stall is not counted.
    pub fn tell_times(
        &self,
        times: usize,
        concerns: impl Fn(&Message) -> bool + Send + Sync + 'static,
        behaviour: Behaviour,
    ) -> RuleId {
        self.change(|inner| inner.rules.add(concerns, behaviour, Some(times.max(1))))
    }

    /// Takes a rule back; what stalled because of it goes on.
    pub fn take_back(&self, rule: RuleId) {
        self.change(|inner| inner.rules.remove(rule));
    }

    /// Takes all rules back.
    pub fn take_all_back(&self) {
        self.change(|inner| inner.rules.clear());
    }

    /// From now on connecting and probing fail with this cause, living connections are over, and nothing is taken.
    pub fn go_down(&self, cause: Cause) {
        self.change(|inner| inner.down = Some(cause));
    }

    /// Ends [`Store::go_down`]. Connections that were over stay so.
    pub fn come_up(&self) {
        self.change(|inner| inner.down = None);
    }

    /// What was kept, in the order in which it came.
    pub fn messages(&self) -> Vec<Message> {
        self.lock().kept.clone()
    }

    /// Forgets what was kept.
    pub fn empty(&self) {
        self.change(|inner| inner.kept.clear());
    }

    /// Messages of all batches that a connection has and has not reported on yet.
    pub fn in_flight(&self) -> usize {
        self.lock().in_flight
    }

    /// The most that [`Store::in_flight`] ever was.
    pub fn most_in_flight(&self) -> usize {
        self.lock().most_in_flight
    }

    /// How many connections were made.
    pub fn connects(&self) -> usize {
        self.lock().connects
    }

    /// Waits until `holds` says yes. False: the deadline passed first. Cancel safe.
    pub async fn wait_until(&self, deadline: Instant, holds: impl Fn(&Store) -> bool) -> bool {
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if holds(self) {
                return true;
            }
            if tokio::time::timeout_at(deadline.into(), changes.changed()).await.is_err() {
                return holds(self);
            }
        }
    }

    /// For noticing changes: subscribe, look, then wait.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn down(&self) -> Option<Cause> {
        self.lock().down.clone()
    }

    pub(crate) fn count_connect(&self) {
        self.change(|inner| inner.connects += 1);
    }

    /// Decides about messages in their order, and keeps what arrives. Is a change only if something ended, or
    /// messages that stall would wake each other for ever.
    pub(crate) fn judge<'a>(
        &self,
        messages: impl Iterator<Item = &'a Message>,
        settings: &Settings,
    ) -> Vec<Verdict> {
        let mut inner = self.lock();
        let verdicts: Vec<Verdict> = messages.map(|message| inner.judge(message, settings)).collect();
        drop(inner);
        if verdicts.iter().any(|verdict| matches!(verdict, Verdict::Ended(_))) {
            self.changes.send_modify(|changes| *changes += 1);
        }
        verdicts
    }

    /// Counts messages as in flight until the guard is dropped.
    pub(crate) fn fly(&self, messages: usize) -> Flight<'_> {
        self.change(|inner| {
            inner.in_flight += messages;
            inner.most_in_flight = inner.most_in_flight.max(inner.in_flight);
        });
        Flight { store: self, messages }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let result = change(&mut self.lock());
        self.changes.send_modify(|changes| *changes += 1);
        result
    }

    /// A predicate of a test that panicked leaves nothing half done, so a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn judge(&mut self, message: &Message, settings: &Settings) -> Verdict {
        match self.rules.apply(message) {
            None => Verdict::Ended(self.take(message, settings)),
            Some(Behaviour::Stall) => Verdict::Stalled,
            Some(Behaviour::Lose(outcome)) => {
                let taken = self.take(message, settings);
                Verdict::Ended(if taken.cause().is_none() { outcome } else { taken })
            }
            Some(Behaviour::Answer(outcome)) => Verdict::Ended(outcome),
            Some(Behaviour::Panic) => Verdict::Panic,
        }
    }

    fn take(&mut self, message: &Message, settings: &Settings) -> Outcome {
        if !settings.keep {
            return Outcome::Confirmed(Receipt::default());
        }
        if self.kept.len() >= settings.capacity {
            let text =
                format!("the store `{}` is full: it holds {} messages", settings.store, self.kept.len());
            return Outcome::Retry(Cause::broker(ErrorClass::Unavailable, text));
        }
        self.kept.push(message.clone());
        Outcome::Confirmed(Receipt { position: Some(self.kept.len().to_string()), duplicate: false })
    }
}

/// Messages in flight; dropping it ends their flight, also when a publish is dropped or panics.
pub(crate) struct Flight<'a> {
    store: &'a Store,
    messages: usize,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.store.change(|inner| inner.in_flight -= self.messages);
    }
}
