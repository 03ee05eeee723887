//! What arrived at the broker against what was committed.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outrider_test_support::consume::Delivered;
use outrider_test_support::verify::{Counts, Seen, Written, verify};

use crate::config::BROKER;
use crate::target::Broker;

/// The daemon has ended, so all that there will ever be is in the log already: a silence this long is its end.
const SILENCE: Duration = Duration::from_secs(2);

/// Messages between two words to a broker that forgets what is done.
const DONE_EVERY: usize = 500;

/// Longest wait for the first message.
const FIRST: Duration = Duration::from_secs(20);

/// Reads a topic, queue or stream from its beginning to its end, and judges. What came goes to `keep`, if somebody wants it.
///
/// # Errors
/// When it can't be read, or a payload has not the size with which it was written.
pub(crate) async fn read_back(
    broker: Broker,
    name: &str,
    written: &[Written],
    payload: u32,
    mut keep: Option<&mut Vec<Delivered>>,
) -> Result<Counts> {
    let mut consumer = broker.open(name).await?;
    let size = usize::try_from(payload)?;
    let mut seen = Vec::with_capacity(written.len());
    let mut met = HashSet::with_capacity(written.len());
    let mut wait = FIRST;
    while let Some(message) =
        consumer.next(Instant::now() + wait).await.with_context(|| format!("read {broker}"))?
    {
        let id = message.id()?;
        let found = message.payload.len();
        ensure!(found == size, "deliver payloads whole: event {id} has {found} bytes of {size}");
        seen.push(Seen { id, effect: met.insert(id) });
        wait = SILENCE;
        if let Some(keep) = &mut keep {
            keep.push(message);
        }
        if seen.len().is_multiple_of(DONE_EVERY) {
            consumer.done().await?;
        }
    }
    let verdict = verify(written, &[], &BTreeMap::from([(BROKER.to_owned(), seen)]));
    Ok(verdict.total())
}
