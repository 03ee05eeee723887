//! A connection to a store.

use std::sync::Arc;
use std::time::Instant;

use outrider_broker::{Cause, Connection, ErrorClass, Message, Outcome, Refusal, async_trait};
use tokio::sync::watch;

use crate::connect::NAME;
use crate::params::Settings;
use crate::store::{Store, Verdict};

pub(crate) struct MemoryConnection {
    store: Arc<Store>,
    settings: Arc<Settings>,
    /// Why it is over, once it is.
    over: watch::Sender<Option<Cause>>,
}

impl MemoryConnection {
    pub(crate) fn new(store: Arc<Store>, settings: Arc<Settings>) -> Self {
        MemoryConnection { store, settings, over: watch::Sender::new(None) }
    }

    /// A connection that has seen the store go down stays over.
    fn over(&self) -> Option<Cause> {
        if let Some(cause) = self.store.down() {
            self.over.send_if_modified(|over| {
                let first = over.is_none();
                over.get_or_insert(cause);
                first
            });
        }
        self.over.borrow().clone()
    }

    /// What can be told without the store.
    fn refusal(&self, message: &Message) -> Option<Refusal> {
        let size = message.size();
        if let Some(limit) = self.settings.max_message_bytes.filter(|&limit| size > limit) {
            let text = format!("message of {size} bytes is over `max_message_bytes` = {limit}");
            return Some(Refusal { cause: Cause::event(ErrorClass::TooLarge, text), permanent: true });
        }
        if message.destination.get(NAME).is_none_or(|name| name.is_empty()) {
            let text = "destination's `name` is empty; see the route's `to`";
            return Some(Refusal { cause: Cause::event(ErrorClass::Invalid, text), permanent: true });
        }
        None
    }
}

#[async_trait]
impl Connection for MemoryConnection {
    async fn publish(&self, batch: Vec<Message>, deadline: Instant) -> Vec<Outcome> {
        if let Some(cause) = self.over() {
            return vec![Outcome::NotSent(cause); batch.len()];
        }
        if now() >= deadline {
            let cause = Cause::broker(ErrorClass::Timeout, "the deadline had passed before the hand-over");
            return vec![Outcome::NotSent(cause); batch.len()];
        }
        let mut changes = self.store.changes();
        let mut over = self.over.subscribe();
        let mut outcomes: Vec<Option<Outcome>> =
            batch.iter().map(|message| self.refusal(message).map(Outcome::Refused)).collect();
        let mut open: Vec<usize> = (0..batch.len()).filter(|&index| outcomes[index].is_none()).collect();
        let _flight = self.store.fly(batch.len());
        let answer_at = now() + self.settings.latency;

        let unanswered = loop {
            changes.borrow_and_update();
            if let Some(cause) = self.over() {
                break cause;
            }
            let verdicts = self.store.judge(open.iter().map(|&index| &batch[index]), &self.settings);
            let mut stalled = Vec::new();
            for (&index, verdict) in open.iter().zip(verdicts) {
                match verdict {
                    Verdict::Ended(outcome) => outcomes[index] = Some(outcome),
                    Verdict::Stalled => stalled.push(index),
                    Verdict::Panic => panic!("the store was told to panic"),
                }
            }
            open = stalled;
            if open.is_empty() {
                break silence();
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = over.changed() => {}
                () = tokio::time::sleep_until(deadline.into()) => break silence(),
            }
        };

        if !self.settings.latency.is_zero() {
            tokio::time::sleep_until(answer_at.min(deadline).into()).await;
        }
        let late = answer_at > deadline;
        let answered = |outcome| match outcome {
            None => Outcome::Unknown(unanswered.clone()),
            // It arrived, and the answer comes too late.
            Some(Outcome::Confirmed(_) | Outcome::Retry(_)) if late => Outcome::Unknown(silence()),
            Some(outcome) => outcome,
        };
        outcomes.into_iter().map(answered).collect()
    }

    async fn probe(&self, deadline: Instant) -> Result<(), Cause> {
        match self.over() {
            Some(cause) => Err(cause),
            None if now() >= deadline => Err(silence()),
            None => Ok(()),
        }
    }

    fn alive(&self) -> bool {
        self.over().is_none()
    }

    /// What is stalled ends as unknown.
    async fn close(&self, _: Instant) {
        let closed = Cause::broker(ErrorClass::Local, "the connection was closed");
        self.over.send_if_modified(|over| {
            let first = over.is_none();
            over.get_or_insert(closed);
            first
        });
    }
}

fn silence() -> Cause {
    Cause::broker(ErrorClass::Timeout, "no answer before the deadline")
}

/// tokio's clock, so that a test that pauses it finds deadlines and latency on one clock.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
