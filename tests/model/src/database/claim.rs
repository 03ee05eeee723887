//! CLAIM and CLAIM DUE, in two halves: what they read, and what they write.

use super::{ClaimRow, Database, Lane, Row, Token, Who};
use crate::seqs::{Seq, Seqs};
use crate::setup::{Guard, Setup};

/// What a CLAIM asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// The first `limit` ready rows after the floor.
    Ready { limit: usize },
    /// Waiting rows. Which of them are due and within the limit is left open: any may be.
    Due(Seqs),
}

/// What a CLAIM read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scan {
    pub ask: Ask,
    pub window: Seqs,
    /// Those of the window that stand behind a held row of their key.
    pub blocked: Seqs,
    /// Events whose transactions were open: what `xmin` tells, and what is below the claim's own `xid`.
    pub open: Seqs,
    /// There was something, and the lane is the sender's.
    pub owned: bool,
}

impl Scan {
    pub fn claimed(&self) -> Seqs {
        if self.owned { self.window.without(self.blocked) } else { Seqs::NONE }
    }

    pub fn lane_lost(&self) -> bool {
        !self.window.is_empty() && !self.owned
    }
}

impl Database {
    /// CLAIM and CLAIM DUE, what they read. `after` is where the ready path starts, `live` the sender's own tokens.
    pub fn scan(&self, setup: &Setup, who: Who, ask: Ask, after: Seq, live: &[Token]) -> Scan {
        let flying = self.flying(live);
        let window: Seqs = match ask {
            Ask::Ready { limit } => {
                let ready = self.with(|row| row == Row::Ready).without(flying);
                ready.iter().filter(|seq| *seq > after).take(limit).collect()
            }
            Ask::Due(due) => due,
        };
        let passed = match ask {
            Ask::Ready { .. } => flying,
            Ask::Due(_) => flying.union(window),
        };
        let heads = if setup.has(Guard::KeyBlock) { self.held().without(passed) } else { Seqs::NONE };
        let mine = self.lane == Lane { owner: Some(who), live: true } || !setup.has(Guard::ClaimOwnership);
        Scan {
            ask,
            window,
            blocked: window.iter().filter(|seq| setup.before(*seq).overlaps(heads)).collect(),
            open: self.with(|row| row == Row::Open),
            owned: mine && !window.is_empty(),
        }
    }

    /// CLAIM and CLAIM DUE, what they write.
    pub fn put(&mut self, scan: &Scan, token: Token) {
        if !scan.owned {
            return;
        }
        let path = match scan.ask {
            Ask::Ready { .. } => Row::Ready,
            Ask::Due(_) => Row::Waiting,
        };
        for seq in scan.blocked.iter().filter(|seq| self.row(*seq) == path).collect::<Seqs>().iter() {
            self.set(seq, Row::Parked);
        }
        if !scan.claimed().is_empty() {
            self.claims.push(ClaimRow { token, seqs: scan.claimed() });
            self.claims.sort_unstable();
        }
    }
}
