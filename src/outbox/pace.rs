//! How long a lease and a publish may take: both follow what was measured, within bounds. Pure; the clock is read
//! elsewhere.
//!
//! Measured is the time from claim to settle; p99 is what 99 of 100 events stay below. The publish deadline is twice
//! p99. The lease is at least twice p99, and so long that two thirds of it are more than the deadline and
//! [`LEASE_MARGIN`]: its owner renews each third, so that much is always left.
//!
//! Invariants (held by `tests`): whatever was measured, both stay within their bounds and the lease covers the deadline.

use std::time::Duration;

use crate::outbox::lease::{LEASE_MARGIN, Moment};

/// The least and the most that a time may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: Duration,
    /// At least `min`.
    pub max: Duration,
}

impl Bounds {
    /// A time that adapts to nothing.
    pub const fn fixed(time: Duration) -> Self {
        Bounds { min: time, max: time }
    }

    fn limit(self, time: Duration) -> Duration {
        time.min(self.max).max(self.min)
    }
}

/// What is allowed is so many times p99. Twice: a broker that became slower is measured at the deadline that it misses,
/// which has to grow by more than it was missed by.
const ROOM: u32 = 2;

/// The tick of [`covered`] and [`needed`]: what makes "more than" of "as much as". The database counts in smaller ones.
const TICK: Duration = Duration::from_millis(1);

/// The publish deadline for a measured p99: never more than what the longest lease covers, so that it can be kept.
pub fn deadline(bounds: Bounds, p99: Option<Duration>, longest_lease: Duration) -> Duration {
    let wanted = p99.unwrap_or_default().saturating_mul(ROOM);
    bounds.limit(wanted.min(covered(longest_lease)))
}

/// The lease for a measured p99 and a publish deadline.
pub fn lease(bounds: Bounds, p99: Option<Duration>, deadline: Duration) -> Duration {
    let wanted = p99.unwrap_or_default().saturating_mul(ROOM);
    bounds.limit(wanted.max(needed(deadline)))
}

/// The longest publish deadline that a lease covers whenever in its first third it is used.
pub fn covered(lease: Duration) -> Duration {
    (lease - lease / 3).saturating_sub(LEASE_MARGIN + TICK)
}

/// The shortest lease that covers a publish deadline.
pub fn needed(deadline: Duration) -> Duration {
    let left = deadline.saturating_add(LEASE_MARGIN + TICK);
    left.saturating_add(left / 2).saturating_add(TICK)
}

/// How long p99 looks back at least; at most twice that. Half of it would forget a slow broker between two of its
/// pauses, twice as much would keep a long lease, and so a slow take-over, for a minute after it became fast.
const WINDOW: Duration = Duration::from_secs(15);

/// Bounds of the counts: powers of the fourth root of 2 from 1 ms on, so that p99 is at most a fifth too long, up to
/// four hours.
const COUNTS: usize = 96;

/// What was measured lately. With no new measure the last p99 stands, however old: a broker that is rarely used is not
/// taken for a fast one each time.
#[derive(Clone, Debug)]
pub struct Latency {
    recent: [u64; COUNTS],
    before: [u64; COUNTS],
    /// When `recent` began.
    since: Moment,
    p99: Option<Duration>,
}

impl Default for Latency {
    fn default() -> Self {
        Latency { recent: [0; COUNTS], before: [0; COUNTS], since: Moment::ZERO, p99: None }
    }
}

impl Latency {
    /// So many events took this long.
    pub fn record(&mut self, now: Moment, took: Duration, events: usize) {
        if events == 0 {
            return;
        }
        let age = now.since(self.since);
        if age >= WINDOW {
            let recent = std::mem::replace(&mut self.recent, [0; COUNTS]);
            self.before = if age >= 2 * WINDOW { [0; COUNTS] } else { recent };
            self.since = now;
        }
        let count = &mut self.recent[place(took)];
        *count = count.saturating_add(events as u64);
        self.p99 = self.quantile();
    }

    /// What 99 of 100 events stayed below; `None` before the first.
    pub fn p99(&self) -> Option<Duration> {
        self.p99
    }

    fn quantile(&self) -> Option<Duration> {
        let counts = || self.recent.iter().zip(&self.before).map(|(one, other)| one.saturating_add(*other));
        let total = counts().fold(0u64, u64::saturating_add);
        let beyond = total / 100;
        let mut seen = 0u64;
        let found = counts().position(|count| {
            seen = seen.saturating_add(count);
            seen > 0 && seen >= total - beyond
        });
        found.map(bound)
    }
}

/// Where a time is counted: the first bound that it does not exceed.
fn place(took: Duration) -> usize {
    let quarters = (took.as_secs_f64() * 1_000.0).max(1.0).log2() * 4.0;
    // Rounding, not truncation: a bound is counted at itself.
    let place = (quarters - 1e-9).ceil().max(0.0);
    (place as usize).min(COUNTS - 1)
}

fn bound(place: usize) -> Duration {
    Duration::from_secs_f64(0.001 * (place as f64 / 4.0).exp2())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Bounds = Bounds { min: Duration::from_secs(15), max: Duration::from_secs(60) };
    const DEADLINE: Bounds = Bounds { min: Duration::from_secs(8), max: Duration::from_secs(15) };

    fn at(ms: u64) -> Moment {
        Moment::from_clock(Duration::from_millis(ms))
    }

    /// Lease and deadline in milliseconds.
    fn pair(p99_ms: u64) -> (u128, u128) {
        let p99 = Some(Duration::from_millis(p99_ms));
        let deadline = deadline(DEADLINE, p99, LEASE.max);
        (lease(LEASE, p99, deadline).as_millis(), deadline.as_millis())
    }

    #[test]
    fn both_follow_the_measured_time_within_their_bounds() {
        for (p99_ms, lease_ms, deadline_ms) in [
            (5, 15_000, 8_000),
            (4_000, 15_000, 8_000),
            (5_000, 15_752, 10_000),
            (7_000, 21_752, 14_000),
            (8_000, 23_252, 15_000),
            (20_000, 40_000, 15_000),
            (500_000, 60_000, 15_000),
        ] {
            assert_eq!(pair(p99_ms), (lease_ms, deadline_ms), "{p99_ms}");
        }
        let nothing = deadline(DEADLINE, None, LEASE.max);
        assert_eq!((lease(LEASE, None, nothing), nothing), (LEASE.min, DEADLINE.min), "nothing measured");
    }

    #[test]
    fn a_deadline_stops_where_the_longest_lease_does() {
        let fixed = Bounds::fixed(Duration::from_secs(15));
        let deadline = deadline(DEADLINE, Some(Duration::from_secs(20)), fixed.max);
        assert_eq!(deadline, Duration::from_millis(9_499));
        assert_eq!(lease(fixed, Some(Duration::from_secs(20)), deadline), fixed.max);
    }

    #[test]
    fn the_slowest_event_of_a_hundred_does_not_count_and_the_second_does() {
        let mut latency = Latency::default();
        assert_eq!(latency.p99(), None);
        latency.record(at(0), Duration::from_millis(4), 99);
        latency.record(at(0), Duration::from_secs(64), 1);
        assert_eq!(latency.p99(), Some(Duration::from_millis(4)));
        latency.record(at(0), Duration::from_secs(64), 1);
        assert!(latency.p99().unwrap() >= Duration::from_secs(64));
    }

    #[test]
    fn what_is_old_is_forgotten_once_there_is_something_new() {
        let mut latency = Latency::default();
        let (slow, fast) = (Duration::from_secs(4), Duration::from_millis(4));
        latency.record(at(0), slow, 10);
        latency.record(at(15_000), fast, 10);
        assert!(latency.p99().unwrap() >= slow, "the window before counts");
        latency.record(at(29_999), fast, 10);
        assert!(latency.p99().unwrap() >= slow);
        latency.record(at(30_000), fast, 10);
        assert_eq!(latency.p99(), Some(fast));
        latency.record(at(31_000), slow, 10);
        latency.record(at(10_000_000), fast, 1);
        assert_eq!(latency.p99(), Some(fast), "after a long silence the first word counts");
    }

    #[test]
    fn absurd_times_do_not_overflow() {
        let mut latency = Latency::default();
        latency.record(at(0), Duration::MAX, usize::MAX);
        latency.record(at(0), Duration::MAX, usize::MAX);
        let p99 = latency.p99();
        assert!(p99.unwrap() > Duration::from_secs(3_600));
        assert_eq!(deadline(DEADLINE, Some(Duration::MAX), Duration::MAX), DEADLINE.max);
        assert_eq!(lease(LEASE, Some(Duration::MAX), Duration::MAX), LEASE.max);
        assert_eq!(covered(Duration::ZERO), Duration::ZERO);
        assert!(needed(Duration::MAX) == Duration::MAX);
    }

    proptest! {
        // Whatever the config allows and whatever was measured: within the bounds, and two thirds of the lease are more
        // than the deadline and the margin.
        #[test]
        fn the_lease_covers_the_deadline(
            deadline_min in 50u64..100_000, deadline_more in 0u64..100_000, lease_extra in 0u64..100_000,
            lease_more in 0u64..1_000_000, p99 in proptest::option::of(0u64..10_000_000),
        ) {
            let ms = Duration::from_millis;
            let deadlines = Bounds { min: ms(deadline_min), max: ms(deadline_min + deadline_more) };
            // The rule of the config for the lower bounds.
            let min = (deadlines.min + LEASE_MARGIN) * 3 / 2 + ms(1 + lease_extra);
            let leases = Bounds { min, max: min + ms(lease_more) };
            let p99 = p99.map(ms);
            let deadline = deadline(deadlines, p99, leases.max);
            let lease = lease(leases, p99, deadline);
            prop_assert!(deadlines.min <= deadline && deadline <= deadlines.max);
            prop_assert!(leases.min <= lease && lease <= leases.max);
            prop_assert!(lease * 2 / 3 > deadline + LEASE_MARGIN, "{lease:?} {deadline:?}");
            let twice = p99.unwrap_or_default() * 2;
            prop_assert!(lease >= twice.min(leases.max), "twice p99, as far as it may");
        }

        // p99 is never below what 99 of 100 stayed below, nor a fifth above it.
        #[test]
        fn the_measure_is_close(mut times in proptest::collection::vec(1_000u64..3_600_000_000, 1..400)) {
            let mut latency = Latency::default();
            for time in &times {
                latency.record(at(0), Duration::from_micros(*time), 1);
            }
            times.sort_unstable();
            let exact = times[times.len() - times.len() / 100 - 1] as f64;
            let measured = latency.p99().unwrap().as_secs_f64() * 1e6;
            prop_assert!(exact <= measured * 1.000_001 && measured <= exact * 1.2, "{exact} {measured}");
        }
    }
}
