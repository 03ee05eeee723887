//! Everything that a check has to remember: the state.

use crate::database::{Database, Row};
use crate::memory::{Process, Slot};
use crate::seqs::Seqs;
use crate::setup::{Faults, Setup};

/// What consumers can tell of the broker's log. The log itself grows with every copy; this does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Broker {
    /// Events of which the log has a copy.
    pub has: Seqs,
    /// Events of which a copy is on its way and nobody waits for its confirm any more.
    pub adrift: Seqs,
}

/// What must never happen, noted when it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Broken {
    /// A first copy arrived before that of an earlier event of its key.
    pub order: bool,
    /// A copy arrived from a process while another one had the lane.
    pub side_by_side: bool,
    /// A failure was written for an owner whose claims another had reclaimed.
    pub fence: bool,
    /// An event that was settled as sent has a row again.
    pub sent_twice: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct World {
    pub database: Database,
    pub processes: Vec<Process>,
    pub broker: Broker,
    /// Faults that may still come.
    pub left: Faults,
    pub broken: Broken,
}

impl World {
    pub fn new(setup: &Setup) -> Self {
        let mut database = Database::default();
        if setup.written {
            setup.events().for_each(|seq| database.set(seq, Row::Ready));
        }
        World {
            database,
            processes: vec![Process::default(); setup.replicas],
            broker: Broker::default(),
            left: setup.faults,
            broken: Broken::default(),
        }
    }

    /// The end of a lease in time: what was handed over under it has arrived by now, or never will.
    pub fn deadlines_pass(&mut self) {
        self.broker.adrift = Seqs::NONE;
        let claims = self.processes.iter_mut().flat_map(|process| process.claims_mut());
        for (_, slot) in claims.flat_map(|claim| claim.slots.iter_mut()) {
            if *slot == (Slot::Out { timely: true }) {
                *slot = Slot::Lost;
            }
        }
    }
}
