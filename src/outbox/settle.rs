//! From what a broker said to what is written back: the only place where an event's life is decided.

use std::time::Duration;

use outrider_broker::Outcome;

use crate::outbox::retry::Backoff;

/// Limits of an event's life, from the tenant's `[delivery]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Refusals after which an event is dead; at least 1.
    pub max_refusals: u32,
    /// Unknown outcomes after which an event is tried alone, and then may end dead; at least 1.
    pub max_unknown: u32,
    pub backoff: Backoff,
}

/// What an event has behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// Publishes that may have reached a broker without being settled as sent.
    pub attempts: u32,
    /// Refusals among them since the last requeue.
    pub refusals: u32,
}

impl Past {
    /// Attempts that ended without a word from the broker.
    pub fn unknowns(&self) -> u32 {
        self.attempts.saturating_sub(self.refusals)
    }

    /// Whether this event may be the reason why its attempts end unknown, so that it has to be tried alone.
    pub fn is_suspect(&self, limits: &Limits) -> bool {
        self.unknowns() >= limits.max_unknown
    }
}

/// What is written back for one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The broker has it.
    Sent,
    /// Refused; again after `delay`.
    Refused { delay: Duration, error: String },
    /// No word from the broker; again after `delay`.
    Unknown { delay: Duration, error: String },
    /// Not tried again until an operator requeues it.
    Dead { error: String },
    /// Not to blame: back as it was, its attempt given back.
    Released,
    /// Behind an earlier event of its key that was not sent.
    Blocked,
}

impl Verdict {
    /// Whether later events of the key have to wait for this one.
    pub fn holds_back(&self) -> bool {
        matches!(self, Verdict::Refused { .. } | Verdict::Unknown { .. } | Verdict::Dead { .. })
    }
}

/// Decides. `convicted` says that the event was tried alone, that it ended so before, and that others of
/// its route were confirmed in between: then one more unknown outcome is its end. `jitter` in `0.0..=1.0`.
pub fn judge(outcome: &Outcome, past: Past, limits: &Limits, convicted: bool, jitter: f64) -> Verdict {
    match outcome {
        Outcome::Confirmed(_) => Verdict::Sent,
        Outcome::Retry(_) | Outcome::NotSent(_) => Verdict::Released,
        Outcome::Refused(refusal) => {
            let refusals = past.refusals.saturating_add(1);
            if refusal.permanent {
                Verdict::Dead { error: refusal.cause.text.clone() }
            } else if refusals >= limits.max_refusals {
                Verdict::Dead { error: format!("refused {refusals} times: {}", refusal.cause) }
            } else {
                let delay = limits.backoff.delay(refusals, jitter);
                Verdict::Refused { delay, error: refusal.cause.text.clone() }
            }
        }
        Outcome::Unknown(cause) => {
            let unknowns = past.unknowns().saturating_add(1);
            if convicted {
                let error = format!(
                    "no confirm in {unknowns} attempts, the last ones alone, while others of its route were confirmed: {cause}"
                );
                return Verdict::Dead { error };
            }
            Verdict::Unknown { delay: limits.backoff.delay(unknowns, jitter), error: cause.text.clone() }
        }
    }
}

#[cfg(test)]
mod tests {
    use outrider_broker::{Cause, ErrorClass, Receipt, Refusal};

    use super::*;

    const LIMITS: Limits = Limits {
        max_refusals: 3,
        max_unknown: 5,
        backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_secs(60) },
    };

    fn cause() -> Cause {
        Cause::event(ErrorClass::Other, "because")
    }

    fn refused(permanent: bool) -> Outcome {
        Outcome::Refused(Refusal { cause: cause(), permanent })
    }

    fn past(attempts: u32, refusals: u32) -> Past {
        Past { attempts, refusals }
    }

    #[test]
    fn only_refusals_make_an_event_dead() {
        let dead = |error: &str| Verdict::Dead { error: error.into() };
        let again =
            |seconds| Verdict::Refused { delay: Duration::from_secs(seconds), error: "because".into() };
        let table = [
            (Outcome::Confirmed(Receipt::default()), past(900, 2), Verdict::Sent),
            (Outcome::Retry(cause()), past(900, 2), Verdict::Released),
            (Outcome::NotSent(cause()), past(900, 2), Verdict::Released),
            (refused(false), past(0, 0), again(1)),
            (refused(false), past(1, 1), again(2)),
            (refused(false), past(2, 2), dead("refused 3 times: because")),
            (refused(false), past(u32::MAX, u32::MAX), dead("refused 4294967295 times: because")),
            (refused(true), past(0, 0), dead("because")),
        ];
        for (outcome, past, verdict) in table {
            assert_eq!(judge(&outcome, past, &LIMITS, false, 1.0), verdict, "{outcome:?} after {past:?}");
        }
    }

    #[test]
    fn an_unknown_outcome_is_fatal_only_to_a_convicted_event() {
        let outcome = Outcome::Unknown(cause());
        for attempts in [0, 4, 5, 100, u32::MAX] {
            let verdict = judge(&outcome, past(attempts, 0), &LIMITS, false, 1.0);
            assert!(matches!(verdict, Verdict::Unknown { .. }), "{attempts}");
        }
        assert!(matches!(judge(&outcome, past(5, 0), &LIMITS, true, 1.0), Verdict::Dead { .. }));
        assert_eq!(
            judge(&Outcome::Confirmed(Receipt::default()), past(5, 0), &LIMITS, true, 1.0),
            Verdict::Sent
        );
    }

    #[test]
    fn refusals_do_not_count_as_unknown() {
        assert!(!past(7, 3).is_suspect(&LIMITS));
        assert!(past(8, 3).is_suspect(&LIMITS));
        assert!(!past(0, 3).is_suspect(&LIMITS));
    }
}
