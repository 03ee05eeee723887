//! One run of messages on one channel: hands them over in order, then collects confirms and returns.
//!
//! Reports facts only; what they mean is `settle`'s to say. Must not: publish a message twice.

use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::BasicPublishOptions;
use lapin::protocol::AMQPError;
use lapin::{Channel, Confirmation, Error, ErrorKind, PublisherConfirm};
use tokio::time::timeout_at;

use crate::socket::Socket;
use crate::wire::Envelope;

/// Part of a run's time, at most, that is kept back to find out which messages had left when it ran out.
const RESERVE: Duration = Duration::from_millis(100);

/// When to stop waiting, so that `deadline` can be kept.
pub(crate) fn cut(deadline: Instant) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    deadline - RESERVE.min(left / 10)
}

/// What became of one message's hand-over.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The library gave the message back before its last frame was written.
    NotHandedOver(Error),
    /// Neither written nor given back when time ran out.
    Unwritten,
    /// Written, and no confirm when time ran out.
    Silent,
    /// Written, and the channel or connection ended before a confirm came.
    Lost(Error),
    /// `carries_return`: a returned message came along, this one or another.
    Acked {
        carries_return: bool,
    },
    Nacked,
    /// The channel was not in confirm mode.
    NotRequested,
}

/// A returned message: reply code and text.
#[derive(Clone, Debug)]
pub(crate) struct Returned {
    pub(crate) code: u16,
    pub(crate) text: String,
}

#[derive(Debug)]
pub(crate) struct Report {
    /// One for each message, in order.
    pub(crate) answers: Vec<Answer>,
    /// Returned messages by `message_id`.
    pub(crate) returned: HashMap<String, Returned>,
    /// A message came back that is not of this run.
    pub(crate) stranger: bool,
    /// Not all answers were in when time ran out.
    pub(crate) timed_out: bool,
}

impl Report {
    /// Every message was acked or nacked, so every return there is has been seen.
    pub(crate) fn is_whole(&self) -> bool {
        !self.stranger
            && self.answers.iter().all(|answer| matches!(answer, Answer::Acked { .. } | Answer::Nacked))
    }

    /// The reply with which the broker closed the channel, if it did.
    pub(crate) fn closing_reply(&self) -> Option<&AMQPError> {
        self.answers.iter().find_map(|answer| match answer {
            Answer::Lost(error) | Answer::NotHandedOver(error) => match error.kind() {
                ErrorKind::ProtocolError(reply) if error.is_amqp_soft_error() => Some(reply),
                _ => None,
            },
            _ => None,
        })
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = (usize, Result<PublisherConfirm, Error>)> + Send + 'a>>;
type Confirming = Pin<Box<dyn Future<Output = (usize, Result<Confirmation, Error>)> + Send>>;

/// Publishes `run` on `channel` and waits for the answers until `cut`. If something is unwritten by then, the
/// connection is killed, and until `deadline` the library says what it had not written.
pub(crate) async fn send(
    channel: &Channel,
    run: &[&Envelope],
    socket: &Socket,
    cut: Instant,
    deadline: Instant,
) -> Report {
    let mut collector = Collector::new(run);
    let mut sending: FuturesUnordered<Sending<'_>> = FuturesUnordered::new();
    for (index, envelope) in run.iter().enumerate() {
        let mut future: Sending<'_> = Box::pin(async move { (index, publish(channel, envelope).await) });
        // The first poll registers the delivery tag and queues the frames. Waiting here for the write would
        // make the run one round of the writing thread for each message.
        match poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await {
            Poll::Ready((index, result)) => collector.sent(index, result),
            Poll::Pending => sending.push(future),
        }
    }
    let all = async {
        loop {
            tokio::select! {
                biased;
                Some((index, result)) = sending.next(), if !sending.is_empty() => collector.sent(index, result),
                Some((index, result)) = collector.confirming.next(), if !collector.confirming.is_empty() => {
                    collector.confirmed(index, result);
                }
                else => break,
            }
        }
    };
    let timed_out = timeout_at(cut.into(), all).await.is_err();
    if timed_out && !sending.is_empty() {
        socket.kill();
        let rest = async {
            while let Some((index, result)) = sending.next().await {
                collector.sent(index, result);
            }
        };
        let _ = timeout_at(deadline.into(), rest).await;
    }
    Report { timed_out, ..collector.report }
}

async fn publish(channel: &Channel, envelope: &Envelope) -> Result<PublisherConfirm, Error> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let (exchange, routing_key) = (envelope.exchange.clone(), envelope.routing_key.clone());
    channel
        .basic_publish(exchange, routing_key, options, &envelope.payload, envelope.properties.clone())
        .await
}

struct Collector {
    ids: HashSet<String>,
    report: Report,
    confirming: FuturesUnordered<Confirming>,
}

impl Collector {
    fn new(run: &[&Envelope]) -> Self {
        let report = Report {
            answers: run.iter().map(|_| Answer::Unwritten).collect(),
            returned: HashMap::new(),
            stranger: false,
            timed_out: false,
        };
        let ids = run.iter().map(|envelope| envelope.id.to_string()).collect();
        Collector { ids, report, confirming: FuturesUnordered::new() }
    }

    fn sent(&mut self, index: usize, result: Result<PublisherConfirm, Error>) {
        self.report.answers[index] = match result {
            Ok(confirm) => {
                self.confirming.push(Box::pin(async move { (index, confirm.await) }));
                Answer::Silent
            }
            Err(error) => Answer::NotHandedOver(error),
        };
    }

    fn confirmed(&mut self, index: usize, result: Result<Confirmation, Error>) {
        let (answer, returned) = match result {
            Ok(Confirmation::Ack(returned)) => {
                (Answer::Acked { carries_return: returned.is_some() }, returned)
            }
            Ok(Confirmation::Nack(returned)) => (Answer::Nacked, returned),
            Ok(Confirmation::NotRequested) => (Answer::NotRequested, None),
            Err(error) => (Answer::Lost(error), None),
        };
        self.report.answers[index] = answer;
        let Some(message) = returned else { return };
        let known = message.delivery.properties.message_id().as_ref().map(|id| id.to_string());
        match known.filter(|id| self.ids.contains(id)) {
            Some(id) => {
                let returned = Returned { code: message.reply_code, text: message.reply_text.to_string() };
                self.report.returned.insert(id, returned);
            }
            None => self.report.stranger = true,
        }
    }
}
