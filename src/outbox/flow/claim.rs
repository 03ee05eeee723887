//! A claim in the owner's memory: its events, from the answer of the statement to the settle.

use std::sync::Arc;

use uuid::Uuid;

use crate::outbox::event::{Body, Event};
use crate::outbox::settle::{Past, Verdict};

use super::{ClaimNo, Path};

#[derive(Debug)]
pub(super) struct Claim {
    pub(super) no: ClaimNo,
    pub(super) token: Uuid,
    pub(super) path: Path,
    pub(super) slots: Vec<Slot>,
    /// Slots without an end.
    pub(super) open: usize,
    /// Confirmed and not handed to a settle yet.
    pub(super) sent: Vec<i64>,
    /// Ended otherwise and not handed to a settle yet.
    pub(super) failed: Vec<Failure>,
    /// The last settle of it was taken.
    pub(super) settling: bool,
    /// Events of it were given up without an end. Its row stays until the lane's next owner reclaims it: removed
    /// here, they would be new again at once, also those behind whose back a later one of their key was parked.
    pub(super) abandoned: bool,
}

/// One event that ended without being sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub seq: i64,
    pub topic: Arc<str>,
    pub key: Option<Arc<str>>,
    pub verdict: Verdict,
    /// It is dead and its topic's policy passes it over: parked followers go on.
    pub skipped: bool,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) seq: i64,
    pub(super) topic: Arc<str>,
    pub(super) key: Option<Arc<str>>,
    pub(super) past: Past,
    pub(super) state: SlotState,
}

#[derive(Debug)]
pub(super) enum SlotState {
    /// Not handed over. The body waits here.
    Waiting(Option<Body>),
    /// With the publisher.
    InFlight,
    Ended,
}

impl Claim {
    pub(super) fn new(no: ClaimNo, token: Uuid, path: Path, events: Vec<Event>) -> Self {
        let slots: Vec<Slot> = events.into_iter().map(Slot::new).collect();
        Claim {
            no,
            token,
            path,
            open: slots.len(),
            slots,
            sent: Vec::new(),
            failed: Vec::new(),
            settling: false,
            abandoned: false,
        }
    }

    /// Every event has its end.
    pub(super) fn complete(&self) -> bool {
        self.open == 0
    }

    /// It has ends to be written back now; with `hurried` any end is.
    pub(super) fn is_due(&self, hurried: bool) -> bool {
        let ended = !self.sent.is_empty() || !self.failed.is_empty();
        ended && !self.settling && (hurried || self.complete() || self.is_urgent())
    }

    /// An end that the next claim has to find in the database. Of a failure it would let a follower pass; a
    /// blocked event that is parked only after its head was tried again and sent has nobody to wake it.
    pub(super) fn is_urgent(&self) -> bool {
        self.failed.iter().any(|failure| failure.verdict != Verdict::Released)
    }
}

impl Slot {
    fn new(event: Event) -> Self {
        Slot {
            seq: event.seq,
            topic: event.topic,
            key: event.key,
            past: Past { attempts: event.attempts, refusals: event.refusals },
            state: SlotState::Waiting(event.body),
        }
    }
}
