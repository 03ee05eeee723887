//! What a broker takes from its client without outrider, in the same run: messages that are ready in memory, the same
//! headers, keys and payloads as the relay's, the same settings. The denominator of its rate.

mod kafka;
mod nats;
mod rabbitmq;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outrider_test_support::consume::Delivered;

use crate::args::Args;
use crate::process;
use crate::target::Broker;

/// Messages that wait for their confirm, at most: as many as the relay's `max_in_flight` lets it have.
const WINDOW: usize = 4_000;

/// Fewer are over in a moment, on a broker that takes them fast.
const LEAST: usize = 200_000;

/// Longest that a broker may take for all.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time of confirms, as they come: from the first to the last, as a drain is measured, so that neither connecting
/// nor closing counts.
#[derive(Debug)]
struct Confirms {
    begun: Instant,
    count: AtomicUsize,
    first: AtomicU64,
    last: AtomicU64,
}

impl Confirms {
    fn new() -> Confirms {
        let never = || AtomicU64::new(u64::MAX);
        Confirms { begun: Instant::now(), count: AtomicUsize::new(0), first: never(), last: never() }
    }

    /// One more message is stored.
    fn add(&self) {
        let now = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.first.fetch_min(now, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// # Errors
    /// When not all were stored.
    fn per_second(&self, expected: usize) -> Result<f64> {
        let (first, last) = (self.first.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        let count = self.count();
        ensure!(count == expected && last > first, "have all confirmed: {count} of {expected} were");
        Ok((count - 1) as f64 * 1e9 / (last - first) as f64)
    }
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling {
    pub(crate) events_per_second: f64,
    /// Of the client, which runs in this process.
    pub(crate) cpu_seconds_per_million: Option<f64>,
}

/// The messages over and over, each time with ids of their own, until there are enough for a rate that means something.
pub(crate) fn enough(messages: Vec<Delivered>) -> Vec<Delivered> {
    let copies = LEAST.div_ceil(messages.len().max(1));
    let copy = |number: usize| {
        messages.iter().map(move |message| {
            let native_id = message.native_id.as_ref().map(|id| format!("{id}-{number}"));
            Delivered { native_id, ..message.clone() }
        })
    };
    (0..copies).flat_map(copy).collect()
}

/// Publishes the messages to a destination of their own, and waits for every confirm.
pub(crate) async fn measure(
    broker: Broker,
    args: &Args,
    name: &str,
    messages: &[Delivered],
) -> Result<Ceiling> {
    ensure!(!messages.is_empty(), "measure a ceiling: there are no messages");
    broker.make(name).await?;
    let cpu = process::cpu_seconds(std::process::id());
    let confirms = Arc::new(Confirms::new());
    let address = broker.address();
    let published = async {
        match broker {
            Broker::Kafka => kafka::publish(&address, &args.param, name, messages, &confirms),
            Broker::Rabbitmq => rabbitmq::publish(&address, name, messages, &confirms).await,
            Broker::Nats => nats::publish(&address, name, messages, &confirms).await,
        }
    };
    let published = tokio::time::timeout(PATIENCE, published).await;
    let cpu_seconds = process::cpu_seconds(std::process::id()).zip(cpu).map(|(after, before)| after - before);
    let removed = broker.remove(name).await;
    published
        .with_context(|| format!("measure {broker}'s ceiling within {PATIENCE:?}"))?
        .with_context(|| format!("measure {broker}'s ceiling"))?;
    removed?;
    let cpu_seconds_per_million = cpu_seconds.map(|seconds| seconds * 1e6 / messages.len() as f64);
    Ok(Ceiling { events_per_second: confirms.per_second(messages.len())?, cpu_seconds_per_million })
}
