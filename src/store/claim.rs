//! Claiming: what of a lane may be handed to one broker next. One statement; no event row is locked or changed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::row::{Columns, Timestamp};
use super::sql::Statement;
use super::{Store, StoreError};
use crate::outbox::event::Body;
use crate::outbox::{Event, OnDead};

/// What to claim.
#[derive(Debug, Clone)]
pub struct ClaimRequest<'a> {
    pub lane: i16,
    pub owner: Uuid,
    /// Name of the configured broker; kept in the claim row for people.
    pub broker: &'a str,
    /// A new random uuid for each claim that is sent.
    pub token: Uuid,
    /// Tokens of this lane and broker that were sent and are not fully settled, also those not answered yet. Their rows
    /// are left out.
    pub live: &'a [Uuid],
    /// Topics that are routed to the broker and not paused.
    pub topics: &'a [TopicRequest<'a>],
}

/// One topic of a claim.
#[derive(Debug, Clone, Copy)]
pub struct TopicRequest<'a> {
    pub topic: &'a str,
    /// min(mark, floor): rows at or below this are not looked at. -1 looks at all. Not used by [`Store::claim_due`].
    pub after: i64,
    /// Permits: at most so many rows come back, blocked ones included. 0 asks for none.
    pub limit: u32,
    /// What a dead event does to the later ones of its key.
    pub on_dead: OnDead,
}

/// What a claim came back with.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// The oldest transaction that was still running when the claim looked. Always 0 from [`Store::claim_due`].
    pub xmin: i64,
    /// The claim's own transaction; `None` when nothing was claimed, and from [`Store::claim_due`].
    pub xid: Option<i64>,
    /// What is left of the lease. `None` although something was [seen](Self::seen): the lane is lost.
    pub lease_left: Option<Duration>,
    /// There was something to claim.
    pub seen: bool,
    /// How many of the blocked rows were parked by this claim.
    pub parked: u64,
    /// By `seq`. Events are claimed under the token; blocked rows are not, but they move the mark.
    pub rows: Vec<Row>,
    /// Rows beyond a topic's limit. Always 0; a metric watches it.
    pub excess: u64,
}

/// One row of a claim.
#[derive(Debug, Clone)]
pub enum Row {
    /// Claimed: to be handed over and settled under the token.
    Event(Event),
    /// Not claimed: an earlier event of its key is held. It was parked behind it.
    Blocked { seq: i64, topic: Arc<str> },
}

impl Row {
    pub fn seq(&self) -> i64 {
        match self {
            Self::Event(event) => event.seq,
            Self::Blocked { seq, .. } => *seq,
        }
    }

    pub fn topic(&self) -> &Arc<str> {
        match self {
            Self::Event(event) => &event.topic,
            Self::Blocked { topic, .. } => topic,
        }
    }
}

impl Claimed {
    /// The lane belongs to somebody else, or its lease is over.
    pub fn lane_lost(&self) -> bool {
        self.seen && self.lease_left.is_none()
    }
}

/// Places of the columns that both claim statements begin with.
mod column {
    pub(super) const LEASE_LEFT: usize = 0;
    pub(super) const SEEN: usize = 1;
    pub(super) const PARKED: usize = 2;
    pub(super) const SEQ: usize = 3;
    pub(super) const TOPIC: usize = 4;
    pub(super) const KEY: usize = 5;
    pub(super) const ATTEMPTS: usize = 6;
    pub(super) const REFUSALS: usize = 7;
    pub(super) const BLOCKED: usize = 8;
    pub(super) const ID: usize = 9;
    pub(super) const KIND: usize = 10;
    pub(super) const CONTENT_TYPE: usize = 11;
    pub(super) const HEADERS: usize = 12;
    pub(super) const OCCURRED_AT: usize = 13;
    pub(super) const PAYLOAD: usize = 14;
}

impl Store {
    /// Claims ready rows. After a lost reply: renew under a new owner, then claim with a new token.
    ///
    /// # Errors
    /// See [`StoreError`]. With one that says [`StoreError::outcome_unknown`] the batch may exist under the token.
    pub async fn claim(&mut self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
        let arguments = Arguments::of(request);
        let statement = &self.statements.claim;
        let rows = self
            .link
            .rows(statement, |q| {
                q.bind(request.lane)
                    .bind(request.owner)
                    .bind(request.broker)
                    .bind(request.token)
                    .bind(request.live)
                    .bind(&arguments.topics)
                    .bind(&arguments.afters)
                    .bind(&arguments.limits)
                    .bind(&arguments.blockings)
            })
            .await?;
        let mut claimed = decode(statement, &rows, request.topics)?;
        if let Some(row) = rows.first() {
            let row = Columns::new(statement, row);
            claimed.xmin = row.get("xmin")?;
            claimed.xid = row.get("xid")?;
        }
        Ok(claimed)
    }

    /// Claims rows whose time has come: retries, unparked followers, scheduled ones. Run it before [`Store::claim`] when
    /// the earliest due time has come. The same contract, without `xmin` and `xid`.
    pub async fn claim_due(&mut self, request: &ClaimRequest<'_>) -> Result<Claimed, StoreError> {
        let arguments = Arguments::of(request);
        let statement = &self.statements.claim_due;
        let rows = self
            .link
            .rows(statement, |q| {
                q.bind(request.lane)
                    .bind(request.owner)
                    .bind(request.broker)
                    .bind(request.token)
                    .bind(request.live)
                    .bind(&arguments.topics)
                    .bind(&arguments.limits)
                    .bind(&arguments.blockings)
            })
            .await?;
        decode(statement, &rows, request.topics)
    }
}

/// A request's topics, as arrays.
struct Arguments<'a> {
    topics: Vec<&'a str>,
    afters: Vec<i64>,
    limits: Vec<i32>,
    blockings: Vec<i16>,
}

impl<'a> Arguments<'a> {
    fn of(request: &ClaimRequest<'a>) -> Self {
        let topics = request.topics;
        Self {
            topics: topics.iter().map(|t| t.topic).collect(),
            afters: topics.iter().map(|t| t.after).collect(),
            limits: topics.iter().map(|t| i32::try_from(t.limit).unwrap_or(i32::MAX)).collect(),
            blockings: topics.iter().map(|t| blocking(t.on_dead)).collect(),
        }
    }
}

/// The highest `hold` that stands before the later rows of its key.
pub(super) fn blocking(on_dead: OnDead) -> i16 {
    match on_dead {
        OnDead::Block => 3,
        OnDead::Skip => 2,
    }
}

fn decode(
    statement: &Statement,
    rows: &[PgRow],
    requested: &[TopicRequest<'_>],
) -> Result<Claimed, StoreError> {
    let mut claimed = Claimed::default();
    let Some(head) = rows.first() else {
        let reason = "no row came back".to_owned();
        return Err(StoreError::Decode { step: statement.step, reason });
    };
    let head = Columns::new(statement, head);
    claimed.lease_left = head.duration_at(column::LEASE_LEFT)?;
    claimed.seen = head.at(column::SEEN)?;
    claimed.parked = u64::try_from(head.at::<i64>(column::PARKED)?).unwrap_or(0);
    let mut names = Names::default();
    claimed.rows.reserve(rows.len());
    for row in rows {
        let row = Columns::new(statement, row);
        let Some(seq) = row.at::<Option<i64>>(column::SEQ)? else { continue };
        let topic = names.one(row.at(column::TOPIC)?);
        let blocked: bool = row.at(column::BLOCKED)?;
        claimed.rows.push(if blocked {
            Row::Blocked { seq, topic }
        } else {
            Row::Event(event(&row, seq, topic, &mut names)?)
        });
    }
    // The statement has no order of its own.
    claimed.rows.sort_unstable_by_key(Row::seq);
    claimed.excess = excess(&claimed.rows, requested);
    Ok(claimed)
}

fn event(row: &Columns<'_>, seq: i64, topic: Arc<str>, names: &mut Names) -> Result<Event, StoreError> {
    let body = match row.at::<Option<Uuid>>(column::ID)? {
        None => None,
        Some(id) => Some(Body {
            id,
            kind: names.one(row.at(column::KIND)?),
            content_type: names.one(row.at(column::CONTENT_TYPE)?),
            headers: row.at(column::HEADERS)?,
            occurred_at: row.at::<Timestamp>(column::OCCURRED_AT)?.0,
            payload: Bytes::copy_from_slice(row.at(column::PAYLOAD)?),
        }),
    };
    Ok(Event {
        seq,
        topic,
        key: row.at::<Option<&str>>(column::KEY)?.map(Arc::from),
        attempts: u32::try_from(row.at::<i32>(column::ATTEMPTS)?).unwrap_or(0),
        refusals: u32::try_from(row.at::<i32>(column::REFUSALS)?).unwrap_or(0),
        body,
    })
}

/// How many rows came back beyond the limits of their topics. One pass over each: a claim may name hundreds of topics.
fn excess(rows: &[Row], requested: &[TopicRequest<'_>]) -> u64 {
    let mut room: HashMap<&str, i64> = HashMap::with_capacity(requested.len());
    for topic in requested {
        *room.entry(topic.topic).or_default() += i64::from(topic.limit);
    }
    for row in rows {
        *room.entry(row.topic()).or_default() -= 1;
    }
    room.values().filter(|left| **left < 0).map(|left| left.unsigned_abs()).sum()
}

/// Strings that most events of a batch share, each kept once.
#[derive(Default)]
struct Names(HashSet<Arc<str>>);

impl Names {
    fn one(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = Arc::from(name);
        self.0.insert(Arc::clone(&name));
        name
    }
}
