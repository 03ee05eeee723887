//! What became of a message. Publishing has no error: each message ends in exactly one outcome.

use std::fmt;

/// The end of one publish.
///
/// The difference between [`Outcome::NotSent`], [`Outcome::Retry`] and [`Outcome::Unknown`] decides
/// whether a duplicate is possible, so a plugin must not guess: what was handed to the socket and not
/// answered is `Unknown`, whatever the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The broker has the message: Kafka's delivery report with `acks=all`, a publisher confirm without
    /// a return, a JetStream publish ack. Nothing less.
    Confirmed(Receipt),
    /// The broker answered, and the answer is no, for a reason that is not the event's fault
    /// (no leader, not enough replicas, queue full, unknown topic). Costs the event nothing.
    Retry(Cause),
    /// The event is to blame: too large, an impossible destination, invalid headers.
    Refused(Refusal),
    /// Handed over and not answered before the deadline, or the connection broke meanwhile.
    Unknown(Cause),
    /// Never handed over. Costs the event nothing.
    NotSent(Cause),
}

impl Outcome {
    /// Name for metrics: `confirmed`, `retry`, `refused`, `unknown` or `not_sent`.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Confirmed(_) => "confirmed",
            Outcome::Retry(_) => "retry",
            Outcome::Refused(_) => "refused",
            Outcome::Unknown(_) => "unknown",
            Outcome::NotSent(_) => "not_sent",
        }
    }

    /// What went wrong, or `None` when the message was confirmed.
    pub fn cause(&self) -> Option<&Cause> {
        match self {
            Outcome::Confirmed(_) => None,
            Outcome::Refused(refusal) => Some(&refusal.cause),
            Outcome::Retry(cause) | Outcome::Unknown(cause) | Outcome::NotSent(cause) => Some(cause),
        }
    }
}

/// The broker's word that it has a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// Where the broker put it (`3/1042` for partition and offset, `7` for a stream's sequence).
    pub position: Option<String>,
    /// The broker had a message of this id already and kept only that one.
    pub duplicate: bool,
}

/// A message that the broker (or the plugin, before the wire) will not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub cause: Cause,
    /// It can never work unchanged: dead at once. Otherwise tried again up to `max_refusals`.
    pub permanent: bool,
}

/// Whom a failure concerns, and so what pauses because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The whole broker: its breaker opens, nothing more is claimed for it until a probe succeeds.
    Broker,
    /// One destination: the topic that is routed there pauses with backoff, others go on.
    Destination,
    /// One event.
    Event,
}

/// A fixed list of reasons, for metrics and for telling people what to do. Never free text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// No connection could be made, or it broke.
    Unreachable,
    /// Credentials were refused.
    Authentication,
    /// The credentials may not do this.
    Authorization,
    /// The broker is there and asks publishers to wait (memory or disk alarm, blocked connection).
    Blocked,
    /// No answer in time.
    Timeout,
    /// The broker cannot take it at the moment (no leader, not enough replicas, queue or stream full).
    Unavailable,
    /// Topic, exchange, queue or stream is not there.
    UnknownDestination,
    /// Reached the exchange, and no queue is bound for it.
    Unroutable,
    /// Over the broker's or the plugin's size limit.
    TooLarge,
    /// A destination, header or key that the broker's protocol cannot carry.
    Invalid,
    /// The client is at its own limit; wait.
    ClientFull,
    /// The client cannot go on and has to be built anew.
    ClientFatal,
    /// The breaker is open, the daemon is stopping, or the publisher died: not the broker's doing.
    Local,
    /// Anything else.
    Other,
}

impl ErrorClass {
    /// Name for metrics and logs, in snake case.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Unreachable => "unreachable",
            ErrorClass::Authentication => "authentication",
            ErrorClass::Authorization => "authorization",
            ErrorClass::Blocked => "blocked",
            ErrorClass::Timeout => "timeout",
            ErrorClass::Unavailable => "unavailable",
            ErrorClass::UnknownDestination => "unknown_destination",
            ErrorClass::Unroutable => "unroutable",
            ErrorClass::TooLarge => "too_large",
            ErrorClass::Invalid => "invalid",
            ErrorClass::ClientFull => "client_full",
            ErrorClass::ClientFatal => "client_fatal",
            ErrorClass::Local => "local",
            ErrorClass::Other => "other",
        }
    }
}

/// Why a message was not confirmed, or a connection could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub scope: Scope,
    pub class: ErrorClass,
    /// One line for people, with the remedy where there is one. Holds no payload, no header value, no
    /// secret; sizes and limits in bytes. Stored as the event's `last_error`.
    pub text: String,
}

impl Cause {
    pub fn new(scope: Scope, class: ErrorClass, text: impl Into<String>) -> Self {
        Cause { scope, class, text: text.into() }
    }

    pub fn broker(class: ErrorClass, text: impl Into<String>) -> Self {
        Cause::new(Scope::Broker, class, text)
    }

    pub fn destination(class: ErrorClass, text: impl Into<String>) -> Self {
        Cause::new(Scope::Destination, class, text)
    }

    pub fn event(class: ErrorClass, text: impl Into<String>) -> Self {
        Cause::new(Scope::Event, class, text)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
