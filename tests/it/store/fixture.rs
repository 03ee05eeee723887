//! A tenant's database with an owner of lane 0, and short words for what tests do to it.

use std::future::Future;
use std::time::Duration;

use outrider::outbox::{Event, OnDead};
use outrider::store::{
    ClaimRequest, Claimed, Failed, FailedOutcome, Row, Schema, Store, StoreOptions, TopicRequest,
};
use outrider_test_support::database::{Server, TestDatabase};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::database;

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const LANE: i16 = 0;
/// No seqs.
pub(super) const NONE: [i64; 0] = [];

pub(super) struct Fixture {
    /// Superuser session, as an application and an operator would have one.
    pub(super) sql: PgConnection,
    pub(super) store: Store,
    pub(super) owner: Uuid,
    /// Dropped last: it ends the sessions above.
    pub(super) database: TestDatabase,
}

/// A fixture whose store owns lane 0.
pub(super) async fn owned(server: Server) -> Option<Fixture> {
    let mut fixture = unowned(server).await?;
    let taken = fixture.store.take(LANE, fixture.owner, "first", LEASE, false).await.unwrap();
    assert_eq!(taken, Some(1));
    Some(fixture)
}

/// A fixture in which nobody owns anything.
pub(super) async fn unowned(server: Server) -> Option<Fixture> {
    let database = database::on(server).await?;
    let store = store(&database);
    let sql = database.connect().await.unwrap();
    Some(Fixture { sql, store, owner: Uuid::new_v4(), database })
}

pub(super) fn store(database: &TestDatabase) -> Store {
    Store::new(StoreOptions::new(database.options(), Schema::default()))
}

impl Fixture {
    pub(super) async fn run(&mut self, sql: &str) {
        run(&mut self.sql, sql).await;
    }

    pub(super) async fn one<T>(&mut self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        one(&mut self.sql, sql).await
    }

    /// Inserts `count` events of one topic and key, payloads `1`, `2`, ...; returns their seqs.
    pub(super) async fn insert(&mut self, topic: &str, key: Option<&str>, count: i32) -> Vec<i64> {
        insert(&mut self.sql, topic, key, count).await
    }

    /// Claims up to 100 rows of `topic` on the ready path, from the beginning, with nothing else in flight.
    pub(super) async fn claim(&mut self, topic: &str) -> (Uuid, Claimed) {
        self.claim_with(topic, &[], OnDead::Block).await
    }

    pub(super) async fn claim_with(
        &mut self,
        topic: &str,
        live: &[Uuid],
        on_dead: OnDead,
    ) -> (Uuid, Claimed) {
        let topics = [TopicRequest { topic, after: -1, limit: 100, on_dead }];
        let request = self.request(live, &topics);
        let claimed = self.store.claim(&request).await.unwrap();
        assert_eq!(claimed.excess, 0);
        (request.token, claimed)
    }

    pub(super) async fn claim_due(&mut self, topic: &str, live: &[Uuid], on_dead: OnDead) -> (Uuid, Claimed) {
        let topics = [TopicRequest { topic, after: -1, limit: 100, on_dead }];
        let request = self.request(live, &topics);
        let claimed = self.store.claim_due(&request).await.unwrap();
        assert_eq!(claimed.excess, 0);
        (request.token, claimed)
    }

    pub(super) fn request<'a>(&self, live: &'a [Uuid], topics: &'a [TopicRequest<'a>]) -> ClaimRequest<'a> {
        ClaimRequest { lane: LANE, owner: self.owner, broker: "b", token: Uuid::new_v4(), live, topics }
    }

    /// Inserts events of one key, claims them, and settles the first as `outcome` and the others as blocked behind it.
    pub(super) async fn hold(
        &mut self,
        topic: &str,
        key: &str,
        count: i32,
        outcome: FailedOutcome,
    ) -> Vec<i64> {
        let seqs = self.insert(topic, Some(key), count).await;
        let (token, claimed) = self.claim(topic).await;
        assert_eq!(claimed_seqs(&claimed), seqs);
        let mut failed = vec![failed(seqs[0], outcome)];
        failed.extend(seqs[1..].iter().map(|seq| self::failed(*seq, FailedOutcome::Blocked)));
        assert_eq!(self.store.settle_failed(token, &failed, true).await.unwrap(), []);
        seqs
    }

    /// (hold, attempts, refusals) of an event; `None` when it has no delivery row.
    pub(super) async fn state(&mut self, seq: i64) -> Option<(i16, i32, i32)> {
        sqlx::query_as("SELECT hold, attempts, refusals FROM outrider.delivery WHERE seq = $1")
            .bind(seq)
            .fetch_optional(&mut self.sql)
            .await
            .unwrap()
    }

    /// What the view calls the state of an event.
    pub(super) async fn shown(&mut self, seq: i64) -> String {
        sqlx::query_scalar("SELECT state FROM outrider.events WHERE seq = $1")
            .bind(seq)
            .fetch_one(&mut self.sql)
            .await
            .unwrap()
    }

    /// Makes whatever waits due.
    pub(super) async fn pass_time(&mut self) {
        self.run("UPDATE outrider.delivery SET due_at = clock_timestamp() WHERE hold IN (1, 4)").await;
    }
}

pub(super) async fn insert(sql: &mut PgConnection, topic: &str, key: Option<&str>, count: i32) -> Vec<i64> {
    let mut seqs: Vec<i64> = sqlx::query_scalar(
        "INSERT INTO outrider.outbox (topic, key, type, payload)
         SELECT $1, $2, $1, convert_to(g::text, 'UTF8') FROM generate_series(1, $3) g RETURNING seq",
    )
    .bind(topic)
    .bind(key)
    .bind(count)
    .fetch_all(sql)
    .await
    .unwrap();
    seqs.sort_unstable();
    seqs
}

pub(super) async fn run(sql: &mut PgConnection, text: &str) {
    let text = sqlx::raw_sql(AssertSqlSafe(text.to_owned()));
    sql.execute(text).await.unwrap();
}

pub(super) async fn one<T>(sql: &mut PgConnection, text: &str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    sqlx::query_scalar(AssertSqlSafe(text.to_owned())).fetch_one(sql).await.unwrap()
}

pub(super) async fn rows(sql: &mut PgConnection, text: &str) -> Vec<PgRow> {
    sqlx::query(AssertSqlSafe(text.to_owned())).fetch_all(sql).await.unwrap()
}

pub(super) fn failed(seq: i64, outcome: FailedOutcome) -> Failed<'static> {
    Failed { seq, outcome, delay: Duration::from_secs(60), error: Some("because") }
}

pub(super) fn events(claimed: &Claimed) -> Vec<&Event> {
    claimed
        .rows
        .iter()
        .filter_map(|row| if let Row::Event(event) = row { Some(event) } else { None })
        .collect()
}

pub(super) fn claimed_seqs(claimed: &Claimed) -> Vec<i64> {
    events(claimed).iter().map(|event| event.seq).collect()
}

pub(super) fn blocked_seqs(claimed: &Claimed) -> Vec<i64> {
    let blocked = |row: &Row| if let Row::Blocked { seq, .. } = row { Some(*seq) } else { None };
    claimed.rows.iter().filter_map(blocked).collect()
}

/// Waits for a condition; fails after 10 s.
pub(super) async fn eventually<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition().await {
        assert!(Instant::now() < deadline, "not within 10 s: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
