//! Retention: outbox rows go `keep` after they left, by their receipts. Never by their age, never without a receipt.

use std::time::Duration;

use super::row::{Columns, interval};
use super::{Store, StoreError};

/// What one run of retention removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retained {
    pub events: u64,
    pub receipts: u64,
    /// Old events that stay because somebody else holds a lock on their row.
    pub locked: u64,
}

impl Store {
    /// Removes the events of at most `receipts` receipts that are older than `keep`, oldest first.
    ///
    /// `None`: another replica does it at this moment. Repeat, with pauses, until `receipts` of the answer is below what
    /// was asked for. Safe to send again after a lost reply.
    pub async fn retention(&mut self, keep: Duration, receipts: u32) -> Result<Option<Retained>, StoreError> {
        let gate = self.link.options.schema.advisory_key("retention");
        let limit = i32::try_from(receipts).unwrap_or(i32::MAX);
        let statement = &self.statements.retention;
        let row = self.link.row(statement, |q| q.bind(gate).bind(interval(keep)).bind(limit)).await?;
        let row = Columns::new(statement, &row);
        if !row.get::<bool>("alone")? {
            return Ok(None);
        }
        Ok(Some(Retained {
            events: row.count("events")?,
            receipts: row.count("receipts")?,
            locked: row.count("locked")?,
        }))
    }
}
