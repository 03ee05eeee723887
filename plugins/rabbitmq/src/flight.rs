//! Messages on one channel: handed over in order, then their confirms and returns collected.
//!
//! Reports facts only; what they mean is `settle`'s to say. Must not: publish a message twice.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use lapin::options::BasicPublishOptions;
use lapin::protocol::AMQPError;
use lapin::{Channel, Confirmation, Error, ErrorKind, PublisherConfirm};
use tokio::time::timeout_at;

use crate::link::Link;
use crate::pool;
use crate::wire::Envelope;

/// Part of a batch's time, at most, that is kept back to find out what a missing answer means.
const RESERVE: Duration = Duration::from_millis(200);

/// The instants by which a deadline is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Waiting for answers ends.
    pub(crate) cut: Instant,
    /// Everything else ends, too.
    pub(crate) last: Instant,
}

impl Times {
    pub(crate) fn until(deadline: Instant) -> Self {
        let reserve = RESERVE.min(deadline.saturating_duration_since(Instant::now()) / 10);
        Times { cut: deadline - reserve, last: deadline - reserve / 4 }
    }
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

#[derive(Debug, Default)]
pub(crate) struct Report {
    /// One for each message, in order.
    pub(crate) answers: Vec<Answer>,
    /// Returned messages by `message_id`.
    pub(crate) returned: HashMap<String, Returned>,
    /// A message came back that is not of this flight.
    pub(crate) stranger: bool,
    /// Not all answers were in when time ran out.
    pub(crate) timed_out: bool,
    /// It was all written, and when time ran out the broker answered something else.
    pub(crate) broker_answers: bool,
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

type Sending = Pin<Box<dyn Future<Output = (usize, Result<PublisherConfirm, Error>)> + Send>>;
type Confirming = Pin<Box<dyn Future<Output = (usize, Result<Confirmation, Error>)> + Send>>;

pub(crate) struct Flight {
    pub(crate) channel: Channel,
    /// What was handed over, in order, each with its place in the batch.
    pub(crate) messages: Vec<(usize, Arc<Envelope>)>,
    ids: HashSet<String>,
    sending: FuturesUnordered<Sending>,
    confirming: FuturesUnordered<Confirming>,
    pub(crate) report: Report,
}

impl Flight {
    pub(crate) fn new(channel: Channel) -> Self {
        Flight {
            channel,
            messages: Vec::new(),
            ids: HashSet::new(),
            sending: FuturesUnordered::new(),
            confirming: FuturesUnordered::new(),
            report: Report::default(),
        }
    }

    /// Hands a message to the library. Does not wait until it is written: that would make each message a round of
    /// the writing thread.
    pub(crate) async fn hand_over(&mut self, place: usize, envelope: Envelope) {
        let envelope = Arc::new(envelope);
        let index = self.messages.len();
        self.ids.insert(envelope.id.to_string());
        self.report.answers.push(Answer::Unwritten);
        self.messages.push((place, Arc::clone(&envelope)));
        let channel = self.channel.clone();
        let mut sending: Sending = Box::pin(async move { (index, publish(&channel, &envelope).await) });
        // The first poll takes the delivery tag and queues the frames, so it has to happen now, in order.
        match std::future::poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
            Poll::Ready((index, result)) => self.sent(index, result),
            Poll::Pending => self.sending.push(sending),
        }
    }

    /// Waits until the broker has processed what was handed over; its confirms may come later, for they wait for
    /// queues. An error: the broker closed the channel over it, or the connection broke. Cancel safe.
    pub(crate) async fn vetted(&mut self) -> Result<(), Error> {
        while let Some((index, result)) = self.sending.next().await {
            self.sent(index, result);
        }
        pool::sync(&self.channel).await
    }

    /// Waits for the answers. If something is not even written when time runs out, the connection is killed, and
    /// the library says what it had not written.
    pub(crate) async fn collect(&mut self, link: &Link, times: Times) {
        if timeout_at(times.cut.into(), self.answers()).await.is_ok() {
            return;
        }
        self.report.timed_out = true;
        if self.sending.is_empty() {
            self.report.broker_answers = link.answers(times.last).await;
        } else {
            link.socket.kill();
            let rest = async {
                while let Some((index, result)) = self.sending.next().await {
                    self.sent(index, result);
                }
            };
            let _ = timeout_at(times.last.into(), rest).await;
        }
    }

    async fn answers(&mut self) {
        loop {
            tokio::select! {
                biased;
                Some((index, result)) = self.sending.next(), if !self.sending.is_empty() => {
                    self.sent(index, result);
                }
                Some((index, result)) = self.confirming.next(), if !self.confirming.is_empty() => {
                    self.confirmed(index, result);
                }
                else => break,
            }
        }
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
        let id = message.delivery.properties.message_id().as_ref().map(|id| id.to_string());
        match id.filter(|id| self.ids.contains(id)) {
            Some(id) => {
                let returned = Returned { code: message.reply_code, text: message.reply_text.to_string() };
                self.report.returned.insert(id, returned);
            }
            None => self.report.stranger = true,
        }
    }
}

async fn publish(channel: &Channel, envelope: &Envelope) -> Result<PublisherConfirm, Error> {
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let (exchange, routing_key) = (envelope.exchange.clone(), envelope.routing_key.clone());
    channel
        .basic_publish(exchange, routing_key, options, &envelope.payload, envelope.properties.clone())
        .await
}
