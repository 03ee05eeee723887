//! Settling: what became of the events of a claim.

use std::time::Duration;

use uuid::Uuid;

use super::row::{Columns, clean, delay_ms};
use super::{Store, StoreError};

/// Longest delay before an event is tried again; a longer one is shortened to it.
pub const MAX_DELAY: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What settling confirmed events changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettledSent {
    /// Events that left by this call. Fewer than given: somebody else confirmed the others.
    pub deleted: u64,
    /// Parked followers that became due.
    pub promoted: u64,
    /// Events that could not be settled now because somebody else holds a lock on their row. They stay in flight, and so do
    /// all tokens of `done`: settle these again, with a new receipt. Normally empty.
    pub locked: Vec<i64>,
}

/// An outcome other than sent.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    pub seq: i64,
    pub outcome: FailedOutcome,
    /// Time until it is tried again, at most [`MAX_DELAY`]. For refused, unknown and released.
    pub delay: Duration,
    /// Kept as the event's last error: without NUL, cut to 500 characters. `None` keeps the one before.
    pub error: Option<&'a str>,
}

/// Kinds of outcome, by what they do to the event's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i16)]
pub enum FailedOutcome {
    /// The broker refused it: one attempt, one refusal, again after the delay.
    Refused = 1,
    /// It may have arrived: one attempt, again after the delay.
    Unknown = 2,
    /// It cannot ever arrive, or was refused too often: one attempt, one refusal, not tried again.
    Dead = 3,
    /// It was not handed over: no attempt.
    Released = 4,
    /// An earlier event of its key failed: parked behind it. No attempt.
    Blocked = 5,
}

/// Why an outcome was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotApplied {
    /// The claim does not stand any more, or does not list the event.
    Fenced,
    /// The event left meanwhile: somebody else confirmed it. Run [`Store::orphans`].
    Gone,
}

impl Store {
    /// Settles all confirmed events of a report. Not fenced: a confirm is a fact.
    ///
    /// `receipt` is a new uuid per report, the same when it is sent again after a lost reply. `done` are the tokens of
    /// which nothing is left. If somebody holds a lock on a row for longer than the store sends again, the other events
    /// are settled without it.
    ///
    /// # Errors
    /// See [`StoreError`]. After [`StoreError::outcome_unknown`] send it again, unchanged.
    pub async fn settle_sent(
        &mut self,
        broker: &str,
        receipt: Uuid,
        seqs: &[i64],
        done: &[Uuid],
    ) -> Result<SettledSent, StoreError> {
        let statement = &self.statements.settle_sent;
        let whole = self.link.rows(statement, |q| q.bind(broker).bind(receipt).bind(seqs).bind(done)).await;
        let rows = match whole {
            Err(StoreError::Busy { .. }) => {
                return self.settle_sent_free(broker, receipt, seqs, done).await;
            }
            other => other?,
        };
        let mut settled = SettledSent::default();
        for row in &rows {
            let row = Columns::new(statement, row);
            settled.deleted = row.count("deleted")?;
            settled.promoted = row.count("promoted")?;
        }
        Ok(settled)
    }

    async fn settle_sent_free(
        &mut self,
        broker: &str,
        receipt: Uuid,
        seqs: &[i64],
        done: &[Uuid],
    ) -> Result<SettledSent, StoreError> {
        let statement = &self.statements.settle_sent_free;
        let part = Uuid::new_v5(&receipt, b"free");
        let row = self.link.row(statement, |q| q.bind(broker).bind(part).bind(seqs).bind(done)).await?;
        let row = Columns::new(statement, &row);
        Ok(SettledSent {
            deleted: row.count("deleted")?,
            promoted: row.count("promoted")?,
            locked: row.get("locked")?,
        })
    }

    /// Settles the other outcomes of one token, after [`Store::settle_sent`] of the same report. Written only while the
    /// claim stands. `last`: nothing of the claim is left after this.
    ///
    /// Returns what did not apply. Under `on_dead = "skip"`, [`Store::promote`] the keys of the dead afterwards.
    ///
    /// # Errors
    /// See [`StoreError`]. After a lost reply renew the lane, then send it again: if that kept the lane,
    /// [`NotApplied::Fenced`] means that it applied the first time.
    pub async fn settle_failed(
        &mut self,
        token: Uuid,
        failed: &[Failed<'_>],
        last: bool,
    ) -> Result<Vec<(i64, NotApplied)>, StoreError> {
        let seqs: Vec<i64> = failed.iter().map(|f| f.seq).collect();
        let outcomes: Vec<i16> = failed.iter().map(|f| f.outcome as i16).collect();
        let delays: Vec<i64> = failed.iter().map(|f| delay_ms(f.delay, MAX_DELAY)).collect();
        let errors: Vec<Option<String>> = failed.iter().map(|f| f.error.map(clean)).collect();
        let statement = &self.statements.settle_failed;
        let rows = self
            .link
            .rows(statement, |q| {
                q.bind(token).bind(&seqs).bind(&outcomes).bind(&delays).bind(&errors).bind(last)
            })
            .await?;
        rows.iter()
            .map(|row| {
                let row = Columns::new(statement, row);
                let what = match row.get::<&str>("what")? {
                    "fenced" => NotApplied::Fenced,
                    _ => NotApplied::Gone,
                };
                Ok((row.get("seq")?, what))
            })
            .collect()
    }
}
