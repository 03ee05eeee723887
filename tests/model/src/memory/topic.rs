//! Where the next scan of the ready path starts, as `src/outbox/flow/topic.rs` has it.

use crate::database::{Ask, Scan};
use crate::seqs::{Seq, Seqs};

/// A floor to come: when these transactions have ended, nothing can appear at or below `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Pending {
    seq: Seq,
    open: Seqs,
}

const NO_LIMIT: Seq = Seq::MAX;

/// Where the next scan starts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Topic {
    /// Everything up to here was claimed, or came back.
    mark: Seq,
    /// The mark may not go past this: what came back while a claim is on its way begins behind it.
    mark_limit: Seq,
    floor: Seq,
    /// The highest claimed.
    seen: Seq,
    pending: Vec<Pending>,
}

impl Topic {
    pub(super) fn new() -> Self {
        Topic { mark: 0, mark_limit: NO_LIMIT, floor: 0, seen: 0, pending: Vec::new() }
    }

    /// Where a claim starts to scan.
    pub(super) fn after(&self, has_floor: bool) -> Seq {
        if has_floor { self.mark.min(self.floor) } else { self.mark }
    }

    /// What comes back from now on is before the next claim.
    pub(super) fn answered(&mut self) {
        self.mark_limit = NO_LIMIT;
    }

    /// A claim was answered.
    pub(super) fn scanned(&mut self, scan: &Scan) {
        let Ask::Ready { limit } = scan.ask else { return };
        while let Some(first) = self.pending.first().filter(|first| !first.open.overlaps(scan.open)) {
            self.floor = self.floor.max(first.seq);
            self.pending.remove(0);
        }
        let wrote = !scan.claimed().is_empty();
        if wrote && self.seen > self.pending.last().map_or(self.floor, |last| last.seq) {
            self.pending.push(Pending { seq: self.seen, open: scan.open });
        }
        if let Some(last) = scan.window.last().filter(|_| scan.owned) {
            let full = scan.window.len() >= limit;
            self.mark = if full { last } else { self.mark.max(last) }.min(self.mark_limit);
            self.seen = self.seen.max(last);
        }
    }

    /// Brings places that make no difference to one: between two of them is nothing that a scan can ever meet.
    pub(super) fn tidy(&mut self, gone: Seqs, open: Seqs) {
        let place = |seq: &mut Seq| {
            while *seq > 0 && gone.contains(*seq) {
                *seq -= 1;
            }
        };
        for seq in [&mut self.mark, &mut self.floor, &mut self.seen] {
            place(seq);
        }
        for pending in &mut self.pending {
            place(&mut pending.seq);
            pending.open = pending.open.and(open);
        }
        let floor = self.floor;
        self.pending.retain(|pending| pending.seq > floor);
        self.pending.dedup_by_key(|pending| pending.seq);
    }

    /// An event of the ready path goes back unsent.
    pub(super) fn came_back(&mut self, seq: Seq) {
        self.mark_limit = self.mark_limit.min(seq - 1);
        self.mark = self.mark.min(self.mark_limit);
    }
}
