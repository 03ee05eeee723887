//! What a store was told to do with messages. Pure.

use std::fmt;

use outrider_broker::{Message, Outcome};

/// What becomes of a message.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// No answer and not kept, until the rule is taken back; then as if it had just come. At the deadline the
    /// outcome is unknown.
    Stall,
    /// It arrives (and is kept), but its answer is lost: the outcome is the given one. This is how duplicates
    /// come about.
    Lose(Outcome),
    /// It does not arrive, and this is the outcome.
    Answer(Outcome),
    /// The publisher's code is at fault.
    Panic,
}

/// Names a rule, to take it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId(u64);

struct Rule {
    id: RuleId,
    concerns: Box<dyn Fn(&Message) -> bool + Send + Sync>,
    behaviour: Behaviour,
    /// Messages that it still holds for; `None`: all.
    left: Option<usize>,
}

/// The rules of a store; the first that concerns a message holds for it.
#[derive(Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    next: u64,
}

impl Rules {
    pub(crate) fn add(
        &mut self,
        concerns: impl Fn(&Message) -> bool + Send + Sync + 'static,
        behaviour: Behaviour,
        times: Option<usize>,
    ) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.rules.push(Rule { id, concerns: Box::new(concerns), behaviour, left: times });
        id
    }

    pub(crate) fn remove(&mut self, id: RuleId) {
        self.rules.retain(|rule| rule.id != id);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// What holds for this message, if anything does. A limited rule counts down, except by stalling: a message
    /// that waits asks again and again.
    pub(crate) fn apply(&mut self, message: &Message) -> Option<Behaviour> {
        let at = self.rules.iter().position(|rule| (rule.concerns)(message))?;
        let rule = &mut self.rules[at];
        let behaviour = rule.behaviour.clone();
        if let (Some(left), false) = (&mut rule.left, matches!(behaviour, Behaviour::Stall)) {
            *left -= 1;
            if *left == 0 {
                self.rules.remove(at);
            }
        }
        Some(behaviour)
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rules.iter().map(|rule| &rule.behaviour)).finish()
    }
}
