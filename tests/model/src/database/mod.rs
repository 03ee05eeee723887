//! The tenant's database: rows, and each statement of `src/store/sql` as one step on them.
//!
//! A statement sees one snapshot and is done at once, except CLAIM, which may be slow: [`Database::scan`] is its
//! snapshot, [`Database::put`] its end.

mod claim;
mod lane;
mod settle;

pub use claim::{Ask, Scan};

use crate::seqs::{MOST, Seq, Seqs};
use crate::setup::{Guard, Setup};

/// Which of the two processes.
pub type Who = usize;

/// Names a claim. A name that nobody knows any more is used again, which keeps the number of states finite.
pub type Token = u8;

/// An event's row in `delivery`, and what is before and after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Row {
    #[default]
    Unwritten,
    /// It has its `seq` and its transaction is open: nobody sees it.
    Open,
    /// `hold` 0.
    Ready,
    /// `hold` 1: due now or later, after a failure or because its head left.
    Waiting,
    /// `hold` 2.
    Parked,
    /// Settled as sent: the row is deleted.
    Gone,
}

impl Row {
    fn is_held(self) -> bool {
        matches!(self, Row::Waiting | Row::Parked)
    }

    fn is_there(self) -> bool {
        matches!(self, Row::Ready | Row::Waiting | Row::Parked)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    pub owner: Option<Who>,
    /// `until` is in the future.
    pub live: bool,
}

/// A batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimRow {
    pub token: Token,
    pub seqs: Seqs,
}

/// A CLAIM that has read and is not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Running {
    /// Who waits for its answer. Nobody, if that process died.
    pub by: Option<Who>,
    pub token: Token,
    pub scan: Scan,
}

/// A TAKE that is also a RECLAIM and waits for the lane's row, with the claims that its snapshot has.
/// Only without [`Guard::ReclaimAfterTake`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queued {
    pub by: Who,
    pub snapshot: Vec<Token>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Database {
    pub rows: [Row; MOST],
    pub lane: Lane,
    /// In the order of their tokens.
    pub claims: Vec<ClaimRow>,
    pub running: Option<Running>,
    pub queued: Option<Queued>,
}

/// How an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    Sent,
    /// Refused or unknown: again later.
    Failed,
    /// Never handed over, or the broker did not take it.
    Released,
    /// Behind one of its key that failed.
    Blocked,
}

impl Database {
    pub fn row(&self, seq: Seq) -> Row {
        self.rows[usize::from(seq) - 1]
    }

    pub fn set(&mut self, seq: Seq, row: Row) {
        self.rows[usize::from(seq) - 1] = row;
    }

    /// Events of the model with such a row.
    pub fn with(&self, test: impl Fn(Row) -> bool) -> Seqs {
        (1..).zip(self.rows).filter(|(_, row)| test(*row)).map(|(seq, _)| seq).collect()
    }

    fn held(&self) -> Seqs {
        self.with(Row::is_held)
    }

    /// What the claim rows with these tokens list.
    pub fn flying(&self, live: &[Token]) -> Seqs {
        let claims = self.claims.iter().filter(|claim| live.contains(&claim.token));
        claims.fold(Seqs::NONE, |all, claim| all.union(claim.seqs))
    }

    /// An event comes back without having been tried: as held, if its key has held rows, or a follower would be promoted
    /// before it.
    fn back(&mut self, setup: &Setup, seq: Seq, held: Seqs) {
        let key_is_held = setup.of_key(setup.key(seq)).overlaps(held);
        if setup.has(Guard::BackAsHeld) && key_is_held && self.row(seq) == Row::Ready {
            self.set(seq, Row::Waiting);
        }
    }
}
