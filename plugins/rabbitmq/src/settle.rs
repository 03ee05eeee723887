//! What the answers of a flight mean for each of its messages. Pure.
//!
//! # Why an ack may be believed
//!
//! A return comes before its own message's ack, and the library gives the oldest return that waits to whichever
//! confirm completes next, so returns end up on the wrong confirms. But none gets lost while confirms complete:
//!
//! - An ack without a return found no return waiting, so its own message's one, had there been any, is on a
//!   confirm that completed earlier, and so in [`Report::returned`].
//! - When every message of the flight has been acked or nacked, each return was followed by at least one completed
//!   confirm, so none is waiting any more, and `returned` has them all.
//! - An ack that carries another message's return, in a flight whose rest is lost, proves nothing: unknown.

use std::sync::Arc;

use outrider_broker::{Cause, ErrorClass, Outcome, Receipt, Refusal, Scope};

use crate::classify;
use crate::flight::{Answer, Report, Returned};
use crate::params::Unroutable;
use crate::wire::Envelope;

/// One outcome for each message of a flight, in order. `stall` is why an answer may be missing when time ran out.
pub(crate) fn outcomes(
    messages: &[(usize, Arc<Envelope>)],
    report: &Report,
    unroutable: Unroutable,
    stall: &Cause,
) -> Vec<Outcome> {
    let whole = report.is_whole();
    let mut outcomes = Vec::with_capacity(messages.len());
    for ((_, envelope), answer) in messages.iter().zip(&report.answers) {
        let outcome = match (report.returned.get(&envelope.id.to_string()), answer) {
            (Some(returned), _) => self::returned(returned, envelope, unroutable),
            (None, Answer::Acked { carries_return }) => acked(*carries_return, whole, report.stranger),
            (None, Answer::Nacked) => Outcome::Retry(nacked()),
            (None, Answer::NotRequested) => {
                let text =
                    "the channel was not in confirm mode, so nobody knows whether the broker has the message";
                Outcome::Unknown(Cause::broker(ErrorClass::ClientFatal, text))
            }
            (None, Answer::Silent | Answer::Unwritten) => Outcome::Unknown(stall.clone()),
            (None, Answer::Lost(error)) => match over_limit(envelope, report) {
                Some(refused) => refused,
                None => lost(messages.len() == 1, envelope, report)
                    .unwrap_or_else(|| Outcome::Unknown(classify::cause(error))),
            },
            (None, Answer::NotHandedOver(error)) => match over_limit(envelope, report) {
                Some(refused) => refused,
                None if report.timed_out => Outcome::NotSent(stall.clone()),
                None => Outcome::NotSent(
                    report
                        .closing_reply()
                        .map_or_else(|| classify::cause(error), |reply| beside(reply, envelope)),
                ),
            },
        };
        outcomes.push(outcome);
    }
    outcomes
}

/// The channel closed over a limit that this message exceeds: no copy of it is anywhere.
fn over_limit(envelope: &Envelope, report: &Report) -> Option<Outcome> {
    let limit = classify::size_limit(report.closing_reply()?)?;
    (envelope.payload.len() > limit).then(|| classify::too_large(envelope.payload.len(), limit))
}

/// The channel closed before this message's confirm came. Alone on it, the message is what the broker spoke of.
fn lost(alone: bool, envelope: &Envelope, report: &Report) -> Option<Outcome> {
    let reply = report.closing_reply()?;
    match alone {
        true => classify::verdict(reply, envelope.payload.len()),
        false => Some(Outcome::Unknown(beside(reply, envelope))),
    }
}

/// The cause of a message whose channel closed over `reply`: the reply itself if it names the message's
/// destination, else that a neighbour was to blame.
fn beside(reply: &lapin::protocol::AMQPError, envelope: &Envelope) -> Cause {
    let cause = classify::reply(reply);
    if classify::names(reply, envelope.exchange.as_str(), envelope.routing_key.as_str()) {
        return Cause { scope: Scope::Destination, ..cause };
    }
    let text =
        format!("the channel closed over another message before this one was confirmed; {}", cause.text);
    Cause::event(ErrorClass::Other, text)
}

fn acked(carries_return: bool, whole: bool, stranger: bool) -> Outcome {
    if !stranger && (whole || !carries_return) {
        return Outcome::Confirmed(Receipt::default());
    }
    let text =
        "acked, but beside returned messages that cannot be told apart since the channel closed meanwhile";
    Outcome::Unknown(Cause::event(ErrorClass::Other, text))
}

fn nacked() -> Cause {
    let text = "the broker answered nack: a queue with `overflow = reject-publish` is full, or a queue has failed; \
                other queues bound to the exchange may have a copy";
    Cause::destination(ErrorClass::Unavailable, text)
}

fn returned(returned: &Returned, envelope: &Envelope, unroutable: Unroutable) -> Outcome {
    let remedy = match envelope.exchange.as_str() {
        "" => format!("there is no queue `{}`: declare it", envelope.routing_key),
        exchange => format!(
            "no queue is bound to exchange `{exchange}` for routing key `{}`: bind one",
            envelope.routing_key
        ),
    };
    let text = format!("{remedy} (returned with {} {})", returned.code, returned.text);
    match unroutable {
        Unroutable::Wait => Outcome::Retry(Cause::destination(ErrorClass::Unroutable, text)),
        Unroutable::Refuse => {
            let cause = Cause::event(ErrorClass::Unroutable, text);
            Outcome::Refused(Refusal { cause, permanent: false })
        }
    }
}

#[cfg(test)]
mod tests;
