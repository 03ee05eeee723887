//! Heartbeats: which replicas live. A hint for sharing lanes out; nothing is decided by it.

use std::time::Duration;

use super::row::{Columns, interval};
use super::{Store, StoreError};

/// A replica that was silent for this many times `alive_within` is forgotten.
const FORGET_AFTER: u32 = 20;

impl Store {
    /// Says that `name` lives, and returns the others that were seen within `alive_within`, each with the age of its last
    /// word, by name.
    pub async fn heartbeat(
        &mut self,
        name: &str,
        alive_within: Duration,
    ) -> Result<Vec<(String, Duration)>, StoreError> {
        let (alive, forget) = (interval(alive_within), interval(alive_within.saturating_mul(FORGET_AFTER)));
        let statement = &self.statements.heartbeat;
        let rows = self.link.rows(statement, |q| q.bind(name).bind(alive).bind(forget)).await?;
        rows.iter()
            .map(|row| {
                let row = Columns::new(statement, row);
                Ok((row.get("name")?, row.duration("age")?.unwrap_or_default()))
            })
            .collect()
    }

    /// Takes `name` off the list, so that the others share its lanes out at once. A lost reply can be ignored.
    pub async fn depart(&mut self, name: &str) -> Result<(), StoreError> {
        let statement = &self.statements.depart;
        self.link.rows(statement, |q| q.bind(name)).await.map(drop)
    }
}
