//! A connection to the output.

use std::time::Instant;

use outrider_broker::{Cause, Connection, ErrorClass, Message, Outcome, Receipt, Refusal, async_trait};
use tokio::sync::{oneshot, watch};

use crate::classify;
use crate::line;
use crate::writer::{Claim, Job, Writer};

pub(crate) struct StdoutConnection {
    /// Dropped when it is over, and with it the thread ends.
    writer: watch::Sender<Option<Writer>>,
}

impl StdoutConnection {
    pub(crate) fn new(writer: Writer) -> Self {
        StdoutConnection { writer: watch::Sender::new(Some(writer)) }
    }

    fn end(&self) {
        self.writer.send_replace(None);
    }

    /// Hands lines over and says what became of all of them.
    async fn write(&self, lines: Vec<u8>, deadline: Instant) -> Outcome {
        let Some(writer) = self.writer.borrow().clone() else {
            return Outcome::NotSent(classify::closed());
        };
        let claim = Claim::default();
        let (done, written) = oneshot::channel();
        let handed_over = async {
            let job = Job { lines, claim: claim.clone(), done };
            if writer.send(job).await.is_err() {
                return None;
            }
            written.await.ok()
        };
        let mut over = self.writer.subscribe();
        let outcome = tokio::select! {
            written = handed_over => match written {
                Some(Ok(())) => Outcome::Confirmed(Receipt::default()),
                Some(Err(error)) => classify::failed_write(&error),
                None => Outcome::Unknown(Cause::broker(ErrorClass::ClientFatal, "the writing thread is gone")),
            },
            () = tokio::time::sleep_until(deadline.into()) =>
                if claim.withdraw() { classify::too_late() } else { classify::stuck() },
            _ = over.wait_for(Option::is_none) =>
                if claim.withdraw() { Outcome::NotSent(classify::closed()) } else { classify::stuck() },
        };
        if let Outcome::Unknown(cause) = &outcome
            && cause.class != ErrorClass::Timeout
        {
            self.end();
        }
        outcome
    }
}

#[async_trait]
impl Connection for StdoutConnection {
    async fn publish(&self, batch: Vec<Message>, deadline: Instant) -> Vec<Outcome> {
        if tokio::time::Instant::now().into_std() >= deadline {
            return vec![classify::too_late(); batch.len()];
        }
        let mut lines = Vec::new();
        let rendered: Vec<Result<(), Outcome>> = batch
            .iter()
            .map(|message| {
                line::append(message, &mut lines).map_err(|_| {
                    let cause = Cause::event(ErrorClass::Invalid, "the message can't be written as JSON");
                    Outcome::Refused(Refusal { cause, permanent: true })
                })
            })
            .collect();
        let outcome = self.write(lines, deadline).await;
        rendered.into_iter().map(|line| line.err().unwrap_or_else(|| outcome.clone())).collect()
    }

    /// An empty write: it waits behind a stuck one, and so finds it.
    async fn probe(&self, deadline: Instant) -> Result<(), Cause> {
        match self.write(Vec::new(), deadline).await {
            Outcome::Confirmed(_) => Ok(()),
            outcome => Err(outcome.cause().cloned().unwrap_or_else(classify::closed)),
        }
    }

    fn alive(&self) -> bool {
        self.writer.borrow().is_some()
    }

    /// What waits in the queue is taken out of it; what is being written can't be stopped.
    async fn close(&self, _: Instant) {
        self.end();
    }
}
