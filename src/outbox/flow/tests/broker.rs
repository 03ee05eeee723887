//! What reached the broker, and whether the first copies of each key did in the order of `seq`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use outrider_broker::{Cause, ErrorClass, Outcome, Receipt, Refusal, Scope};

use super::dice::Dice;

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Copy {
    pub(super) topic: Arc<str>,
    pub(super) key: Option<Arc<str>>,
    pub(super) seq: i64,
}

/// When a message reaches the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    AtOnce,
    BeforeReport,
    /// Some time after the report.
    Late,
    Never,
}

#[derive(Debug, Default)]
pub(super) struct Broker {
    arrived: HashSet<i64>,
    highest: HashMap<(Arc<str>, Arc<str>), i64>,
    /// On their way without anybody waiting for them.
    late: Vec<Copy>,
    /// Events without a place in their key's order: scheduled ones, and dead ones that were passed over.
    pub(super) unordered: HashSet<i64>,
}

impl Broker {
    pub(super) fn arrive(&mut self, copy: &Copy) {
        if !self.arrived.insert(copy.seq) || self.unordered.contains(&copy.seq) {
            return;
        }
        let Some(key) = &copy.key else { return };
        let highest = self.highest.entry((copy.topic.clone(), key.clone())).or_insert(0);
        assert!(*highest < copy.seq, "first copy of {copy:?} came after that of {highest}");
        *highest = copy.seq;
    }

    pub(super) fn has(&self, seq: i64) -> bool {
        self.arrived.contains(&seq)
    }

    pub(super) fn comes_late(&mut self, copy: Copy) {
        self.late.push(copy);
    }

    /// One of the late ones arrives.
    pub(super) fn deliver_late(&mut self, dice: &mut Dice) {
        if !self.late.is_empty() {
            let copy = self.late.swap_remove(dice.below(self.late.len()));
            self.arrive(&copy);
        }
    }
}

fn cause(scope: Scope) -> Cause {
    Cause::new(scope, ErrorClass::Other, "the dice said so")
}

/// What becomes of a publish. A cursed event never gets an answer.
pub(super) fn outcome(dice: &mut Dice, troubled: bool, cursed: bool) -> (Outcome, Arrival) {
    let confirmed = Outcome::Confirmed(Receipt::default());
    let arrives = if dice.percent(50) { Arrival::AtOnce } else { Arrival::BeforeReport };
    if cursed {
        return (Outcome::Unknown(cause(Scope::Broker)), Arrival::Never);
    }
    if !troubled {
        return (confirmed, arrives);
    }
    match dice.below(100) {
        0..75 => (confirmed, arrives),
        75..79 => (Outcome::Retry(cause(Scope::Destination)), Arrival::Never),
        79..82 => (Outcome::Retry(cause(Scope::Broker)), Arrival::Never),
        82..84 => (Outcome::NotSent(cause(Scope::Broker)), Arrival::Never),
        84..90 => {
            (Outcome::Refused(Refusal { cause: cause(Scope::Event), permanent: false }), Arrival::Never)
        }
        90..92 => (Outcome::Refused(Refusal { cause: cause(Scope::Event), permanent: true }), Arrival::Never),
        92..95 => (Outcome::Unknown(cause(Scope::Broker)), Arrival::Never),
        95..97 => (Outcome::Unknown(cause(Scope::Broker)), Arrival::Late),
        _ => (Outcome::Unknown(cause(Scope::Broker)), arrives),
    }
}
