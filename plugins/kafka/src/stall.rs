//! A producer that takes no record any more while its brokers answer.
//!
//! Seen with librdkafka 2.x and idempotence on after a broker stood still for a minute: requests in flight time out, the
//! client waits for a state that never comes, and each record of every topic ends overdue, without a fatal error. A new
//! client goes on at once. Pure; told the time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// So many batches in a row without an answer, the last ones of a broker that answers other questions. One alone may be a
/// hiccup; more would let events wait for longer.
const SILENT_BATCHES: u32 = 2;

/// A younger client is given time: where only one topic is published to and that has no leader, a new client changes
/// nothing, and this is how often it is tried.
const YOUNG: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Stall {
    born: Instant,
    silent: AtomicU32,
}

impl Stall {
    pub(crate) fn new(now: Instant) -> Stall {
        Stall { born: now, silent: AtomicU32::new(0) }
    }

    /// A batch ended: with an answer to some record, or with none.
    pub(crate) fn batch(&self, answered: bool) {
        if answered {
            self.silent.store(0, Ordering::Relaxed);
        } else {
            self.silent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A broker has answered at `now`. Whether the client is stuck all the same.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.silent.load(Ordering::Relaxed) >= SILENT_BATCHES
            && now.saturating_duration_since(self.born) >= YOUNG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_is_who_is_silent_twice_and_not_young() {
        let born = Instant::now();
        let stall = Stall::new(born);
        let later = born + YOUNG;
        assert!(!stall.is_stuck(later));
        stall.batch(false);
        assert!(!stall.is_stuck(later), "once is a hiccup");
        stall.batch(false);
        assert!(stall.is_stuck(later));
        assert!(!stall.is_stuck(later - Duration::from_millis(1)), "young");
        stall.batch(true);
        stall.batch(false);
        assert!(!stall.is_stuck(later), "an answer in between");
    }
}
