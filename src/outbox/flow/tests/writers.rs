//! Applications that write events in transactions of their own: overlapping, rolled back now and then, and
//! always one after another where they write the same key.

use std::sync::Arc;
use std::time::Duration;

use crate::outbox::lease::Moment;

use super::broker::Broker;
use super::database::{Database, Delivery, Hold, Writer};
use super::dice::Dice;

/// A transaction gets its id less than this long after its `seq`: the limit within which order is promised.
const SEQ_TO_XID: Duration = Duration::from_millis(19);

/// Transactions end before the floor passes them.
const LONGEST: Duration = Duration::from_secs(30);

/// Open at the same time at most.
const OPEN: usize = 5;

/// What they write to.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) topics: Vec<Arc<str>>,
    pub(super) keys: Vec<Arc<str>>,
}

impl Database {
    /// One writer does something.
    pub(super) fn write(&mut self, dice: &mut Dice, names: &Names, broker: &mut Broker, now: Moment) {
        if self.writers.len() < OPEN && dice.percent(50) {
            self.writers.push(Writer { xid: None, began: now, rows: Vec::new() });
            self.insert(self.writers.len() - 1, dice, names, broker, now);
        } else if !self.writers.is_empty() {
            let writer = dice.below(self.writers.len());
            self.identify(writer);
            if dice.percent(40) {
                self.insert(writer, dice, names, broker, now);
            } else {
                self.end(writer, dice.percent(85));
            }
        }
    }

    fn insert(&mut self, writer: usize, dice: &mut Dice, names: &Names, broker: &mut Broker, now: Moment) {
        for _ in 0..dice.between(1, 2) {
            let key = names.keys[dice.below(names.keys.len())].clone();
            let others = self.writers.iter().enumerate().filter(|(other, _)| *other != writer);
            let taken =
                others.flat_map(|(_, other)| &other.rows).any(|(_, row)| row.key.as_ref() == Some(&key));
            let key = (!taken && dice.percent(85)).then_some(key);
            let scheduled = dice.percent(8);
            let seq = self.take_seq();
            if scheduled {
                broker.unordered.insert(seq);
            }
            let row = Delivery {
                topic: names.topics[dice.below(names.topics.len())].clone(),
                key,
                hold: if scheduled { Hold::Scheduled } else { Hold::Ready },
                due: if scheduled { now.after(Duration::from_millis(200)) } else { now },
                attempts: 0,
                refusals: 0,
            };
            self.writers[writer].rows.push((seq, row));
        }
    }

    fn identify(&mut self, writer: usize) {
        if self.writers[writer].xid.is_none() {
            self.writers[writer].xid = Some(self.take_xid());
        }
    }

    /// What has to happen before it is `then`.
    pub(super) fn hurry_writers(&mut self, then: Moment) {
        for writer in (0..self.writers.len()).rev() {
            if then.since(self.writers[writer].began) > SEQ_TO_XID {
                self.identify(writer);
            }
            if then.since(self.writers[writer].began) > LONGEST {
                self.end(writer, true);
            }
        }
    }

    /// All transactions end.
    pub(super) fn finish_writers(&mut self) {
        while !self.writers.is_empty() {
            self.identify(0);
            self.end(0, true);
        }
    }
}
