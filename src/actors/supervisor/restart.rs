//! How long a child that ended rests before it is started again. Pure.

use std::time::{Duration, Instant};

use crate::outbox::retry::Backoff;

/// Rest between two lives. The maximum is what a tenant waits whose claimer can't live.
const REST: Backoff = Backoff { base: Duration::from_millis(200), max: Duration::from_secs(30) };

/// A child that lived this long starts from the shortest rest again.
const HEALTHY: Duration = Duration::from_secs(60);

/// The lives of one child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    in_a_row: u32,
}

impl Restarts {
    /// A life from `started` to `now` ended. Returns the rest. `jitter` in `0.0..=1.0`.
    pub(super) fn ended(&mut self, started: Instant, now: Instant, jitter: f64) -> Duration {
        if now.saturating_duration_since(started) >= HEALTHY {
            self.in_a_row = 0;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        REST.delay(self.in_a_row, jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_longer_until_it_lived_a_minute() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        let rests: Vec<u128> = (0..10).map(|_| restarts.ended(start, start, 1.0).as_millis()).collect();
        assert_eq!(rests, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
        assert_eq!(restarts.ended(start, start + HEALTHY, 1.0).as_millis(), 200);
    }
}
