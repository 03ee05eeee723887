//! When a lane's lease is renewed, and for how long. Pure; the cycle sends the statements.
//!
//! A lease that should be longer is renewed at once, for a longer publish deadline waits for it; one that may be shorter
//! is renewed at its time, and never to an end before that of a publish which is out.
//!
//! Invariant (held by `tests`): a publish that was handed over inside the lease ends inside it, however the lease changes
//! meanwhile.

use std::time::Duration;

use crate::outbox::lease::{LEASE_MARGIN, Lease, Moment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renewal {
    /// What the next one should be.
    wanted: Duration,
    /// What was asked for last.
    asked: Duration,
}

impl Renewal {
    pub(super) fn new(lease: Duration) -> Self {
        Renewal { wanted: lease, asked: lease }
    }

    /// The lease should have this length from now on.
    pub(super) fn want(&mut self, lease: Duration) {
        self.wanted = lease;
    }

    /// Whether to renew now.
    pub(super) fn is_due(&self, lease: &Lease, now: Moment) -> bool {
        now >= lease.renew_at() || self.wanted > self.asked
    }

    /// The length to ask for now. `out_until` is when the last publish that is out has ended.
    pub(super) fn ask(&mut self, now: Moment, out_until: Moment) -> Duration {
        let out = out_until.after(LEASE_MARGIN).since(now);
        self.asked = self.wanted.max(out);
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::outbox::pace::{self, Bounds};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(since: u64) -> Moment {
        Moment::from_clock(ms(since))
    }

    #[test]
    fn a_longer_lease_is_asked_for_at_once_and_a_shorter_one_in_time() {
        let mut renewal = Renewal::new(ms(15_000));
        let lease = Lease::new(at(0), renewal.ask(at(0), Moment::ZERO));
        assert!(!renewal.is_due(&lease, at(4_999)) && renewal.is_due(&lease, at(5_000)));
        renewal.want(ms(30_000));
        assert!(renewal.is_due(&lease, at(1)));
        assert_eq!(renewal.ask(at(1), Moment::ZERO), ms(30_000));
        let lease = Lease::new(at(1), ms(29_999));
        assert!(!renewal.is_due(&lease, at(2)), "a reply that is a tick short is no reason");
        renewal.want(ms(15_000));
        assert!(!renewal.is_due(&lease, at(9_999)));
        assert_eq!(renewal.ask(at(10_001), at(9_000)), ms(15_000));
    }

    #[test]
    fn a_lease_never_becomes_shorter_than_what_is_out() {
        let mut renewal = Renewal::new(ms(15_000));
        assert_eq!(renewal.ask(at(10_000), at(27_000)), ms(17_500));
        assert_eq!(renewal.ask(at(26_000), at(27_000)), ms(15_000));
    }

    proptest! {
        // An owner measures, renews and hands over at any time. `until` is the end that the database knows.
        #[test]
        fn what_is_handed_over_ends_inside_the_lease(
            steps in proptest::collection::vec((1u64..4_000, 0u64..20_000, 0u64..50), 1..200),
        ) {
            let leases = Bounds { min: ms(15_000), max: ms(60_000) };
            let deadlines = Bounds { min: ms(8_000), max: ms(30_000) };
            let mut renewal = Renewal::new(leases.min);
            let (mut now, mut out_until) = (at(0), Moment::ZERO);
            let mut asked = renewal.ask(now, out_until);
            let mut lease = Lease::new(now, asked);
            let mut until = now.after(asked);
            for (wait, p99, way) in steps {
                now = now.after(ms(wait));
                let p99 = Some(ms(p99));
                let wanted = pace::deadline(deadlines, p99, leases.max);
                renewal.want(pace::lease(leases, p99, wanted));
                if renewal.is_due(&lease, now) {
                    asked = renewal.ask(now, out_until);
                    lease = Lease::new(now, asked);
                    // The statement takes its time, so the database's end is later than ours, never earlier.
                    until = now.after(ms(way)).after(asked);
                }
                let deadline = wanted.min(pace::covered(asked)).max(deadlines.min);
                if lease.allows(now, deadline) {
                    out_until = out_until.max(now.after(deadline));
                }
                prop_assert!(out_until <= now || out_until.after(LEASE_MARGIN) <= until);
            }
        }
    }
}
