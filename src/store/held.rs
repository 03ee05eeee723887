//! Rows that are held: followers parked behind a head, and dead events. Anyone may run these, owner of the lane or not.

use uuid::Uuid;

use super::claim::blocking;
use super::row::Columns;
use super::{Store, StoreError};
use crate::outbox::OnDead;

/// What a discard changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Discarded {
    /// The events that were dead and are gone now.
    pub seqs: Vec<i64>,
    /// Parked followers that became due.
    pub promoted: u64,
}

impl Store {
    /// Makes up to 200 parked rows of each (topic, key) due; after events died under [`OnDead::Skip`]. Returns them.
    pub async fn promote(&mut self, lane: i16, keys: &[(&str, &str)]) -> Result<Vec<i64>, StoreError> {
        let topics: Vec<&str> = keys.iter().map(|(topic, _)| *topic).collect();
        let keys: Vec<&str> = keys.iter().map(|(_, key)| *key).collect();
        let statement = &self.statements.promote;
        let rows = self.link.rows(statement, |q| q.bind(lane).bind(&topics).bind(&keys)).await?;
        rows.iter().map(|row| Columns::new(statement, row).get("seq")).collect()
    }

    /// Makes the first parked row of each key due that has no head before it. Returns them.
    ///
    /// After a take, after a lost reply, each minute, and when a settle said [`super::NotApplied::Gone`]. `on_dead` is the
    /// rule of all topics but `others`, which have the other one.
    pub async fn orphans(
        &mut self,
        lane: i16,
        on_dead: OnDead,
        others: &[&str],
    ) -> Result<Vec<i64>, StoreError> {
        let statement = &self.statements.orphans;
        let rows = self.link.rows(statement, |q| q.bind(lane).bind(blocking(on_dead)).bind(others)).await?;
        rows.iter().map(|row| Columns::new(statement, row).get("seq")).collect()
    }

    /// Makes dead events due again, with a fresh count. Returns those that were dead.
    pub async fn requeue(&mut self, seqs: &[i64]) -> Result<Vec<i64>, StoreError> {
        let statement = &self.statements.requeue;
        let rows = self.link.rows(statement, |q| q.bind(seqs)).await?;
        rows.iter().map(|row| Columns::new(statement, row).get("seq")).collect()
    }

    /// Removes dead events for good, with a receipt that says `discarded`.
    pub async fn discard(&mut self, seqs: &[i64], receipt: Uuid) -> Result<Discarded, StoreError> {
        let statement = &self.statements.discard;
        let rows = self.link.rows(statement, |q| q.bind(seqs).bind(receipt)).await?;
        let mut discarded = Discarded::default();
        for row in &rows {
            let row = Columns::new(statement, row);
            discarded.seqs.push(row.get("seq")?);
            discarded.promoted = row.count("promoted")?;
        }
        Ok(discarded)
    }
}
