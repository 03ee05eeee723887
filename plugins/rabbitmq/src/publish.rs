//! A batch, as a sequence of runs on one channel.
//!
//! Runs keep the batch's order. A message that could close the channel under its neighbours is a run of its own:
//! the first for an exchange that this connection has not used, and a suspect. Must not: publish a message twice.

use std::time::Instant;

use lapin::protocol::AMQPError;
use outrider_broker::{Cause, ErrorClass, Message, Outcome};
use tokio::time::timeout_at;

use crate::link::Link;
use crate::pool::Lease;
use crate::send::{self, Answer, Report};
use crate::wire::Envelope;
use crate::{classify, settle};

pub(crate) async fn publish(link: &Link, messages: &[Message], deadline: Instant) -> Vec<Outcome> {
    let limits = link.limits();
    let mut batch = Batch { open: Vec::new(), outcomes: vec![None; messages.len()] };
    for (index, message) in messages.iter().enumerate() {
        match Envelope::new(message, link.settings.persistent, limits) {
            Ok(envelope) => batch.open.push((index, envelope)),
            Err(refused) => batch.outcomes[index] = Some(refused),
        }
    }
    if let Err(cause) = batch.run(link, deadline).await {
        for (index, _) in batch.open.drain(..) {
            batch.outcomes[index] = Some(Outcome::NotSent(cause.clone()));
        }
    }
    let settled = batch.outcomes.into_iter();
    settled.map(|outcome| outcome.expect("what is not open any more has an outcome")).collect()
}

struct Batch {
    /// What has no outcome yet, in order, with its place in the batch.
    open: Vec<(usize, Envelope)>,
    outcomes: Vec<Option<Outcome>>,
}

impl Batch {
    /// Publishes until everything has an outcome. The error is why what is left was not handed over.
    async fn run(&mut self, link: &Link, deadline: Instant) -> Result<(), Cause> {
        if self.open.is_empty() {
            return Ok(());
        }
        if let Some(cause) = link.trouble() {
            return Err(cause);
        }
        let cut = send::cut(deadline);
        if cut <= Instant::now() {
            let text = "the deadline had passed before the message was sent";
            return Err(Cause::broker(ErrorClass::Timeout, text));
        }
        let Ok(mut lease) = timeout_at(cut.into(), link.pool.lease(&link.connection)).await else {
            let text =
                "all channels of the connection are busy; it has more batches than it can send in time";
            return Err(Cause::broker(ErrorClass::ClientFull, text));
        };
        while !self.open.is_empty() {
            if let Some(cause) = link.trouble() {
                return Err(cause);
            }
            let channel = match timeout_at(cut.into(), lease.channel()).await {
                Ok(Ok(channel)) => channel,
                Ok(Err(error)) => {
                    // Where the library can't open one on a living connection, only a new connection helps.
                    if !matches!(error.kind(), lapin::ErrorKind::ChannelsLimitReached) {
                        link.socket.kill();
                    }
                    return Err(classify::cause(&error));
                }
                Err(_) => return Err(link.stall()),
            };
            let length = self.next_run(link);
            let run: Vec<&Envelope> = self.open[..length].iter().map(|(_, envelope)| envelope).collect();
            let report = send::send(&channel, &run, &link.socket, cut, deadline).await;
            let outcomes = settle::outcomes(&run, &report, link.settings.unroutable, &link.stall());
            learn(link, &run, &report);
            retire(link, &mut lease, &report);
            let reply = report.closing_reply().filter(|_| length == 1).cloned();
            for ((index, _), outcome) in self.open.drain(..length).zip(outcomes) {
                self.outcomes[index] = Some(outcome);
            }
            if let Some(reply) = reply {
                self.spare(&reply);
            }
        }
        lease.give_back();
        Ok(())
    }

    /// How many of the open messages, from the first, travel together.
    fn next_run(&self, link: &Link) -> usize {
        let alone = |envelope: &Envelope| {
            !link.is_proven(envelope.exchange.as_str()) || link.suspects.contains(&envelope.id)
        };
        match self.open.iter().position(|(_, envelope)| alone(envelope)) {
            Some(0) => 1,
            Some(first) => first,
            None => self.open.len(),
        }
    }

    /// The broker has just said no to a destination: the others for it need not ask.
    fn spare(&mut self, reply: &AMQPError) {
        let cause = classify::reply(reply);
        let outcomes = &mut self.outcomes;
        self.open.retain(|(index, envelope)| {
            let spared = classify::names(reply, envelope.exchange.as_str(), envelope.routing_key.as_str());
            if spared {
                outcomes[*index] = Some(Outcome::NotSent(cause.clone()));
            }
            !spared
        });
    }
}

/// Remembers what the run showed about exchanges, the size limit and its messages.
fn learn(link: &Link, run: &[&Envelope], report: &Report) {
    for (envelope, answer) in run.iter().zip(&report.answers) {
        if matches!(answer, Answer::Acked { .. } | Answer::Nacked) {
            link.prove(envelope.exchange.as_str());
            link.suspects.clear_of_suspicion(&envelope.id);
        }
    }
    let Some(reply) = report.closing_reply() else { return };
    let limit = classify::size_limit(reply);
    if let Some(limit) = limit {
        link.learn_size_limit(limit);
    }
    let to_blame = |envelope: &Envelope| {
        classify::names(reply, envelope.exchange.as_str(), envelope.routing_key.as_str())
            || limit.is_some_and(|limit| envelope.payload.len() > limit)
    };
    let explained = run.iter().any(|envelope| to_blame(envelope));
    for (envelope, answer) in run.iter().zip(&report.answers) {
        if matches!(answer, Answer::Lost(_) | Answer::NotHandedOver(_)) {
            if run.len() == 1 {
                link.suspects.clear_of_suspicion(&envelope.id);
            } else if !explained {
                link.suspects.add(envelope.id);
            }
            if to_blame(envelope) {
                link.doubt(|exchange| exchange == envelope.exchange.as_str());
            }
        }
    }
}

/// Takes the channel out of use unless every answer on it is in.
fn retire(link: &Link, lease: &mut Lease<'_>, report: &Report) {
    if !report.is_whole()
        && let Some(channel) = lease.give_up()
    {
        link.retire(channel);
    }
}
