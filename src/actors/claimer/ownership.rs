//! Whether this replica owns the lane, and whether it should. Holds the state; the cycle sends the statements.

use std::time::Duration;

use uuid::Uuid;

use crate::outbox::lease::{Lease, Moment};
use crate::outbox::share::{Decision, Holder, LaneView, Share, decide};

/// How often a replica that does not own the lane looks at it.
pub(super) const LOOK: Duration = Duration::from_secs(1);

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
    since: Moment,
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
            since: now,
            reclaimed: false,
            doubt: false,
            giving: false,
            sweep_at: now.after(SWEEP),
        }
    }

    /// Whether the lane should go to the replica whose share it is. `let_lie`: see [`LaneView`].
    pub(super) fn should_give(&self, now: Moment, share: Share, let_lie: Option<Moment>) -> bool {
        let lane = LaneView { share, holder: Holder::Me { since: self.since }, let_lie };
        decide(&lane, now) == Decision::Give
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
    pub(super) fn looked(&mut self, now: Moment, left: Duration, share: Share) -> bool {
        // A lease that ends sooner than the next look is worth waiting for exactly.
        self.look_at = now.after(if left.is_zero() { LOOK } else { left.min(LOOK) });
        if !left.is_zero() {
            self.free_since = None;
            return false;
        }
        let since = *self.free_since.get_or_insert(now);
        let lane = LaneView { share, holder: Holder::Nobody { since }, let_lie: None };
        decide(&lane, now) == Decision::Take
    }
}
