//! The breaker of a link. Pure: told what happened and when, it says whether the link may be used and when
//! to try again.
//!
//! Closed: batches go through. Open: nothing goes through; at `retry_at` the link probes (or connects), and
//! only a success closes it again. So an outage of any length costs one try every [`REOPEN`]`.max`, and no
//! event an attempt.

use std::time::{Duration, Instant};

use outrider_broker::Cause;

use crate::actors::reasons::Reasons;
use crate::outbox::retry::Backoff;

/// Time between two tries while open. The maximum is how long a broker that came back is waited for.
pub(super) const REOPEN: Backoff = Backoff { base: Duration::from_millis(250), max: Duration::from_secs(5) };

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Breaker {
    Closed,
    Open { cause: Cause, since: Instant, failures: u32, retry_at: Instant, said: Reasons },
}

impl Breaker {
    /// A link starts without a connection.
    pub(super) fn connecting(now: Instant) -> Self {
        let cause = Cause::broker(outrider_broker::ErrorClass::Local, "not connected yet");
        Breaker::Open { cause, since: now, failures: 0, retry_at: now, said: Reasons::default() }
    }

    #[cfg(test)]
    fn closed(&self) -> bool {
        matches!(self, Breaker::Closed)
    }

    /// Trouble that concerns the whole broker. `jitter` in `0.0..=1.0`. Returns true if this is news: it opens now,
    /// or for a reason that it was not open for before.
    pub(super) fn trouble(&mut self, cause: Cause, now: Instant, jitter: f64) -> bool {
        let (since, failures, mut said) = match self {
            Breaker::Closed => (now, 0, Reasons::default()),
            Breaker::Open { since, failures, said, .. } => (*since, *failures, std::mem::take(said)),
        };
        let failures = failures.saturating_add(1);
        let news = said.is_news(&cause.text);
        let retry_at = now + REOPEN.delay(failures, jitter);
        *self = Breaker::Open { cause, since, failures, retry_at, said };
        news
    }

    /// A probe or a connect succeeded. Returns how long it was open, if it was.
    pub(super) fn success(&mut self, now: Instant) -> Option<Duration> {
        match std::mem::replace(self, Breaker::Closed) {
            Breaker::Closed => None,
            Breaker::Open { since, .. } => Some(now.saturating_duration_since(since)),
        }
    }
}

#[cfg(test)]
mod tests {
    use outrider_broker::ErrorClass;

    use super::*;

    fn down(text: &str) -> Cause {
        Cause::broker(ErrorClass::Unreachable, text)
    }

    #[test]
    fn opens_once_and_says_so_once_per_reason() {
        let now = Instant::now();
        let mut breaker = Breaker::Closed;
        assert!(breaker.trouble(down("refused"), now, 1.0));
        assert!(!breaker.trouble(down("refused"), now + Duration::from_secs(1), 1.0));
        assert!(breaker.trouble(down("name unknown"), now + Duration::from_secs(2), 1.0));
        assert!(!breaker.trouble(down("refused"), now + Duration::from_secs(3), 1.0), "they take turns");
        assert!(!breaker.closed());
        assert_eq!(breaker.success(now + Duration::from_secs(60)), Some(Duration::from_secs(60)));
        assert!(breaker.closed());
        assert_eq!(breaker.success(now), None);
        assert!(breaker.trouble(down("refused"), now + Duration::from_secs(90), 1.0), "a new outage");
    }

    #[test]
    fn tries_again_later_and_later_up_to_the_maximum() {
        let now = Instant::now();
        let mut breaker = Breaker::connecting(now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            breaker.trouble(down("x"), now, 1.0);
            let Breaker::Open { retry_at, .. } = breaker else { panic!("closed by trouble") };
            waits.push((retry_at - now).as_millis());
        }
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 5000, 5000, 5000]);
    }
}
