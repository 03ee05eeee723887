//! What a check covers: the events, what may go wrong and how often, and which guard is missing.

use crate::seqs::{Seq, Seqs};

/// Most keys of a model.
pub const KEYS: usize = 2;

/// A rule of the protocol that a check can do without, to show what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// CLAIM asks whether the lane is still the sender's, and its lease not over.
    ClaimOwnership,
    /// CLAIM locks the lane's row, so that TAKE waits for it.
    LaneLock,
    /// CLAIM scans from the floor, below which nothing can appear any more, and not from the highest `seq` claimed.
    Floor,
    /// CLAIM parks what stands behind a held row of its key.
    KeyBlock,
    /// SETTLE FAILED writes only under a claim row that still stands.
    ClaimToken,
    /// Nothing is handed over whose lease left is shorter than publish deadline + margin.
    LeaseCheck,
    /// An event waits until every earlier one of its key that its owner holds has ended, and ends with it if that failed.
    HandOverInTurn,
    /// What failed is settled before the next CLAIM.
    SettleBeforeClaim,
    /// What failed is settled in the order of claims, so that no event is parked before those that it stands behind are
    /// written back.
    OldestFirst,
    /// RECLAIM and SETTLE FAILED give an event back as held if its key has held rows.
    BackAsHeld,
    /// RECLAIM is a statement of its own after TAKE.
    ReclaimAfterTake,
    /// ORPHANS looks for parked rows without a head.
    Orphans,
    /// Only a confirm settles as sent.
    ConfirmBeforeSent,
}

/// How often things may go wrong in one history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Faults {
    /// A process dies. It starts again without memory; what it had handed over may still arrive.
    pub crashes: u8,
    /// A publish is refused, not sent, or ends unknown; or the broker's breaker opens.
    pub troubles: u8,
    /// A process is stopped between its look at the lease and the hand-over.
    pub stalls: u8,
    /// A CLAIM has read what it reads, and its commit takes long.
    pub slow_claims: u8,
}

/// What a check covers.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The key of each event, in the order of `seq`. All are of one topic.
    pub keys: Vec<u8>,
    /// The `limit`s that a CLAIM may have.
    pub limits: Vec<usize>,
    /// Claims that an owner may have unsettled.
    pub claims_in_flight: usize,
    pub faults: Faults,
    /// The events are committed before anything else happens. Else writers come and go.
    pub written: bool,
    /// A publish may arrive long after its deadline. Else it arrives before the end of the lease that it was handed over
    /// under, or never.
    pub outlives_deadline: bool,
    /// How many processes there are: 1 or 2.
    pub replicas: usize,
    /// Guards that are left out.
    pub without: Vec<Guard>,
}

impl Setup {
    pub fn has(&self, guard: Guard) -> bool {
        !self.without.contains(&guard)
    }

    /// The same without a guard.
    #[must_use]
    pub fn without(mut self, guard: Guard) -> Self {
        self.without.push(guard);
        self
    }

    pub fn events(&self) -> impl Iterator<Item = Seq> + use<> {
        (1..).take(self.keys.len())
    }

    pub fn key(&self, seq: Seq) -> usize {
        self.keys.get(usize::from(seq) - 1).copied().map_or(0, usize::from)
    }

    /// The other events of this one's key that are before it.
    pub fn before(&self, seq: Seq) -> Seqs {
        (1..seq).filter(|earlier| self.key(*earlier) == self.key(seq)).collect()
    }

    /// All events of a key.
    pub fn of_key(&self, key: usize) -> Seqs {
        self.events().filter(|seq| self.key(*seq) == key).collect()
    }
}
