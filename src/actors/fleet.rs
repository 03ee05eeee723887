//! What this process knows of the other replicas, and whose share each lane is. A hint: the lane rows alone
//! decide who owns what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::outbox::share::{Share, share};

/// A replica whose last heartbeat is older than this takes no part in sharing.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub struct Fleet {
    me: Arc<str>,
    /// Tenants, which are what is shared out. Every replica has the same list, or the hint is a poor one.
    units: Vec<Arc<str>>,
    /// Others, and when each was last known to be alive.
    seen: Mutex<BTreeMap<Arc<str>, Instant>>,
}

impl Fleet {
    pub fn new(me: Arc<str>, units: impl Iterator<Item = Arc<str>>) -> Self {
        Fleet { me, units: units.collect(), seen: Mutex::default() }
    }

    /// A database listed these replicas, each with the age of its last heartbeat.
    pub(super) fn saw(&self, replicas: &[(String, Duration)]) {
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, age) in replicas.iter().filter(|(name, _)| **name != *self.me) {
            let Some(at) = now.checked_sub(*age) else { continue };
            let known = seen.entry(name.as_str().into()).or_insert(at);
            *known = (*known).max(at);
        }
    }

    /// Whose share a unit is, and the name of that replica.
    pub(super) fn share(&self, unit: &str) -> (Share, Arc<str>) {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let alive = seen.iter().filter(|(_, at)| at.elapsed() < ALIVE_WITHIN).map(|(name, _)| &**name);
        let replicas: Vec<&str> = alive.chain([&*self.me]).collect();
        if replicas.len() == 1 {
            return (Share::Mine, self.me.clone());
        }
        let units: Vec<&str> = self.units.iter().map(|unit| &**unit).collect();
        let preferred = share(&units, &replicas).get(unit).map(|name| (*name).to_owned());
        match preferred.and_then(|name| seen.get_key_value(name.as_str())) {
            Some((name, alive_at)) => (Share::Other { heartbeat_age: alive_at.elapsed() }, name.clone()),
            None => (Share::Mine, self.me.clone()),
        }
    }
}
