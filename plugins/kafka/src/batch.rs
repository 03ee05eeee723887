//! One batch on its way: a slot for each message's report and one countdown.
//!
//! Reports come from librdkafka's polling thread. Each fills its slot; the last one wakes the task that
//! waits, once. Must not: decide what a report means.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rdkafka::error::RDKafkaErrorCode;
use tokio::sync::Notify;

use crate::classify::Persistence;

/// What the client says about one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The broker has it. `offset` is negative where the broker did not say (a retry of something it had).
    Stored {
        partition: i32,
        offset: i64,
    },
    Failed {
        code: RDKafkaErrorCode,
        persistence: Persistence,
    },
}

/// The messages of one hand-over.
#[derive(Debug)]
pub(crate) struct Batch {
    slots: Box<[OnceLock<Report>]>,
    /// Tickets that are out, plus one while messages are still being handed over.
    open: AtomicUsize,
    done: Notify,
}

impl Batch {
    pub(crate) fn new(size: usize) -> Arc<Batch> {
        let slots = (0..size).map(|_| OnceLock::new()).collect();
        Arc::new(Batch { slots, open: AtomicUsize::new(1), done: Notify::new() })
    }

    /// Goes into the client with the message at `index` and comes back with its report.
    pub(crate) fn ticket(self: &Arc<Batch>, index: usize) -> Box<Ticket> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Box::new(Ticket { batch: Arc::clone(self), index })
    }

    /// No more tickets follow. To be called once.
    pub(crate) fn seal(&self) {
        self.close_one();
    }

    /// Waits until the batch is sealed and no ticket is out. For one task; cancel safe.
    pub(crate) async fn done(&self) {
        while self.open.load(Ordering::Acquire) > 0 {
            self.done.notified().await;
        }
    }

    pub(crate) fn report(&self, index: usize) -> Option<Report> {
        self.slots.get(index).and_then(OnceLock::get).copied()
    }

    fn close_one(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.notify_one();
        }
    }
}

/// Ties a message inside the client to its slot. Dropped without a report (the client gave it back), it leaves
/// the slot empty and still counts as closed, so that nobody waits for it.
#[derive(Debug)]
pub(crate) struct Ticket {
    batch: Arc<Batch>,
    index: usize,
}

impl Ticket {
    pub(crate) fn settle(self, report: Report) {
        if let Some(slot) = self.batch.slots.get(self.index) {
            // librdkafka reports once for each message; a second report could only repeat the first.
            let _ = slot.set(report);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.batch.close_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const STORED: Report = Report::Stored { partition: 1, offset: 7 };

    #[tokio::test]
    async fn is_done_when_sealed_and_every_ticket_is_back() {
        let batch = Batch::new(3);
        let (first, second) = (batch.ticket(0), batch.ticket(2));
        first.settle(STORED);
        let pending = tokio::time::timeout(Duration::from_millis(20), batch.done());
        assert!(pending.await.is_err(), "neither sealed nor settled");
        batch.seal();
        let waiting = tokio::spawn({
            let batch = Arc::clone(&batch);
            async move { batch.done().await }
        });
        drop(second);
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap();
        assert_eq!(batch.report(0), Some(STORED));
        assert_eq!((batch.report(1), batch.report(2), batch.report(3)), (None, None, None));
    }

    #[tokio::test]
    async fn an_empty_batch_is_done_at_once() {
        let batch = Batch::new(0);
        batch.seal();
        batch.done().await;
    }
}
