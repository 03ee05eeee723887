//! Two states that a producer does not leave by itself and a new one is not in. Pure; told the time.
//!
//! It takes no record any more while its brokers answer. Seen with librdkafka 2.x and idempotence on after a broker stood
//! still for a minute: requests in flight time out, the client waits for a state that never comes, and each record of
//! every topic ends overdue, without a fatal error.
//!
//! It knows no broker that is still there. A client forgets `bootstrap.servers` for the addresses that the cluster tells,
//! and is to come back to the list when none of those answers. Seen with librdkafka 2.12: it does not where one of the
//! list was down at first, for it miscounts what is down, and asks addresses that are gone for ever.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
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
    /// When the first question was asked that no broker answered, if none has answered one since.
    cut_off: Mutex<Option<Instant>>,
}

impl Stall {
    pub(crate) fn new(now: Instant) -> Stall {
        Stall { born: now, silent: AtomicU32::new(0), cut_off: Mutex::new(None) }
    }

    /// A batch ended: with an answer to some record, or with none.
    pub(crate) fn batch(&self, answered: bool) {
        if answered {
            self.silent.store(0, Ordering::Relaxed);
            self.answered();
        } else {
            self.silent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A broker has answered at `now`. Whether the client is stuck all the same.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        self.silent.load(Ordering::Relaxed) >= SILENT_BATCHES
            && now.saturating_duration_since(self.born) >= YOUNG
    }

    /// A broker has answered.
    pub(crate) fn answered(&self) {
        *self.cut_off.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// At `now` no broker has answered what was `asked` then. Whether that has been so for `limit`.
    pub(crate) fn is_cut_off(&self, asked: Instant, now: Instant, limit: Duration) -> bool {
        let mut since = self.cut_off.lock().unwrap_or_else(PoisonError::into_inner);
        now.saturating_duration_since(*since.get_or_insert(asked)) >= limit
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

    #[test]
    fn cut_off_is_who_had_no_answer_for_the_whole_time() {
        let now = Instant::now();
        let (stall, limit) = (Stall::new(now), Duration::from_secs(10));
        let at = |seconds| now + Duration::from_secs(seconds);
        assert!(!stall.is_cut_off(at(100), at(105), limit));
        assert!(!stall.is_cut_off(at(106), at(109), limit));
        assert!(stall.is_cut_off(at(109), at(110), limit));
        stall.answered();
        assert!(!stall.is_cut_off(at(111), at(116), limit), "an answer in between");
        stall.batch(true);
        assert!(!stall.is_cut_off(at(117), at(122), limit), "a confirm in between");
    }
}
