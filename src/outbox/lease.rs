//! Leases in time: how long an owner may still act. Pure; the clock is read elsewhere.

use std::time::Duration;

/// A point on a monotonic clock that also runs while the machine is suspended (`CLOCK_BOOTTIME`), so
/// that a lease does not look fresh after a laptop's nap or a virtual machine's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The clock's own zero.
    pub const ZERO: Moment = Moment(Duration::ZERO);

    pub const fn from_clock(since_boot: Duration) -> Self {
        Moment(since_boot)
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// `self + duration`, at the clock's end where that overflows.
    pub fn after(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }

    /// `self - duration`, not before the clock's zero.
    pub fn before(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_sub(duration))
    }
}

/// Kept between the end of the last publish and the end of the lease: covers the time that a statement
/// is on its way and clocks that tick at slightly different rates. Doubling it asks for longer leases.
pub const LEASE_MARGIN: Duration = Duration::from_millis(500);

/// The owner's view of its right to publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    ends: Moment,
    renew_at: Moment,
}

impl Lease {
    /// `asked` is read before the statement that returned `left` is sent: the lease may have begun as
    /// early as that.
    pub fn new(asked: Moment, left: Duration) -> Self {
        Lease { ends: asked.after(left).before(LEASE_MARGIN), renew_at: asked.after(left / 3) }
    }

    /// When to renew: a third of the lease after it was got.
    pub fn renew_at(&self) -> Moment {
        self.renew_at
    }

    /// Whether a publish that is handed over now and ends within `deadline` ends inside the lease.
    pub fn allows(&self, now: Moment, deadline: Duration) -> bool {
        now.after(deadline) < self.ends
    }

    pub fn over(&self, now: Moment) -> bool {
        now >= self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_clock(Duration::from_millis(ms))
    }

    #[test]
    fn a_publish_must_end_before_the_lease_and_its_margin() {
        let lease = Lease::new(at(1_000), Duration::from_secs(15));
        let deadline = Duration::from_secs(8);
        assert_eq!(lease.renew_at(), at(6_000));
        assert!(lease.allows(at(7_499), deadline));
        assert!(!lease.allows(at(7_500), deadline));
        assert!(!lease.over(at(15_499)));
        assert!(lease.over(at(15_500)));
    }

    #[test]
    fn absurd_durations_saturate() {
        let lease = Lease::new(at(1), Duration::MAX);
        assert!(lease.allows(at(2), Duration::from_secs(1)));
        assert!(!Lease::new(at(1), Duration::ZERO).allows(at(1), Duration::ZERO));
    }
}
