//! Who owns a lane: take, reclaim, renew, give.

use std::time::Duration;

use time::OffsetDateTime;
use uuid::Uuid;

use super::row::{Columns, interval};
use super::{Store, StoreError};

/// A claim row that its lane's owner did not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reclaimed {
    pub token: Uuid,
    pub broker: String,
    pub claimed_at: OffsetDateTime,
    /// The events that it still listed.
    pub seqs: Vec<i64>,
}

/// What a reclaim took back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaim {
    pub claims: Vec<Reclaimed>,
    /// Event rows that were changed: an attempt counted, or turned into a held one.
    pub changed: u64,
}

/// One lane as everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneRow {
    pub lane: i16,
    /// The token of the last take or renewal; `None`: given up.
    pub owner: Option<Uuid>,
    /// Name of the replica that took it last.
    pub owner_name: Option<String>,
    /// What is left of the lease by the database's clock; zero when it is over.
    pub left: Duration,
    /// How often the lane was taken.
    pub epoch: i64,
}

impl Store {
    /// Takes a lane whose lease is over; `force` takes any. Waits for a claim that is still running.
    ///
    /// `owner` is a new random uuid each time. Returns the new epoch, or `None`: somebody holds it. [`Store::reclaim`]
    /// comes before anything else. After a lost reply: take again with another uuid once the lease is over.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing beyond.
    pub async fn take(
        &mut self,
        lane: i16,
        owner: Uuid,
        name: &str,
        lease: Duration,
        force: bool,
    ) -> Result<Option<i64>, StoreError> {
        let statement = &self.statements.take;
        let rows = self
            .link
            .rows(statement, |q| q.bind(lane).bind(owner).bind(name).bind(interval(lease)).bind(force))
            .await?;
        rows.first().map(|row| Columns::new(statement, row).get("epoch")).transpose()
    }

    /// Deletes the claims of a lane that its owner does not know, and gives their events back.
    ///
    /// After [`Store::take`]: `known` empty and `spent`, so that each event counts one attempt more. After a lost reply:
    /// the tokens that live, not `spent`. Send it again after a lost reply.
    pub async fn reclaim(
        &mut self,
        lane: i16,
        owner: Uuid,
        known: &[Uuid],
        spent: bool,
    ) -> Result<Reclaim, StoreError> {
        let statement = &self.statements.reclaim;
        let rows = self
            .link
            .rows(statement, |q| q.bind(lane).bind(owner).bind(known).bind(i32::from(spent)))
            .await?;
        let mut reclaim = Reclaim::default();
        for row in &rows {
            let row = Columns::new(statement, row);
            reclaim.changed = row.count("back")?;
            reclaim.claims.push(Reclaimed {
                token: row.get("token")?,
                broker: row.get("broker")?,
                claimed_at: row.timestamp("claimed_at")?.unwrap_or(OffsetDateTime::UNIX_EPOCH),
                seqs: row.get("seqs")?,
            });
        }
        Ok(reclaim)
    }

    /// Renews a lease, also after its end if nobody took the lane. Returns what is left of it, or `None`: lost.
    ///
    /// Normally `owners` is `[owner]`. After any lost reply `owner` is a new uuid and `owners` are all that were tried
    /// since the last certain answer: that waits for a claim which still runs and shuts out one which has not begun.
    pub async fn renew(
        &mut self,
        lane: i16,
        owner: Uuid,
        owners: &[Uuid],
        lease: Duration,
    ) -> Result<Option<Duration>, StoreError> {
        let statement = &self.statements.renew;
        let rows = self
            .link
            .rows(statement, |q| q.bind(lane).bind(owner).bind(owners).bind(interval(lease)))
            .await?;
        match rows.first() {
            Some(row) => Columns::new(statement, row).duration("lease_left"),
            None => Ok(None),
        }
    }

    /// Gives a lane up. `rest` is the longest publish deadline that is still out.
    ///
    /// Returns whether the lane is free at once, or `None`: it was not ours. A lost reply can be ignored.
    pub async fn give(&mut self, lane: i16, owner: Uuid, rest: Duration) -> Result<Option<bool>, StoreError> {
        let statement = &self.statements.give;
        let rows = self.link.rows(statement, |q| q.bind(lane).bind(owner).bind(interval(rest))).await?;
        rows.first().map(|row| Columns::new(statement, row).get("free")).transpose()
    }

    /// All lanes, by number.
    pub async fn lanes(&mut self) -> Result<Vec<LaneRow>, StoreError> {
        let statement = &self.statements.lanes;
        let rows = self.link.rows(statement, |q| q).await?;
        rows.iter()
            .map(|row| {
                let row = Columns::new(statement, row);
                Ok(LaneRow {
                    lane: row.get("lane")?,
                    owner: row.get("owner")?,
                    owner_name: row.get("owner_name")?,
                    left: row.duration("lease_left")?.unwrap_or_default(),
                    epoch: row.get("epoch")?,
                })
            })
            .collect()
    }
}
