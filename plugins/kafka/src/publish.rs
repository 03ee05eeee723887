//! A live connection: batches in, outcomes out, before a deadline.
//!
//! The client has a clock of its own (`message.timeout.ms`), somewhat shorter than a batch's deadline, and
//! normally speaks first. What is still without a report shortly before the deadline (its deadline was
//! shorter, or the client's queue was full for long) is taken back from the client, so that no copy of it
//! leaves afterwards. That takes back the other batches' messages, too; they end as not sent, or as unknown
//! where they had left. Must not: block, or know what an error code means.

use std::time::{Duration, Instant};

use outrider_broker::{Cause, Connection, ErrorClass, Message, Outcome, async_trait};
use rdkafka::error::RDKafkaErrorCode as E;
use tokio::sync::{OnceCell, oneshot};
use tokio::task;
use tokio::time::{timeout, timeout_at};

use crate::batch::{Batch, Report};
use crate::classify::{self, Subject};
use crate::connect::{Blueprint, Client, Progress};
use crate::params::Purpose;
use crate::record;
use crate::stall::Stall;

/// How long before a deadline overdue messages are taken back: time for their reports.
const TAKE_BACK: Duration = Duration::from_millis(150);

/// How long before a deadline the outcomes are put together.
const RETURN: Duration = Duration::from_millis(20);

/// How long a hand-over waits at most before it tries a full queue again. Reports wake it, but librdkafka frees
/// a message's place only after its report, so the last report may wake it too early.
const FULL: Duration = Duration::from_millis(10);

/// See [`outrider_broker::Connection`].
pub(crate) struct KafkaConnection {
    blueprint: Blueprint,
    client: Client,
    /// Sends one record a request. Made when a broker first refuses a request for one of its records.
    isolated: OnceCell<Client>,
    stall: Stall,
}

/// How a message's way through a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Reported(Report),
    /// Overdue, and asked back: with a report of that, or without one.
    TakenBack(Option<Report>),
    /// Never in the client, whose queue was full.
    Full,
    /// Refused together with others, and there was no time to find out which is to blame.
    Suspect,
}

/// Whether a broker said something about it; what only timed out says nothing.
fn is_answered(end: End) -> bool {
    match end {
        End::Reported(Report::Failed { code, .. }) => {
            !matches!(code, E::MessageTimedOut | E::RequestTimedOut)
        }
        End::Reported(Report::Stored { .. }) => true,
        End::TakenBack(_) | End::Full | End::Suspect => false,
    }
}

impl KafkaConnection {
    pub(crate) fn new(blueprint: Blueprint, client: Client) -> KafkaConnection {
        KafkaConnection { blueprint, client, isolated: OnceCell::new(), stall: Stall::new(Instant::now()) }
    }

    /// Sends the chosen messages (indexes into `messages`); one end for each of them.
    async fn run(
        &self,
        client: &Client,
        messages: &[Message],
        chosen: &[usize],
        deadline: Instant,
    ) -> Vec<End> {
        let now = Instant::now();
        let left = deadline.saturating_duration_since(now);
        let until = now + left.saturating_sub(RETURN.min(left / 8));
        let cutoff = now + left.saturating_sub(TAKE_BACK.min(left / 4));
        let batch = Batch::new(chosen.len());
        let mut next = 0;
        while Instant::now() < cutoff {
            match client.hand_over(messages, chosen, &batch, &mut next) {
                Progress::Complete | Progress::Ended => break,
                Progress::Full => drop(timeout(FULL, client.room()).await),
            }
        }
        batch.seal();
        let mut ends: Vec<End> = vec![End::Full; chosen.len()];
        if timeout_at(cutoff.into(), batch.done()).await.is_err() {
            tracing::debug!(client = self.blueprint.options.client_name, "taking overdue records back");
            for (place, end) in ends.iter_mut().enumerate().take(next) {
                *end = batch.report(place).map_or(End::TakenBack(None), End::Reported);
            }
            client.take_back();
            // What has no report then never gets one that could still be used.
            let _ = timeout_at(until.into(), batch.done()).await;
        }
        for (place, end) in ends.iter_mut().enumerate().take(next) {
            match (*end, batch.report(place)) {
                (End::TakenBack(_), report) => *end = End::TakenBack(report),
                (_, Some(report)) => *end = End::Reported(report),
                (_, None) => *end = End::TakenBack(None),
            }
        }
        ends
    }

    /// Sends each of the chosen messages in a request of its own.
    async fn run_isolated(
        &self,
        messages: &[Message],
        chosen: &[usize],
        deadline: Instant,
    ) -> Option<Vec<End>> {
        let opened = self.isolated.get_or_try_init(|| async {
            let blueprint = self.blueprint.clone();
            let opening = task::spawn_blocking(move || Client::open(&blueprint, Purpose::Isolate));
            opening.await.map_err(drop)?.map_err(drop)
        });
        let client = timeout_at(deadline.into(), opened).await.ok()?.ok()?;
        Some(self.run(client, messages, chosen, deadline).await)
    }

    fn outcome(&self, message: &Message, end: End, health: Option<&Cause>) -> Outcome {
        let subject = Subject { topic: record::topic(message), bytes: record::size(message) };
        match end {
            End::Reported(report) => classify::outcome(report, subject, health),
            End::TakenBack(report) => classify::overdue(report, subject, health),
            End::Full => classify::full(health),
            End::Suspect => classify::suspect(subject),
        }
    }

    /// Why nothing more can be sent through this connection, if so.
    fn end(&self) -> Option<Cause> {
        for client in self.clients() {
            client.examine(&self.blueprint.health);
        }
        self.blueprint.health.end()
    }

    fn clients(&self) -> impl Iterator<Item = &Client> {
        std::iter::once(&self.client).chain(self.isolated.get())
    }
}

#[async_trait]
impl Connection for KafkaConnection {
    async fn publish(&self, batch: Vec<Message>, deadline: Instant) -> Vec<Outcome> {
        if let Some(end) = self.end() {
            return batch.iter().map(|_| Outcome::NotSent(end.clone())).collect();
        }
        if deadline <= Instant::now() {
            let late = Cause::event(ErrorClass::Local, "the deadline had passed before the hand-over");
            return batch.iter().map(|_| Outcome::NotSent(late.clone())).collect();
        }
        let limit = self.blueprint.settings.message_max_bytes;
        let mut outcomes: Vec<Option<Outcome>> =
            batch.iter().map(|message| record::check(message, limit).err().map(Outcome::Refused)).collect();
        let good: Vec<usize> = (0..batch.len()).filter(|&index| outcomes[index].is_none()).collect();
        let mut ends: Vec<(usize, End)> =
            good.iter().copied().zip(self.run(&self.client, &batch, &good, deadline).await).collect();

        if !ends.is_empty() {
            self.stall.batch(ends.iter().any(|(_, end)| is_answered(*end)));
        }

        // Refused together; one may be to blame.
        let blamed =
            |end: &End| matches!(end, End::Reported(report) if classify::blames_the_request(*report));
        let suspects: Vec<usize> =
            ends.iter().filter(|(_, end)| blamed(end)).map(|(index, _)| *index).collect();
        if !suspects.is_empty() {
            let again = self.run_isolated(&batch, &suspects, deadline).await;
            let again = again.unwrap_or_else(|| vec![End::Suspect; suspects.len()]);
            ends.retain(|(_, end)| !blamed(end));
            ends.extend(suspects.into_iter().zip(again));
        }
        let health = self.end().or_else(|| self.blueprint.health.cause());
        for (index, end) in ends {
            outcomes[index] = Some(self.outcome(&batch[index], end, health.as_ref()));
        }
        let missing = || Outcome::NotSent(Cause::event(ErrorClass::Local, "was left out of the batch"));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }
    async fn probe(&self, deadline: Instant) -> Result<(), Cause> {
        if let Some(end) = self.end() {
            return Err(end);
        }
        let asked = Instant::now();
        let time = deadline.saturating_duration_since(asked);
        let time = time.saturating_sub(RETURN.min(time / 8));
        let answer = match self.client.ask(time) {
            Some(asking) => {
                timeout_at(deadline.into(), asking).await.unwrap_or(Ok(Err(E::OperationTimedOut)))
            }
            None => Ok(Err(E::BrokerDestroy)),
        };
        match answer {
            Ok(Ok(())) => {
                self.stall.answered();
                if self.stall.is_stuck(Instant::now()) {
                    self.blueprint.health.died("it takes no record, and its brokers answer");
                }
                if let Some(end) = self.end() {
                    return Err(end);
                }
                self.blueprint.health.recovered();
                Ok(())
            }
            Ok(Err(code)) => {
                let Blueprint { health, options, .. } = &self.blueprint;
                let cause = classify::unanswered(code, health.cause());
                // A refused password is not mended by another client, and each try counts towards the account's lock.
                let refused = health.refusal().is_some();
                // Longer than a new client is given to find a broker.
                if self.stall.is_cut_off(asked, Instant::now(), options.timeout) && !refused {
                    health.died(
                        "none of the brokers that it knows answers, and `bootstrap.servers` may know others",
                    );
                }
                Err(cause)
            }
            Err(_) => Err(classify::unanswered(E::Fail, self.blueprint.health.cause())),
        }
    }

    fn alive(&self) -> bool {
        self.end().is_none()
    }

    async fn close(&self, deadline: Instant) {
        self.blueprint.health.close();
        let flush_until = deadline.checked_sub(2 * TAKE_BACK).unwrap_or(deadline);
        let ending: Vec<oneshot::Receiver<()>> =
            self.clients().map(|client| client.end(flush_until)).collect();
        let ended = async {
            for client in ending {
                let _ = client.await;
            }
        };
        if timeout_at(deadline.into(), ended).await.is_err() {
            let client = &self.blueprint.options.client_name;
            tracing::warn!(client, "Kafka client is still ending in the background");
        }
    }
}

impl std::fmt::Debug for KafkaConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaConnection").field("blueprint", &self.blueprint).finish_non_exhaustive()
    }
}
