//! A process's time as the lane's owner: what it claims, hands over and gives back.

use super::claim::{Claim, Slot};
use super::topic::Topic;
use crate::database::{Ask, End, Scan, Token};
use crate::seqs::{Seq, Seqs};
use crate::setup::{Guard, KEYS, Setup};

/// A process's time as the lane's owner, as far as it knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure {
    /// By its own clock more of the lease is left than publish deadline + margin.
    pub fresh: bool,
    pub reclaimed: bool,
    /// Oldest first.
    pub claims: Vec<Claim>,
    topic: Topic,
    /// Something was released: until the claims in flight are settled, nothing is handed over or claimed.
    flush: bool,
    /// By key, the lowest event that failed while a CLAIM was running, or 0.
    failed: [Seq; KEYS],
}

impl Tenure {
    pub fn new() -> Self {
        Tenure {
            fresh: true,
            reclaimed: false,
            claims: Vec::new(),
            topic: Topic::new(),
            flush: false,
            failed: [0; KEYS],
        }
    }

    /// Where the ready path starts to scan.
    pub fn after(&self, setup: &Setup) -> Seq {
        self.topic.after(setup.has(Guard::Floor))
    }

    pub fn live(&self) -> Vec<Token> {
        self.claims.iter().map(|claim| claim.token).collect()
    }

    /// Whether a CLAIM may be sent. The lease is not asked: a statement may be on its way for any time, and asks itself.
    pub fn may_claim(&self, setup: &Setup) -> bool {
        let settled = !self.claims.iter().any(Claim::is_urgent) || !setup.has(Guard::SettleBeforeClaim);
        self.reclaimed && settled && !self.flush && self.claims.len() < setup.claims_in_flight
    }

    /// The answer to a CLAIM whose lane still stood.
    pub fn claimed(&mut self, setup: &Setup, scan: &Scan, token: Token) {
        self.topic.scanned(scan);
        if !scan.claimed().is_empty() {
            let slots = scan.claimed().iter().map(|seq| {
                let failed = self.failed[setup.key(seq)];
                (seq, if failed != 0 && seq > failed { Slot::Ended(End::Blocked) } else { Slot::Waiting })
            });
            let ready_path = matches!(scan.ask, Ask::Ready { .. });
            self.claims.push(Claim::new(token, ready_path, slots.collect()));
        }
        self.topic.answered();
        self.failed = [0; KEYS];
    }

    /// Unended events of a key in the order of hand-over.
    fn gate(&self, setup: &Setup, key: usize) -> impl Iterator<Item = (Token, Seq, Slot)> {
        let slots = self.claims.iter().flat_map(|claim| {
            let token = claim.token;
            claim.slots.iter().map(move |(seq, slot)| (token, seq, slot))
        });
        slots.filter(move |(_, seq, slot)| setup.key(*seq) == key && !matches!(slot, Slot::Ended(_)))
    }

    /// Events that wait for nothing but the lease.
    fn eligible(&self, setup: &Setup) -> Vec<(Token, Seq)> {
        let turn = if setup.has(Guard::HandOverInTurn) { 1 } else { usize::MAX };
        let gates = (0..KEYS).flat_map(|key| self.gate(setup, key).take(turn));
        gates.filter(|(.., slot)| *slot == Slot::Waiting).map(|(token, seq, _)| (token, seq)).collect()
    }

    /// Events that may be handed over.
    pub fn may_hand_over(&self, setup: &Setup) -> Vec<(Token, Seq)> {
        let allowed = self.fresh || !setup.has(Guard::LeaseCheck);
        if allowed && !self.flush { self.eligible(setup) } else { Vec::new() }
    }

    /// Whether something waits that must go back: the lease is too short, or something before it went back.
    pub fn must_release(&self, setup: &Setup) -> bool {
        (!self.fresh || self.flush) && self.has_eligible(setup)
    }

    pub fn has_eligible(&self, setup: &Setup) -> bool {
        !self.eligible(setup).is_empty()
    }

    /// Gives back everything that waits.
    pub fn release(&mut self, setup: &Setup) {
        while let Some((token, seq)) = self.eligible(setup).first().copied() {
            self.end(setup, token, seq, End::Released);
        }
    }

    /// An event has its end, and with it those that it holds back.
    pub fn end(&mut self, setup: &Setup, token: Token, seq: Seq, end: End) {
        let key = setup.key(seq);
        let Some(claim) = self.claims.iter_mut().find(|claim| claim.token == token) else { return };
        let Some(slot) = claim.slots.get_mut(seq) else { return };
        *slot = Slot::Ended(end);
        if end == End::Released {
            self.flush = true;
            if claim.ready_path {
                self.topic.came_back(seq);
            }
        }
        if end == End::Failed {
            self.failed[key] = if self.failed[key] == 0 { seq } else { self.failed[key].min(seq) };
            if setup.has(Guard::HandOverInTurn) {
                self.block_later(setup, seq);
            }
        }
    }

    fn block_later(&mut self, setup: &Setup, failed: Seq) {
        for (seq, slot) in self.claims.iter_mut().flat_map(|claim| claim.slots.iter_mut()) {
            if *slot == Slot::Waiting && seq > failed && setup.key(seq) == setup.key(failed) {
                *slot = Slot::Ended(End::Blocked);
            }
        }
    }

    /// Forgets what says nothing any more, which keeps the number of states small. `asks`: a CLAIM is running, and what
    /// happens meanwhile is still for its answer.
    pub fn tidy(&mut self, asks: bool, gone: Seqs, open: Seqs) {
        self.claims.retain(|claim| !claim.slots.is_empty());
        if !asks {
            self.topic.answered();
            self.topic.tidy(gone, open);
            self.failed = [0; KEYS];
            self.flush &= !self.claims.is_empty();
        }
    }

    /// The lane is lost: what waits is forgotten, what is in flight ends late.
    pub fn abandon(self) -> Vec<Claim> {
        let mut late = self.claims;
        late.iter_mut().for_each(Claim::abandon);
        late.retain(|claim| !claim.slots.is_empty());
        late
    }
}

impl Default for Tenure {
    fn default() -> Self {
        Self::new()
    }
}
