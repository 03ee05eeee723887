//! Which topics of a lane have work. A hint for pacing and for finding topics that no claim has named yet.

use std::time::Duration;

use super::row::Columns;
use super::{Store, StoreError};

/// A topic that the caller claims from already.
#[derive(Debug, Clone, Copy)]
pub struct KnownTopic<'a> {
    pub topic: &'a str,
    /// Its floor: nothing at or below can appear any more. -1 looks at all rows.
    pub floor: i64,
}

/// A topic with work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicWork {
    pub topic: String,
    /// It has ready rows; they may be in flight.
    pub ready: bool,
    /// It has rows that wait after a failure, are parked, or are dead.
    pub held: bool,
    /// Time until its earliest retry or scheduled event, zero if that is due now, at most a day. `None`: it has none.
    pub next_due: Option<Duration>,
}

impl Store {
    /// The topics of a lane that have unsent rows, by name.
    ///
    /// A hint: what it does not name can commit a moment later, what it names may be in flight. It costs a few index
    /// probes per topic, however many rows there are; naming the `known` ones keeps that so while a snapshot held by
    /// somebody else keeps the entries of sent rows in the index.
    pub async fn topics(
        &mut self,
        lane: i16,
        known: &[KnownTopic<'_>],
    ) -> Result<Vec<TopicWork>, StoreError> {
        let mut known = known.to_vec();
        // By bytes, as the column's collation has it.
        known.sort_unstable_by_key(|k| k.topic);
        known.dedup_by_key(|k| k.topic);
        let topics: Vec<&str> = known.iter().map(|k| k.topic).collect();
        let floors: Vec<i64> = known.iter().map(|k| k.floor).collect();
        let lows: Vec<&str> = std::iter::once("").chain(topics.iter().copied()).collect();
        let highs: Vec<Option<&str>> =
            topics.iter().copied().map(Some).chain(std::iter::once(None)).collect();
        let statement = &self.statements.topics;
        let rows = self
            .link
            .rows(statement, |q| q.bind(lane).bind(&topics).bind(&floors).bind(&lows).bind(&highs))
            .await?;
        rows.iter()
            .map(|row| {
                let row = Columns::new(statement, row);
                let due: Option<i64> = row.get("due_ms")?;
                Ok(TopicWork {
                    topic: row.get("topic")?,
                    ready: row.get("ready")?,
                    held: row.get("held")?,
                    next_due: due.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
                })
            })
            .collect()
    }
}
