//! Events by their `seq`, and sets of them.

use std::fmt;

/// An event's place in the order. The first is 1; 0 is before every event.
pub type Seq = u8;

/// Most events of a model.
pub const MOST: usize = 5;

/// A set of events.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seqs(u16);

impl Seqs {
    pub const NONE: Seqs = Seqs(0);

    pub fn contains(self, seq: Seq) -> bool {
        self.0 & (1 << seq) != 0
    }

    pub fn insert(&mut self, seq: Seq) {
        self.0 |= 1 << seq;
    }

    pub fn remove(&mut self, seq: Seq) {
        self.0 &= !(1 << seq);
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn union(self, other: Seqs) -> Seqs {
        Seqs(self.0 | other.0)
    }

    pub fn without(self, other: Seqs) -> Seqs {
        Seqs(self.0 & !other.0)
    }

    pub fn and(self, other: Seqs) -> Seqs {
        Seqs(self.0 & other.0)
    }

    pub fn overlaps(self, other: Seqs) -> bool {
        self.0 & other.0 != 0
    }

    /// In ascending order.
    pub fn iter(self) -> impl Iterator<Item = Seq> {
        (1..=15).filter(move |seq| self.contains(*seq))
    }

    pub fn last(self) -> Option<Seq> {
        self.iter().last()
    }

    /// Every subset but the empty one.
    pub fn subsets(self) -> impl Iterator<Item = Seqs> {
        (1..=self.0).map(Seqs).filter(move |part| part.without(self).is_empty())
    }
}

impl FromIterator<Seq> for Seqs {
    fn from_iter<I: IntoIterator<Item = Seq>>(seqs: I) -> Self {
        let mut set = Seqs::NONE;
        seqs.into_iter().for_each(|seq| set.insert(seq));
        set
    }
}

impl fmt::Debug for Seqs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.iter()).finish()
    }
}
