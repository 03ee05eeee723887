//! Everything that actors say to one another. One page.
//!
//! | message | from | to | reply |
//! |---|---|---|---|
//! | [`PublishBatch`] | claimer | publisher | [`PublishReport`] |
//! | [`ChildExited`](super::exit::ChildExited) | any child's guard | supervisor, over a channel | |
//!
//! Stop, drain and wake are not messages: a mailbox has one order and no priority. They are
//! [`Signals`](super::signals::Signals).

use std::sync::Arc;
use std::time::Instant;

use outrider_broker::{Message, Outcome};

use super::permits::Permit;

/// Publish these before the deadline, all to one broker.
#[derive(Debug)]
pub struct PublishBatch {
    pub broker: Arc<str>,
    pub messages: Vec<Message>,
    pub deadline: Instant,
    /// The right to be in flight; comes back in the report, or is free again when the batch is dropped.
    pub permit: BatchPermit,
}

/// What the batch holds of the broker's bound.
#[derive(Debug)]
pub struct BatchPermit {
    pub events: Option<Permit>,
    pub bytes: Option<Permit>,
}

/// One outcome per message, in the order of the batch.
#[derive(Debug)]
pub struct PublishReport {
    pub outcomes: Vec<Outcome>,
    pub permit: BatchPermit,
}

impl actix::Message for PublishBatch {
    type Result = PublishReport;
}
