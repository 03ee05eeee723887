//! The board: what children write about themselves and the admin port reads. No child waits for it, and no
//! decision is made from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::reasons::Reasons;

/// The supervisor acts ten times a second; silent for this long it is stuck.
const SUPERVISOR_STUCK: Duration = Duration::from_secs(5);

/// How much later than it promised a child may act: what a busy machine and a slow scheduler need. Twice as much is that
/// much longer until a stuck one is noticed; half as much names children that only had no processor.
pub(super) const SLACK: Duration = Duration::from_secs(5);

/// Within this a child that waits for a statement acts again, however slow or gone its database is: connecting, the
/// statement and its reply have deadlines that make up half of it.
pub(super) const STATEMENT: Duration = Duration::from_secs(25);

/// How a tenant does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TenantState {
    /// Nothing is known yet.
    Starting,
    /// Its database answers and its schema fits.
    Working,
    /// It waits, for this reason.
    Failing(String),
}

#[derive(Clone, Debug)]
struct Tenant {
    state: TenantState,
    /// Reasons that it gave since it last worked.
    said: Reasons,
}

/// See the module.
#[derive(Debug)]
pub struct Board {
    supervisor_acted: Mutex<Instant>,
    tenants: Mutex<BTreeMap<Arc<str>, Tenant>>,
    pulses: Mutex<Pulses>,
}

#[derive(Debug, Default)]
struct Pulses {
    last: u64,
    living: BTreeMap<u64, Arc<Beat>>,
}

#[derive(Debug)]
struct Beat {
    who: String,
    time: Mutex<BeatTime>,
}

#[derive(Clone, Copy, Debug)]
struct BeatTime {
    acted: Instant,
    /// Acts again until then.
    due: Instant,
}

/// A child's word that it lives: each time it acts it promises when it will again. One that broke its promise by
/// [`SLACK`] is stuck. Dropped when there is nothing to promise any more.
#[derive(Debug)]
pub struct Pulse {
    id: u64,
    beat: Arc<Beat>,
    board: Arc<Board>,
}

impl Pulse {
    /// It acts now, and again within this time.
    pub(super) fn acts_within(&self, within: Duration) {
        *self.beat.time.lock().unwrap_or_else(PoisonError::into_inner) = BeatTime::now(within);
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.board.pulses.lock().unwrap_or_else(PoisonError::into_inner).living.remove(&self.id);
    }
}

impl BeatTime {
    fn now(within: Duration) -> Self {
        let acted = Instant::now();
        BeatTime { acted, due: acted + within + SLACK }
    }
}

impl Default for Board {
    fn default() -> Self {
        Board {
            supervisor_acted: Mutex::new(Instant::now()),
            tenants: Mutex::default(),
            pulses: Mutex::default(),
        }
    }
}

impl Board {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn supervisor_acts(&self) {
        *self.supervisor_acted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Somebody who acts now, and again within this time. `who` goes before "has not acted for 9 s".
    pub(super) fn pulse(self: &Arc<Self>, who: String, within: Duration) -> Pulse {
        let beat = Arc::new(Beat { who, time: Mutex::new(BeatTime::now(within)) });
        let mut pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        pulses.last += 1;
        let id = pulses.last;
        pulses.living.insert(id, beat.clone());
        Pulse { id, beat, board: self.clone() }
    }

    /// A claimer passes its loop. Returns whether the tenant's state is news: it works again, or fails for a reason that
    /// it did not give since it last worked.
    pub(super) fn tenant(&self, name: &Arc<str>, state: TenantState) -> bool {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = tenants
            .entry(name.clone())
            .or_insert_with(|| Tenant { state: TenantState::Starting, said: Reasons::default() });
        let news = match &state {
            TenantState::Failing(reason) => tenant.said.is_news(reason),
            TenantState::Working | TenantState::Starting => {
                tenant.said = Reasons::default();
                tenant.state != state
            }
        };
        tenant.state = state;
        news
    }

    /// A claimer ended.
    pub(super) fn tenant_gone(&self, name: &str) {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// All tenants that have a living claimer.
    pub fn tenants(&self) -> BTreeMap<Arc<str>, TenantState> {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.iter().map(|(name, tenant)| (name.clone(), tenant.state.clone())).collect()
    }

    /// Whether the process makes progress; else who does not, a line each. A database or a broker that is down or slow is
    /// no reason.
    pub fn health(&self) -> Result<(), String> {
        let now = Instant::now();
        let stuck = |who: &str, acted: Instant| {
            format!("{who} has not acted for {} s", now.saturating_duration_since(acted).as_secs())
        };
        let mut lines = Vec::new();
        let supervisor = *self.supervisor_acted.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(supervisor) > SUPERVISOR_STUCK {
            lines.push(stuck("the supervisor", supervisor));
        }
        let living: Vec<Arc<Beat>> = {
            let pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
            pulses.living.values().cloned().collect()
        };
        for beat in living {
            let time = *beat.time.lock().unwrap_or_else(PoisonError::into_inner);
            if time.due < now {
                lines.push(stuck(&beat.who, time.acted));
            }
        }
        if lines.is_empty() { Ok(()) } else { Err(lines.join("\n")) }
    }

    /// Whether at least one tenant works; else why none does.
    pub fn ready(&self) -> Result<(), String> {
        let tenants = self.tenants();
        if tenants.values().any(|state| *state == TenantState::Working) {
            return Ok(());
        }
        let reasons: Vec<String> = tenants
            .iter()
            .map(|(name, state)| match state {
                TenantState::Failing(reason) => format!("{name}: {reason}"),
                TenantState::Starting | TenantState::Working => format!("{name}: starting"),
            })
            .collect();
        Err(if reasons.is_empty() { "no tenant is running".to_owned() } else { reasons.join("\n") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes everything that was promised so far that much older.
    fn ages(board: &Board, by: Duration) {
        let pulses = board.pulses.lock().unwrap();
        for beat in pulses.living.values() {
            let mut time = beat.time.lock().unwrap();
            *time = BeatTime { acted: time.acted - by, due: time.due - by };
        }
    }

    #[test]
    fn one_that_breaks_its_promise_is_named_until_it_acts_or_is_gone() {
        let board = Board::new();
        let janitor = board.pulse("the janitor".to_owned(), Duration::from_secs(30));
        let link = board.pulse("the link to `hub`".to_owned(), Duration::ZERO);
        assert_eq!(board.health(), Ok(()));
        ages(&board, Duration::from_secs(34));
        assert_eq!(board.health(), Err("the link to `hub` has not acted for 34 s".to_owned()));
        ages(&board, Duration::from_secs(2));
        let both = "the janitor has not acted for 36 s\nthe link to `hub` has not acted for 36 s";
        assert_eq!(board.health(), Err(both.to_owned()));
        janitor.acts_within(Duration::ZERO);
        drop(link);
        assert_eq!(board.health(), Ok(()));
    }
}
