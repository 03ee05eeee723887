//! What happened so far: written down by writers and consumers, read for the progress line and the judgement.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outrider_test_support::consume::Delivered;
use outrider_test_support::verify::{self, Seen, Verdict, Written};

use crate::stage::BROKERS;

#[derive(Debug, Default)]
pub(crate) struct Tally {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    committed: Vec<Written>,
    rolled_back: Vec<Written>,
    seen: BTreeMap<String, Vec<Seen>>,
    effects: BTreeMap<String, u64>,
}

/// The counts of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) committed: u64,
    pub(crate) rolled_back: u64,
    /// Messages that consumers got.
    pub(crate) seen: u64,
    /// Effects at the consumers of each of [`BROKERS`].
    pub(crate) effects: [u64; 3],
}

impl Glance {
    pub(crate) fn effects_in_all(&self) -> u64 {
        self.effects.iter().sum()
    }
}

impl Tally {
    pub(crate) fn committed(&self, event: Written) {
        self.lock().committed.push(event);
    }

    pub(crate) fn rolled_back(&self, event: Written) {
        self.lock().rolled_back.push(event);
    }

    /// Messages of one batch in their order, each with what the inbox said.
    pub(crate) fn consumed(&self, broker: &str, batch: Vec<Seen>) {
        let mut inner = self.lock();
        let effects: u64 = batch.iter().map(|seen| u64::from(seen.effect)).sum();
        *inner.effects.entry(broker.to_owned()).or_default() += effects;
        inner.seen.entry(broker.to_owned()).or_default().extend(batch);
    }

    pub(crate) fn glance(&self) -> Glance {
        let inner = self.lock();
        let count = |events: &Vec<Written>| events.len() as u64;
        Glance {
            committed: count(&inner.committed),
            rolled_back: count(&inner.rolled_back),
            seen: inner.seen.values().map(|seen| seen.len() as u64).sum(),
            effects: BROKERS.map(|broker| inner.effects.get(broker).copied().unwrap_or(0)),
        }
    }

    pub(crate) fn verify(&self) -> Verdict {
        let inner = self.lock();
        verify::verify(&inner.committed, &inner.rolled_back, &inner.seen)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is shown of a message while the demo is kept; not its payload.
pub(crate) fn describe(broker: &str, message: &Delivered, effect: bool) -> String {
    let key = message.key.as_deref().unwrap_or("none");
    let id = message.id().map_or_else(|_| "?".to_owned(), |id| id.to_string());
    let what = if effect { "new" } else { "a second copy, which the inbox keeps out" };
    format!("{broker}: {} · key {key} · id {id} · {} bytes · {what}", message.place, message.payload.len())
}
