//! A claim in its owner's memory, from the answer of the statement to the settle.

use crate::database::{End, Token};
use crate::seqs::{MOST, Seq, Seqs};

/// Where a claimed event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Not handed over.
    Waiting,
    /// The look at the lease was passed, and then the process was stopped.
    Stalled,
    /// Handed over and on its way. `timely`: under a lease that allowed it.
    Out {
        timely: bool,
    },
    /// On its way no more, without having arrived; its owner does not know.
    Lost,
    /// The broker has it; the confirm is on its way.
    Arrived,
    Ended(End),
}

/// The unsettled events of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slots([Option<Slot>; MOST]);

impl Slots {
    pub fn get_mut(&mut self, seq: Seq) -> Option<&mut Slot> {
        self.0[usize::from(seq) - 1].as_mut()
    }

    /// In the order of `seq`.
    pub fn iter(&self) -> impl Iterator<Item = (Seq, Slot)> {
        (1..).zip(self.0).filter_map(|(seq, slot)| Some((seq, slot?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Seq, &mut Slot)> {
        (1..).zip(&mut self.0).filter_map(|(seq, slot)| Some((seq, slot.as_mut()?)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn remove(&mut self, test: impl Fn(Slot) -> bool) {
        self.0.iter_mut().filter(|slot| slot.is_some_and(&test)).for_each(|slot| *slot = None);
    }
}

impl FromIterator<(Seq, Slot)> for Slots {
    fn from_iter<I: IntoIterator<Item = (Seq, Slot)>>(slots: I) -> Self {
        let mut all = Slots::default();
        slots.into_iter().for_each(|(seq, slot)| all.0[usize::from(seq) - 1] = Some(slot));
        all
    }
}

/// A claim that is not fully settled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    pub token: Token,
    pub(super) ready_path: bool,
    /// The lane was lost over it: its row is the next owner's.
    abandoned: bool,
    pub slots: Slots,
}

impl Claim {
    pub(super) fn new(token: Token, ready_path: bool, slots: Slots) -> Self {
        Claim { token, ready_path, abandoned: false, slots }
    }

    fn ended(&self, test: impl Fn(End) -> bool) -> impl Iterator<Item = (Seq, End)> {
        self.slots.iter().filter_map(move |(seq, slot)| match slot {
            Slot::Ended(end) if test(end) => Some((seq, end)),
            _ => None,
        })
    }

    /// It has ends that the next CLAIM has to find in the database.
    pub(super) fn is_urgent(&self) -> bool {
        self.ended(|end| matches!(end, End::Failed | End::Blocked)).next().is_some()
    }

    fn is_due(&self) -> bool {
        self.is_urgent() || self.slots.iter().all(|(_, slot)| matches!(slot, Slot::Ended(_)))
    }

    /// Whether there are confirmed events to be written back.
    pub fn wants_settle_sent(&self) -> bool {
        self.is_due() && self.ended(|end| end == End::Sent).next().is_some()
    }

    /// Whether there are other ends to be written back; after what was sent.
    pub fn wants_settle_failed(&self) -> bool {
        self.is_due() && !self.wants_settle_sent() && self.ended(|end| end != End::Sent).next().is_some()
    }

    /// Takes out the confirmed events, and whether the claim's row is to go with them.
    pub fn take_sent(&mut self) -> (Seqs, bool) {
        let sent = self.ended(|end| end == End::Sent).map(|(seq, _)| seq).collect();
        self.slots.remove(|slot| slot == Slot::Ended(End::Sent));
        (sent, self.slots.is_empty() && !self.abandoned)
    }

    /// Takes out the other ends, and whether the claim's row is to go with them.
    pub fn take_failed(&mut self) -> (Vec<(Seq, End)>, bool) {
        let failed = self.ended(|end| end != End::Sent).collect();
        self.slots.remove(|slot| matches!(slot, Slot::Ended(_)));
        (failed, self.slots.is_empty() && !self.abandoned)
    }

    /// Forgets what was not handed over.
    pub(super) fn abandon(&mut self) {
        self.abandoned |= self.slots.iter().any(|(_, slot)| slot == Slot::Waiting);
        self.slots.remove(|slot| slot == Slot::Waiting);
    }
}
