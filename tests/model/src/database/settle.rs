//! What became of events: SETTLE SENT, SETTLE FAILED, ORPHANS.

use super::{Database, End, Row, Token};
use crate::seqs::{Seq, Seqs};
use crate::setup::{Guard, Setup};

impl Database {
    /// SETTLE SENT. Events that left held let the parked rows of their key go on.
    pub fn settle_sent(&mut self, setup: &Setup, sent: Seqs, done: Option<Token>) {
        self.claims.retain(|claim| Some(claim.token) != done);
        let there = sent.iter().filter(|seq| self.row(*seq).is_there()).collect::<Seqs>();
        let heads: Vec<usize> =
            there.iter().filter(|seq| self.row(*seq).is_held()).map(|seq| setup.key(seq)).collect();
        there.iter().for_each(|seq| self.set(seq, Row::Gone));
        for seq in self.with(|row| row == Row::Parked).iter() {
            if heads.contains(&setup.key(seq)) {
                self.set(seq, Row::Waiting);
            }
        }
    }

    /// SETTLE FAILED. Returns the events for which it was written.
    pub fn settle_failed(&mut self, setup: &Setup, token: Token, ends: &[(Seq, End)], last: bool) -> Seqs {
        let named: Seqs = ends.iter().map(|(seq, _)| *seq).collect();
        let own = self.flying(&[token]);
        let (held, mut written) = (self.held(), Seqs::NONE);
        for (seq, end) in ends {
            let fenced = !own.contains(*seq) && setup.has(Guard::ClaimToken);
            if fenced || !self.row(*seq).is_there() {
                continue;
            }
            written.insert(*seq);
            match end {
                End::Failed | End::Sent => self.set(*seq, Row::Waiting),
                End::Blocked => self.set(*seq, Row::Parked),
                End::Released => self.back(setup, *seq, held),
            }
        }
        self.claims.retain(|claim| !(last && claim.token == token));
        for claim in self.claims.iter_mut().filter(|claim| claim.token == token) {
            claim.seqs = claim.seqs.without(named);
        }
        written
    }

    /// ORPHANS: the first parked row of a key without a head before it becomes due.
    pub fn orphans(&mut self, setup: &Setup) {
        let held = self.held();
        for seq in self.with(|row| row == Row::Parked).iter() {
            if !setup.before(seq).overlaps(held) {
                self.set(seq, Row::Waiting);
            }
        }
    }
}
