//! Stop and drain, beside the mailboxes: an order to end must not wait behind work.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How a child is told to end.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    drain: CancellationToken,
    deadline: std::sync::Arc<std::sync::OnceLock<Instant>>,
}

impl Signals {
    pub fn new() -> Self {
        Signals::default()
    }

    /// Asks for an end: finish what is in hand, give back the rest, not later than `within` from now. The first
    /// call counts.
    pub fn drain(&self, within: Duration) {
        self.deadline.get_or_init(|| Instant::now() + within);
        self.drain.cancel();
    }

    pub fn is_draining(&self) -> bool {
        self.drain.is_cancelled()
    }

    /// Waits for the order to end. Cancel safe.
    pub async fn draining(&self) {
        self.drain.cancelled().await;
    }

    /// When the drain has to be over; `None` before it was asked for.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.get().copied()
    }
}
