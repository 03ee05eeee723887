//! The board: what children write about themselves and the admin port reads. No child waits for it, and no
//! decision is made from it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::reasons::Reasons;

/// The supervisor acts ten times a second; silent for this long it is stuck.
const SUPERVISOR_STUCK: Duration = Duration::from_secs(5);

/// A claimer passes its loop at least once a second unless it waits for its database, and that has deadlines
/// below this.
const CLAIMER_STUCK: Duration = Duration::from_secs(60);

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
    acted: Instant,
    /// Reasons that it gave since it last worked.
    said: Reasons,
}

/// See the module.
#[derive(Debug)]
pub struct Board {
    supervisor_acted: Mutex<Instant>,
    tenants: Mutex<BTreeMap<Arc<str>, Tenant>>,
}

impl Default for Board {
    fn default() -> Self {
        Board { supervisor_acted: Mutex::new(Instant::now()), tenants: Mutex::default() }
    }
}

impl Board {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn supervisor_acts(&self) {
        *self.supervisor_acted.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// A claimer passes its loop. Returns whether the tenant's state is news: it works again, or fails for a reason that
    /// it did not give since it last worked.
    pub(super) fn tenant(&self, name: &Arc<str>, state: TenantState) -> bool {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        let tenant = tenants.entry(name.clone()).or_insert_with(|| Tenant {
            state: TenantState::Starting,
            acted: Instant::now(),
            said: Reasons::default(),
        });
        let news = match &state {
            TenantState::Failing(reason) => tenant.said.is_news(reason),
            TenantState::Working | TenantState::Starting => {
                tenant.said = Reasons::default();
                tenant.state != state
            }
        };
        (tenant.state, tenant.acted) = (state, Instant::now());
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

    /// Whether the process makes progress; else who does not. A database or a broker that is down is no reason.
    pub fn health(&self) -> Result<(), String> {
        let supervisor = self.supervisor_acted.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        if supervisor > SUPERVISOR_STUCK {
            return Err(format!("the supervisor has not acted for {} s", supervisor.as_secs()));
        }
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        match tenants.iter().find(|(_, tenant)| tenant.acted.elapsed() > CLAIMER_STUCK) {
            Some((name, tenant)) => Err(format!(
                "the claimer of `{name}` has not acted for {} s",
                tenant.acted.elapsed().as_secs()
            )),
            None => Ok(()),
        }
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
