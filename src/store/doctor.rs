//! Questions that `outrider check` and the janitor ask: is the schema right, does the trigger fire, who holds things up.

use std::time::Duration;

use super::migrate::{self, Applied, SchemaState};
use super::row::Columns;
use super::{Store, StoreError};

/// The trigger that makes delivery rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TriggerState {
    /// It fires for every insert into the outbox.
    Enabled,
    /// It exists and does not fire for an application's inserts: their events would never be sent.
    Disabled,
    Missing,
}

/// The write transaction that is open for longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldestWriter {
    /// Its backend; `None` for a prepared transaction.
    pub pid: Option<i32>,
    /// Since its start; `None` where this role may not see it (`pg_read_all_stats`).
    pub age: Option<Duration>,
}

impl Store {
    /// Whether the schema is there and is the one that this program was written for.
    pub async fn schema_state(&mut self) -> Result<SchemaState, StoreError> {
        let schema = self.link.options.schema.name().to_owned();
        let installed = &self.statements.installed;
        let row = self.link.row(installed, |q| q.bind(&schema)).await?;
        if !Columns::new(installed, &row).at::<bool>(0)? {
            return Ok(SchemaState::Missing);
        }
        let statement = &self.statements.applied;
        let rows = self.link.rows(statement, |q| q).await?;
        let applied = rows
            .iter()
            .map(|row| {
                let row = Columns::new(statement, row);
                Ok(Applied {
                    version: row.get("version")?,
                    name: row.get("name")?,
                    checksum: row.get("checksum")?,
                })
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        Ok(migrate::state_of(&applied))
    }

    /// Whether inserts into the outbox make delivery rows.
    pub async fn trigger_state(&mut self) -> Result<TriggerState, StoreError> {
        let statement = &self.statements.trigger;
        let rows = self.link.rows(statement, |q| q).await?;
        let Some(row) = rows.first() else { return Ok(TriggerState::Missing) };
        match Columns::new(statement, row).get::<&str>("enabled")? {
            "O" | "A" => Ok(TriggerState::Enabled),
            _ => Ok(TriggerState::Disabled),
        }
    }

    /// Of the newest `window` outbox rows those without delivery row and receipt, at most 1,000, by `seq`.
    pub async fn orphan_rows(&mut self, window: u32) -> Result<Vec<i64>, StoreError> {
        let window = i32::try_from(window).unwrap_or(i32::MAX);
        let statement = &self.statements.orphan_rows;
        let rows = self.link.rows(statement, |q| q.bind(window).bind(1_000_i32)).await?;
        rows.iter().map(|row| Columns::new(statement, row).get("seq")).collect()
    }

    /// The write transaction of the whole server that is open for longest: what the floor waits for.
    pub async fn oldest_writer(&mut self) -> Result<Option<OldestWriter>, StoreError> {
        let statement = &self.statements.oldest_writer;
        let rows = self.link.rows(statement, |q| q).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let row = Columns::new(statement, row);
        Ok(Some(OldestWriter { pid: row.get("pid")?, age: row.duration("age")? }))
    }
}
