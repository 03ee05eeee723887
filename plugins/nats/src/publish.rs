//! Publishing: a batch goes out in order without waiting, and all acknowledgements are awaited together under
//! the batch's one deadline.
//!
//! Must not count anything but JetStream's acknowledgement as a confirm: the client says "ok" to a message as
//! soon as it is in a queue.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::Subject;
use async_nats::jetstream::context::PublishAckFuture;
use futures_util::StreamExt;
use futures_util::future::join;
use futures_util::stream::FuturesUnordered;
use outrider_broker::{Cause, Connection, ErrorClass, Message, Outcome, async_trait};
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout_at};

use crate::classify;
use crate::connect::Link;
use crate::envelope::{Envelope, seal};
use crate::life::Denials;

/// Kept back from the time for closing, to end the client's thread in.
const END_MARGIN: Duration = Duration::from_millis(100);

/// A message that the client took.
struct Pending {
    /// Its place in the batch.
    index: usize,
    envelope: Envelope,
    ack: PublishAckFuture,
}

/// The end of one message, or that its deadline passed, which is judged once the batch is over.
enum End {
    Outcome(Outcome),
    Overdue { subject: Subject },
}

#[async_trait]
impl Connection for Link {
    async fn publish(&self, batch: Vec<Message>, deadline: Instant) -> Vec<Outcome> {
        let count = batch.len();
        let answers_before = self.answers.load(Ordering::Relaxed);
        // Taken before the first message, so that no refusal is missed.
        let denials = self.life().denials();
        // Bounded by the batch.
        let (handed_over, pending) = mpsc::unbounded_channel();
        let (kept, answered) =
            join(self.hand_over(batch, deadline, handed_over), self.collect(pending, denials, deadline))
                .await;
        let others_answered = self.answers.load(Ordering::Relaxed) != answers_before;

        let mut ends: Vec<Option<End>> = (0..count).map(|_| None).collect();
        for (index, outcome) in kept {
            ends[index] = Some(End::Outcome(outcome));
        }
        for (index, end) in answered {
            ends[index] = Some(end);
        }
        ends.into_iter()
            .map(|end| match end.expect("each message was either kept or handed over") {
                End::Outcome(outcome) => outcome,
                End::Overdue { subject } => classify::overdue(others_answered, &subject),
            })
            .collect()
    }

    async fn probe(&self, deadline: Instant) -> Result<(), Cause> {
        match self.over() {
            Some(cause) => Err(cause),
            None => self.ask(deadline).await,
        }
    }

    /// False from the moment in which the connection is lost. It does not come back: the client, and with it
    /// whatever it had queued, is thrown away.
    fn alive(&self) -> bool {
        self.over().is_none()
    }

    /// Waits for the acknowledgements that are on their way, then ends the client.
    async fn close(&self, deadline: Instant) {
        self.closing.store(true, Ordering::Relaxed);
        let patience = deadline.checked_sub(END_MARGIN).unwrap_or(deadline);
        let _ = timeout_at(patience.into(), self.jetstream.wait_for_acks()).await;
        self.life().end(closed());
        let _ = timeout_at(deadline.into(), self.life().ended()).await;
    }
}

impl Link {
    /// Why nothing may be handed over any more, or `None`.
    fn over(&self) -> Option<Cause> {
        self.life().cause().or_else(|| self.closing.load(Ordering::Relaxed).then(closed))
    }

    /// Hands the batch to the client in its order. Returns what it kept, with its end.
    async fn hand_over(
        &self,
        batch: Vec<Message>,
        deadline: Instant,
        handed_over: mpsc::UnboundedSender<Pending>,
    ) -> Vec<(usize, Outcome)> {
        let mut kept = Vec::new();
        for (index, message) in batch.into_iter().enumerate() {
            match self.hand_over_one(&message, deadline).await {
                // Can't fail: the receiver waits until this sender is gone.
                Ok((envelope, ack)) => drop(handed_over.send(Pending { index, envelope, ack })),
                Err(outcome) => kept.push((index, outcome)),
            }
        }
        kept
    }

    async fn hand_over_one(
        &self,
        message: &Message,
        deadline: Instant,
    ) -> Result<(Envelope, PublishAckFuture), Outcome> {
        if let Some(cause) = self.over() {
            return Err(Outcome::NotSent(cause));
        }
        if Instant::now() >= deadline {
            return Err(Outcome::NotSent(classify::unanswered()));
        }
        let (envelope, content) = seal(message, self.client.max_payload()).map_err(Outcome::Refused)?;
        // Waits for a permit and for room in the client's queue. Cancelled there, nothing was handed over.
        let taking = self.jetstream.send_publish(envelope.subject.clone(), content);
        match timeout_at(deadline.into(), taking).await {
            Ok(Ok(ack)) => Ok((envelope, ack)),
            Ok(Err(error)) => Err(classify::not_taken(&error, self.life().cause())),
            Err(_) => Err(Outcome::NotSent(classify::unanswered())),
        }
    }

    /// Awaits the acknowledgements of what is handed over, in the order in which they come: each gives its place
    /// on the connection to the next message, so that a stream that answers nothing does not hold up the others.
    async fn collect(
        &self,
        mut pending: mpsc::UnboundedReceiver<Pending>,
        mut denials: Denials,
        deadline: Instant,
    ) -> Vec<(usize, End)> {
        let mut ends = Vec::new();
        let mut acks = FuturesUnordered::new();
        // Not answered yet, by place in the batch.
        let mut waiting = HashMap::new();
        let mut denied = HashSet::new();
        // All of the batch is handed over or kept, which is so by the deadline.
        let mut complete = false;
        let over = sleep_until(deadline.into());
        tokio::pin!(over);
        while !(complete && waiting.is_empty()) {
            tokio::select! {
                biased;
                Some((index, answer)) = acks.next() => {
                    // Gone if it was denied meanwhile.
                    let Some(Envelope { subject, size }) = waiting.remove(&index) else { continue };
                    let outcome = classify::answer(answer, &subject, size, self.life().cause());
                    if !matches!(outcome, Outcome::Unknown(_)) {
                        self.answers.fetch_add(1, Ordering::Relaxed);
                    }
                    ends.push((index, End::Outcome(outcome)));
                }
                next = pending.recv(), if !complete => match next {
                    Some(Pending { index, envelope, ack }) if denied.contains(envelope.subject.as_str()) => {
                        drop(ack);
                        ends.push((index, End::Outcome(classify::may_not_publish(&envelope.subject))));
                    }
                    Some(Pending { index, envelope, ack }) => {
                        waiting.insert(index, envelope);
                        acks.push(async move { (index, ack.await) });
                    }
                    None => complete = true,
                },
                subject = denials.next() => {
                    let refused = waiting.extract_if(|_, envelope| *envelope.subject == *subject);
                    ends.extend(refused.map(|(index, _)| (index, End::Outcome(classify::may_not_publish(&subject)))));
                    denied.insert(subject);
                }
                () = &mut over, if complete => break,
            }
        }
        let overdue =
            waiting.into_iter().map(|(index, Envelope { subject, .. })| (index, End::Overdue { subject }));
        ends.extend(overdue);
        ends
    }
}

fn closed() -> Cause {
    Cause::broker(ErrorClass::Local, "the connection was closed")
}
