//! Whether this replica owns the lane, and whether it should. Holds the state; the cycle sends the statements.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::actors::fleet::Share;
use crate::outbox::lease::{Lease, Moment};

/// How often a replica that does not own the lane looks at it.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// A lane that is another replica's share is taken if that one left it free for this long.
const PATIENCE: Duration = Duration::from_secs(3);

/// How often the replica says that it lives. Three fit into the time after which it is taken for dead.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(3);

/// How often everything is scanned again, and parked rows without a head are looked for.
pub(super) const SWEEP: Duration = Duration::from_secs(60);

/// A lane that this replica owns.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) owner: Uuid,
    /// Every token tried since the last certain answer, the current one included.
    pub(super) tried: Vec<Uuid>,
    pub(super) lease: Lease,
    pub(super) since: Instant,
    /// The claims of the owner before were taken back.
    pub(super) reclaimed: bool,
    /// A reply was lost: what the database knows of us is uncertain.
    pub(super) doubt: bool,
    /// It is to be given up: nothing more is claimed.
    pub(super) giving: bool,
    pub(super) sweep_at: Moment,
}

impl Owned {
    pub(super) fn taken(owner: Uuid, lease: Lease, now: Moment) -> Self {
        Owned {
            owner,
            tried: vec![owner],
            lease,
            since: Instant::now(),
            reclaimed: false,
            doubt: false,
            giving: false,
            sweep_at: now.after(SWEEP),
        }
    }

    /// Whether the lane should go to the replica whose share it is: that one was alive after we took it, so it is
    /// no ghost of a process that was killed.
    pub(super) fn should_give(&self, share: &Share) -> bool {
        matches!(share, Share::Others { alive_at } if *alive_at > self.since)
    }
}

/// A lane that somebody else owns, or nobody.
#[derive(Debug)]
pub(super) struct Seeking {
    pub(super) look_at: Moment,
    free_since: Option<Moment>,
}

impl Seeking {
    pub(super) fn new(now: Moment) -> Self {
        Seeking { look_at: now, free_since: None }
    }

    /// A look found the lane free, or owned for `left` more. Returns whether to take it now.
    pub(super) fn looked(&mut self, now: Moment, left: Duration, share: &Share) -> bool {
        // A lease that ends sooner than the next look is worth waiting for exactly.
        self.look_at = now.after(if left.is_zero() { LOOK } else { left.min(LOOK) });
        if !left.is_zero() {
            self.free_since = None;
            return false;
        }
        let since = *self.free_since.get_or_insert(now);
        *share == Share::Mine || now.since(since) >= PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_clock(Duration::from_millis(ms))
    }

    fn others(alive_at: Instant) -> Share {
        Share::Others { alive_at }
    }

    #[test]
    fn a_free_lane_is_taken_at_once_by_its_share_and_after_a_while_by_anybody() {
        let mut seeking = Seeking::new(at(0));
        assert!(seeking.looked(at(0), Duration::ZERO, &Share::Mine));
        let ghost = others(Instant::now());
        assert!(!seeking.looked(at(1_000), Duration::from_millis(300), &ghost));
        assert_eq!(seeking.look_at, at(1_300), "looks again when the lease is over");
        assert!(!seeking.looked(at(1_300), Duration::ZERO, &ghost));
        assert!(!seeking.looked(at(4_299), Duration::ZERO, &ghost));
        assert!(seeking.looked(at(4_300), Duration::ZERO, &ghost));
    }

    #[test]
    fn a_lane_is_not_given_to_a_ghost() {
        let before = Instant::now();
        let owned = Owned::taken(Uuid::nil(), Lease::new(at(0), Duration::from_secs(15)), at(0));
        assert!(!owned.should_give(&others(before)), "it has not been alive since we took the lane");
        assert!(owned.should_give(&others(owned.since + Duration::from_millis(1))));
        assert!(!owned.should_give(&Share::Mine));
    }
}
