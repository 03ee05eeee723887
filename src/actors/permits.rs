//! Permits: the true bound on what is in flight. actix's mailboxes do not bound what async handlers take
//! out of them, so the right to be in flight travels with each batch instead and comes back when it is
//! settled.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one broker may have in flight, over all tenants.
///
/// Invariant: events claimed and not settled never exceed `events`; payload bytes handed over and not
/// settled never exceed `bytes` (held by `tests::never_more_than_the_bound` and, on a stalled broker, by
/// `tests/it/backpressure.rs`).
#[derive(Debug)]
pub struct Bound {
    events: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    max_events: usize,
    max_bytes: usize,
}

impl Bound {
    /// Both at least 1.
    pub fn new(max_events: usize, max_bytes: usize) -> Self {
        let max_events = max_events.clamp(1, Semaphore::MAX_PERMITS);
        let max_bytes = max_bytes.clamp(1, u32::MAX as usize);
        Bound {
            events: Arc::new(Semaphore::new(max_events)),
            bytes: Arc::new(Semaphore::new(max_bytes)),
            max_events,
            max_bytes,
        }
    }

    /// Takes the right to claim up to `most` events: as many as are free, and `None` if none is.
    pub fn try_events(&self, most: usize) -> Option<Permit> {
        let most = most.min(self.events.available_permits());
        // Somebody else may take some between the look and the taking: then try with fewer.
        (1..=most).rev().find_map(|count| take(&self.events, count)).map(Permit)
    }

    /// Waits, first come first served, until one event may be claimed. Cancel safe: loses the place in the
    /// queue and nothing else.
    pub async fn event(&self) -> Permit {
        let permit = self.events.clone().acquire_owned().await;
        Permit(permit.expect("the semaphore is never closed"))
    }

    /// Takes the right to hand over `bytes` of payload, if that much is free. An event larger than the bound
    /// counts as the whole of it, so that it travels alone instead of never.
    pub fn try_bytes(&self, bytes: usize) -> Option<Permit> {
        take(&self.bytes, bytes.clamp(1, self.max_bytes)).map(Permit)
    }

    /// Waits like [`Bound::event`] until `bytes` of payload may be handed over.
    pub async fn bytes(&self, bytes: usize) -> Permit {
        let count = u32::try_from(bytes.clamp(1, self.max_bytes)).unwrap_or(u32::MAX);
        let permit = self.bytes.clone().acquire_many_owned(count).await;
        Permit(permit.expect("the semaphore is never closed"))
    }

    /// Events in flight now, and the most there may be.
    pub fn events_in_use(&self) -> (usize, usize) {
        (self.max_events - self.events.available_permits(), self.max_events)
    }

    /// Payload bytes in flight now, and the most there may be.
    pub fn bytes_in_use(&self) -> (usize, usize) {
        (self.max_bytes - self.bytes.available_permits(), self.max_bytes)
    }
}

fn take(semaphore: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
    let count = u32::try_from(count).ok()?;
    semaphore.clone().try_acquire_many_owned(count).ok()
}

/// A number of permits; given back when dropped.
#[derive(Debug)]
pub struct Permit(OwnedSemaphorePermit);

impl Permit {
    pub fn count(&self) -> usize {
        self.0.num_permits()
    }

    /// Takes `count` out of this permit, or as many as there are.
    pub fn split(&mut self, count: usize) -> Option<Permit> {
        self.0.split(count.min(self.count())).map(Permit)
    }

    /// Puts permits of the same bound together.
    pub fn merge(&mut self, other: Permit) {
        self.0.merge(other.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_more_than_the_bound() {
        let bound = Bound::new(100, 1_000);
        let mut held: Vec<Permit> = std::iter::from_fn(|| bound.try_events(30)).collect();
        assert_eq!(held.iter().map(Permit::count).collect::<Vec<_>>(), [30, 30, 30, 10]);
        assert_eq!(bound.events_in_use(), (100, 100));
        held.truncate(1);
        assert_eq!(bound.events_in_use(), (30, 100));
        let part = held[0].split(10).expect("30 to split from");
        drop(held);
        assert_eq!(bound.events_in_use(), (10, 100));
        drop(part);
        assert_eq!(bound.events_in_use(), (0, 100));
    }

    #[test]
    fn an_event_larger_than_the_bound_takes_all_of_it() {
        let bound = Bound::new(10, 1_000);
        let small = bound.try_bytes(1).expect("free");
        assert!(bound.try_bytes(5_000).is_none());
        drop(small);
        let large = bound.try_bytes(5_000).expect("free");
        assert_eq!((large.count(), bound.bytes_in_use()), (1_000, (1_000, 1_000)));
        assert!(bound.try_bytes(0).is_none(), "even an empty payload counts");
    }
}
