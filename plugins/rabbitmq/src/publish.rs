//! A batch, over one or more channels.
//!
//! Messages are handed over in the batch's order. One that could close the channel under its neighbours is vetted:
//! it goes first on a channel of its own, and the next is handed over when the broker has processed it. That is the
//! first message for an exchange that this connection has not used, and a suspect. Must not: publish a message twice.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use outrider_broker::{Cause, ErrorClass, Message, Outcome};
use tokio::time::{timeout, timeout_at};

use crate::flight::{Answer, Flight, Times};
use crate::link::Link;
use crate::pool::MAX_CHANNELS;
use crate::wire::Envelope;
use crate::{classify, settle};

/// How long the rest of a batch waits for the verdict on one message, at most. A broker answers in milliseconds;
/// one whose channel is held up by a queue may take for ever.
const VET_PATIENCE: Duration = Duration::from_secs(1);

pub(crate) async fn publish(link: &Link, messages: &[Message], deadline: Instant) -> Vec<Outcome> {
    let limits = link.limits();
    let mut batch = Batch {
        link,
        times: Times::until(deadline),
        waiting: VecDeque::new(),
        main: None,
        flights: Vec::new(),
        outcomes: vec![None; messages.len()],
    };
    for (place, message) in messages.iter().enumerate() {
        match Envelope::new(message, link.settings.persistent, limits) {
            Ok(envelope) => batch.waiting.push_back((place, envelope)),
            Err(refused) => batch.outcomes[place] = Some(refused),
        }
    }
    if let Err(cause) = batch.run().await {
        for (place, _) in batch.waiting.drain(..) {
            batch.outcomes[place] = Some(Outcome::NotSent(cause.clone()));
        }
    }
    let outcomes = batch.outcomes.into_iter();
    outcomes.map(|outcome| outcome.expect("what neither waits nor flies has an outcome")).collect()
}

struct Batch<'a> {
    link: &'a Link,
    times: Times,
    /// What was not handed over yet, in order, with its place in the batch.
    waiting: VecDeque<(usize, Envelope)>,
    /// The channel of what needs no vetting.
    main: Option<Flight>,
    /// Channels of what was vetted, or is held up.
    flights: Vec<Flight>,
    outcomes: Vec<Option<Outcome>>,
}

impl Batch<'_> {
    /// Publishes everything and settles what was handed over. The error is why the rest was not.
    async fn run(&mut self) -> Result<(), Cause> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if let Some(cause) = self.link.trouble() {
            return Err(cause);
        }
        let cut = self.times.cut;
        if cut <= Instant::now() {
            let text = "the deadline had passed before the message was sent";
            return Err(Cause::broker(ErrorClass::Timeout, text));
        }
        let Ok(_permit) = timeout_at(cut.into(), self.link.pool.admit()).await else {
            let text = "the connection has more batches than it can send in time";
            return Err(Cause::broker(ErrorClass::ClientFull, text));
        };
        let handed_over = self.hand_over().await;
        self.flights.extend(self.main.take());
        let (link, times) = (self.link, self.times);
        join_all(self.flights.iter_mut().map(|flight| flight.collect(link, times))).await;
        for flight in std::mem::take(&mut self.flights) {
            self.settle(flight);
        }
        handed_over
    }

    async fn hand_over(&mut self) -> Result<(), Cause> {
        while let Some((_, envelope)) = self.waiting.front() {
            let vet =
                !self.link.is_proven(envelope.exchange.as_str()) || self.link.suspects.contains(&envelope.id);
            let channel = match vet || self.main.is_none() {
                true => Some(self.channel().await?),
                false => None,
            };
            let Some((place, envelope)) = self.waiting.pop_front() else { break };
            match channel.map(Flight::new) {
                Some(flight) if vet => self.vet(flight, place, envelope).await,
                flight => {
                    let main = self.main.take().or(flight);
                    self.main.insert(main.expect("taken above")).hand_over(place, envelope).await;
                }
            }
        }
        Ok(())
    }

    /// A channel with nothing on it.
    async fn channel(&mut self) -> Result<lapin::Channel, Cause> {
        if let Some(cause) = self.link.trouble() {
            return Err(cause);
        }
        if self.flights.len() == MAX_CHANNELS {
            let mut oldest = self.flights.remove(0);
            oldest.collect(self.link, self.times).await;
            self.settle(oldest);
        }
        match timeout_at(self.times.cut.into(), self.link.pool.take(&self.link.connection)).await {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => {
                // Where the library can't open one on a living connection, only a new connection helps.
                if !matches!(error.kind(), lapin::ErrorKind::ChannelsLimitReached) {
                    self.link.socket.kill();
                }
                Err(classify::cause(&error))
            }
            Err(_) => Err(self.link.stall()),
        }
    }

    /// Hands over a message alone, and waits for the broker's verdict for a while.
    async fn vet(&mut self, mut flight: Flight, place: usize, envelope: Envelope) {
        let (id, exchange, routing_key) =
            (envelope.id, envelope.exchange.clone(), envelope.routing_key.clone());
        flight.hand_over(place, envelope).await;
        let left = self.times.cut.saturating_duration_since(Instant::now());
        match timeout(VET_PATIENCE.min(left / 2), flight.vetted()).await {
            Ok(Ok(())) => {
                self.link.prove(exchange.as_str());
                self.link.suspects.clear_of_suspicion(&id);
                match self.main {
                    None => self.main = Some(flight),
                    Some(_) => self.flights.push(flight),
                }
            }
            Ok(Err(_)) => {
                flight.collect(self.link, self.times).await;
                if let Some(reply) = flight.report.closing_reply().cloned() {
                    self.spare(&classify::reply(&reply), |envelope| {
                        classify::names(&reply, envelope.exchange.as_str(), envelope.routing_key.as_str())
                    });
                }
                self.settle(flight);
            }
            // Held up by a queue, or the broker is gone: the rest of the batch will show which.
            Err(_) => {
                self.flights.push(flight);
                self.spare(&stuck(), |envelope| {
                    envelope.exchange == exchange && envelope.routing_key == routing_key
                });
            }
        }
    }

    /// What waits for a destination with trouble of its own need not try.
    fn spare(&mut self, cause: &Cause, spared: impl Fn(&Envelope) -> bool) {
        let outcomes = &mut self.outcomes;
        self.waiting.retain(|(place, envelope)| {
            let spared = spared(envelope);
            if spared {
                outcomes[*place] = Some(Outcome::NotSent(cause.clone()));
            }
            !spared
        });
    }

    /// Turns a collected flight into outcomes, and its channel into an idle one if nothing is outstanding on it.
    fn settle(&mut self, flight: Flight) {
        learn(self.link, &flight);
        let stall = match flight.report.broker_answers {
            true => stuck(),
            false => self.link.stall(),
        };
        let outcomes =
            settle::outcomes(&flight.messages, &flight.report, self.link.settings.unroutable, &stall);
        for ((place, _), outcome) in flight.messages.iter().zip(outcomes) {
            self.outcomes[*place] = Some(outcome);
        }
        match flight.report.is_whole() {
            true => self.link.pool.keep(flight.channel),
            false => self.link.retire(flight.channel),
        }
    }
}

fn stuck() -> Cause {
    let text = "the broker answers, and the confirm did not come in time: a queue that is bound there is stuck or slow, \
                such as a quorum queue without a majority";
    Cause::destination(ErrorClass::Timeout, text)
}

/// Remembers what a channel showed about exchanges, the size limit and the messages on it.
fn learn(link: &Link, flight: &Flight) {
    if let ([(_, envelope)], [Answer::Acked { .. } | Answer::Nacked]) =
        (&flight.messages[..], &flight.report.answers[..])
    {
        // Also where the verdict came too late to be waited for.
        link.prove(envelope.exchange.as_str());
    }
    let Some(reply) = flight.report.closing_reply() else { return };
    let limit = classify::size_limit(reply);
    if let Some(limit) = limit {
        link.learn_size_limit(limit);
    }
    let to_blame = |envelope: &Envelope| {
        classify::names(reply, envelope.exchange.as_str(), envelope.routing_key.as_str())
            || limit.is_some_and(|limit| envelope.payload.len() > limit)
    };
    let explained = flight.messages.iter().any(|(_, envelope)| to_blame(envelope));
    for ((_, envelope), answer) in flight.messages.iter().zip(&flight.report.answers) {
        if !matches!(answer, Answer::Lost(_) | Answer::NotHandedOver(_)) {
            continue;
        }
        if flight.messages.len() == 1 {
            link.suspects.clear_of_suspicion(&envelope.id);
        } else if !explained {
            link.suspects.add(envelope.id);
        }
        if to_blame(envelope) {
            link.doubt(envelope.exchange.as_str());
        }
    }
}
