//! What a process knows: the rules of `src/outbox/flow`, for one topic and one broker.

mod claim;
mod tenure;
mod topic;

pub use claim::{Claim, Slot, Slots};
pub use tenure::Tenure;

use crate::database::{End, Token};
use crate::seqs::Seq;
use crate::setup::Setup;

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// It takes itself for the lane's owner.
    pub tenure: Option<Tenure>,
    /// Claims of tenures that it lost, with something in flight or unsettled.
    pub late: Vec<Claim>,
}

impl Process {
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.tenure.iter().flat_map(|tenure| &tenure.claims).chain(&self.late)
    }

    pub fn claims_mut(&mut self) -> impl Iterator<Item = &mut Claim> {
        self.tenure.iter_mut().flat_map(|tenure| &mut tenure.claims).chain(&mut self.late)
    }

    /// It learns that the lane is somebody else's.
    pub fn lose(&mut self) {
        if let Some(tenure) = self.tenure.take() {
            self.late.extend(tenure.abandon());
        }
    }

    /// Events with such a slot.
    pub fn find(&self, test: impl Fn(Slot) -> bool) -> Vec<(Token, Seq)> {
        let slots = self.claims().flat_map(|claim| claim.slots.iter().map(|slot| (claim.token, slot)));
        slots.filter(|(_, (_, slot))| test(*slot)).map(|(token, (seq, _))| (token, seq)).collect()
    }

    pub fn is_stalled(&self) -> bool {
        self.claims().any(|claim| claim.slots.iter().any(|(_, slot)| slot == Slot::Stalled))
    }

    pub fn slot_mut(&mut self, token: Token, seq: Seq) -> Option<&mut Slot> {
        self.claims_mut().find(|claim| claim.token == token)?.slots.get_mut(seq)
    }

    /// A publish has its outcome.
    pub fn end(&mut self, setup: &Setup, token: Token, seq: Seq, end: End) {
        let own =
            self.tenure.as_mut().filter(|tenure| tenure.claims.iter().any(|claim| claim.token == token));
        match own {
            Some(tenure) => tenure.end(setup, token, seq, end),
            None => {
                if let Some(slot) = self.slot_mut(token, seq) {
                    *slot = Slot::Ended(end);
                }
            }
        }
    }
}
