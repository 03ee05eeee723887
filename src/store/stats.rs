//! Gauges of one tenant: cheap, capped, and blind to what was sent.

use std::time::Duration;

use super::row::Columns;
use super::{Store, StoreError};

/// Counting stops here. A gauge that stands at it means "this many or more"; an exact figure would cost more than the work.
pub const COUNT_CAP: u32 = 100_000;

/// What is unsent. Each count stops at [`COUNT_CAP`]; waiting, parked and dead share one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Age of the oldest event that should have been sent: since it occurred or became available. Dead events and ones
    /// that are not due do not count.
    pub oldest_unsent_age: Option<Duration>,
    /// Ready, in flight included.
    pub ready: u64,
    /// Waiting for their next try.
    pub waiting: u64,
    /// Parked behind an earlier event of their key.
    pub parked: u64,
    pub dead: u64,
    /// Not due yet, or due and not claimed.
    pub scheduled: u64,
    /// Keys with parked events.
    pub blocked_keys: u64,
    /// Claims in flight.
    pub claims: u64,
    /// Events that those claims list.
    pub in_flight: u64,
}

impl Stats {
    /// All that will be sent when its time comes: ready, waiting and parked.
    pub fn pending(&self) -> u64 {
        self.ready + self.waiting + self.parked
    }
}

impl Store {
    /// Reads the gauges. Run it at a fixed pace, never per scrape.
    pub async fn stats(&mut self) -> Result<Stats, StoreError> {
        let cap = i32::try_from(COUNT_CAP).unwrap_or(i32::MAX);
        let statement = &self.statements.stats;
        let row = self.link.row(statement, |q| q.bind(cap)).await?;
        let row = Columns::new(statement, &row);
        let oldest: Option<i64> = row.get("oldest_ms")?;
        Ok(Stats {
            oldest_unsent_age: oldest.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
            ready: row.count("ready")?,
            waiting: row.count("waiting")?,
            parked: row.count("parked")?,
            dead: row.count("dead")?,
            scheduled: row.count("scheduled")?,
            blocked_keys: row.count("blocked_keys")?,
            claims: row.count("claims")?,
            in_flight: row.count("in_flight")?,
        })
    }
}
