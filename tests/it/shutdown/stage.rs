//! A daemon between two proxies: one before NATS, one before its tenant's database.

use std::time::{Duration, Instant};

use outrider_servers::address;
use outrider_test_support::consume::nats::{self, Consumer};
use outrider_test_support::consume::{Consume, read};
use outrider_test_support::daemon::Daemon;
use outrider_test_support::proxy::{Mode, Proxy};
use uuid::Uuid;

use crate::relay::{SOON, Tenant, program, proxied, until};

/// Claimed at once: all of them.
pub(super) const EVENTS: usize = 100;

/// So many have room with the broker; the others wait, claimed, for their turn.
pub(super) const OUT: i64 = 40;

const PAYLOAD: usize = 1_000;

/// Longer than any of these tests takes: an event that is published again is stored once.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// Within this a message that should not be there would have come.
const QUIET: Duration = Duration::from_millis(300);

pub(super) struct Stage {
    pub(super) tenant: Tenant,
    pub(super) broker: Proxy,
    pub(super) database: Proxy,
    pub(super) daemon: Daemon,
    /// The stream, and the first token of its subjects.
    stream: String,
}

impl Stage {
    pub(super) async fn set(grace: &str, publish_deadline: &str, lease: &str) -> Self {
        let stream = format!("shutdown-{}", Uuid::new_v4().simple());
        let subjects = format!("{stream}.>");
        nats::create_stream(&address::nats(), &stream, &[&subjects], DUPLICATE_WINDOW).await.unwrap();
        let (broker, nats) = proxied(&address::nats()).await;
        let tenant = Tenant::new("acme").await;
        let (database, url) = proxied(&tenant.database.url()).await;
        let tenant = tenant.at(&url);
        let bytes = OUT * i64::try_from(PAYLOAD).unwrap();
        let root = format!(
            "[replica]\nname = \"one\"\n[shutdown]\ngrace = \"{grace}\"\n\
             [delivery]\nlease = \"{lease}\"\nclaims_in_flight = 10\n\
             [brokers.nats]\nkind = \"nats\"\npublish_deadline = \"{publish_deadline}\"\n\
             max_in_flight = {{ events = {EVENTS}, bytes = \"{bytes}B\" }}\nparams = {{ url = \"{nats}\" }}\n\
             [[routes]]\ntopic = \"*\"\nbroker = \"nats\"\nto = {{ subject = \"{stream}.{{topic}}\" }}\n"
        );
        let daemon = program(&root, &[&tenant]);
        Stage { tenant, broker, database, daemon, stream }
    }

    /// Makes the broker silent, and inserts events until the running daemon has claimed them: [`OUT`] are in flight, the
    /// others wait for their turn.
    pub(super) async fn claim_all(&self) {
        until("the daemon has the lane and its broker", async || {
            let metrics = self.daemon.ask("/metrics").await.unwrap_or_default();
            let has = |line: &str| metrics.lines().any(|found| found == line);
            has("outrider_lanes_owned{tenant=\"acme\"} 1") && has("outrider_breaker_open{broker=\"nats\"} 0")
        })
        .await;
        self.broker.set(Mode::BlackHole);
        let insert = "INSERT INTO outrider.outbox (topic, type, payload)
             SELECT 'orders', 'test', convert_to(repeat('x', $1), 'UTF8') FROM generate_series(1, $2)";
        let (size, count) = (i32::try_from(PAYLOAD).unwrap(), i32::try_from(EVENTS).unwrap());
        sqlx::query(insert).bind(size).bind(count).execute(&self.tenant.pool).await.unwrap();
        let all = i64::try_from(EVENTS).unwrap();
        until("all are claimed", async || self.claimed().await == all).await;
    }

    /// Events of the claims in flight.
    pub(super) async fn claimed(&self) -> i64 {
        self.one("SELECT coalesce(sum(cardinality(seqs)), 0)::bigint FROM outrider.claim").await
    }

    /// Attempts that unsent events have behind them.
    pub(super) async fn spent(&self) -> i64 {
        self.one("SELECT coalesce(sum(attempts), 0)::bigint FROM outrider.delivery").await
    }

    pub(super) async fn one(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.tenant.pool).await.unwrap()
    }

    /// `seq`s with a receipt, in order.
    pub(super) async fn sent(&self) -> Vec<i64> {
        sqlx::query_scalar("SELECT s FROM outrider.receipt r, unnest(r.seqs) AS s ORDER BY s")
            .fetch_all(&self.tenant.pool)
            .await
            .unwrap()
    }

    /// `seq`s that the broker has, in order. Waits for `count` of them, and a moment for one too many.
    pub(super) async fn published(&self, count: usize) -> Vec<i64> {
        let mut consumer = Consumer::open(&address::nats(), &self.stream).await.unwrap();
        let mut messages = read(&mut consumer, count, Instant::now() + SOON).await.unwrap();
        messages.extend(consumer.next(Instant::now() + QUIET).await.unwrap());
        let mut seqs: Vec<i64> = messages.iter().map(|message| message.seq().unwrap()).collect();
        seqs.sort_unstable();
        seqs
    }

    pub(super) async fn clear(self) {
        nats::delete_stream(&address::nats(), &self.stream).await.unwrap();
    }
}
