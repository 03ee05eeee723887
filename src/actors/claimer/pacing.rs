//! How often the database is asked for work when nothing says that there is some. Pure.

use std::time::Duration;

use crate::outbox::lease::Moment;

/// Grows from `min` to `max` while nothing is found, and falls back to `min` as soon as something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pacing {
    min: Duration,
    max: Duration,
    wait: Duration,
    next: Moment,
}

impl Pacing {
    /// Asks at once.
    pub(super) fn new(min: Duration, max: Duration) -> Self {
        Pacing { min, max, wait: min, next: Moment::ZERO }
    }

    pub(super) fn next(&self) -> Moment {
        self.next
    }

    /// The database was asked at `now`. `busy`: events were claimed since the last time.
    pub(super) fn asked(&mut self, now: Moment, busy: bool) {
        self.wait = if busy { self.min } else { (self.wait * 2).min(self.max) };
        self.next = now.after(self.wait);
    }

    /// Something may have changed: ask at once.
    pub(super) fn wake(&mut self, now: Moment) {
        self.next = self.next.min(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backs_off_while_idle_and_comes_back_at_once() {
        let mut pacing = Pacing::new(Duration::from_millis(20), Duration::from_secs(1));
        let mut now = Moment::from_clock(Duration::from_secs(10));
        let mut waits = Vec::new();
        for _ in 0..8 {
            pacing.asked(now, false);
            waits.push(pacing.next().since(now).as_millis());
            now = pacing.next();
        }
        assert_eq!(waits, [40, 80, 160, 320, 640, 1000, 1000, 1000]);
        pacing.asked(now, true);
        assert_eq!(pacing.next().since(now).as_millis(), 20);
        pacing.wake(now);
        assert_eq!(pacing.next(), now);
    }
}
