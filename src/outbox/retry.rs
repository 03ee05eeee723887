//! When a failed event is tried again: exponential backoff with jitter, clamped in exponent and result.

use std::time::Duration;

/// Backoff between tries: `base`, doubled with each failure, at most `max`, with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay after the first failure. Default 500 ms; at most `max`.
    pub base: Duration,
    /// No delay is longer. Default 5 min.
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff { base: Duration::from_millis(500), max: Duration::from_secs(300) }
    }
}

/// The exponent stops here: 2^20 times any base that the config allows is beyond any `max`.
const MAX_EXPONENT: u32 = 20;

impl Backoff {
    /// The delay after failure number `failures` (1 is the first). `jitter` in `0.0..=1.0` moves it within
    /// the upper half of the step, so that events that failed together do not come back together.
    pub fn delay(&self, failures: u32, jitter: f64) -> Duration {
        let exponent = failures.saturating_sub(1).min(MAX_EXPONENT);
        let step = self.base.checked_mul(1 << exponent).unwrap_or(self.max).min(self.max);
        let jitter = if jitter.is_finite() { jitter.clamp(0.0, 1.0) } else { 1.0 };
        step.mul_f64(0.5 + jitter / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff { base: Duration::from_millis(500), max: Duration::from_secs(300) };

    #[test]
    fn doubles_up_to_the_maximum() {
        let delays: Vec<u64> =
            (1..=12).map(|n| BACKOFF.delay(n, 1.0).as_millis().try_into().expect("small")).collect();
        assert_eq!(
            delays,
            [500, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 128_000, 256_000, 300_000, 300_000]
        );
    }

    // C05: attempts that overflow an integer or a float elsewhere.
    #[test]
    fn never_overflows() {
        let absurd = Backoff { base: Duration::MAX, max: Duration::from_secs(300) };
        for failures in [0, 1, 31, 32, 63, 64, 1100, 2_000_000_000, u32::MAX] {
            for jitter in [0.0, 0.5, 1.0, f64::NAN, f64::INFINITY, -1.0] {
                for backoff in [BACKOFF, absurd] {
                    let delay = backoff.delay(failures, jitter);
                    assert!(delay <= backoff.max, "{failures} {jitter} {delay:?}");
                    assert!(delay >= backoff.base.min(backoff.max) / 2, "{failures} {jitter} {delay:?}");
                }
            }
        }
    }
}
