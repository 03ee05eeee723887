//! C20: somebody else's long transaction, a report or a dump, keeps vacuum from removing what was sent.

use std::cell::Cell;
use std::time::Duration;

use serde_json::Value;

use crate::relay::{MemoryBroker, Relay, Tenant, until};

const STOP: Duration = Duration::from_secs(10);

const BATCH: i32 = 1_000;
const BATCHES: i32 = 7;

/// What PostgreSQL counted in the delivery table: index entries read, rows updated and rows deleted.
async fn counted(tenant: &Tenant) -> (i64, i64, i64) {
    let counts = "SELECT (SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = t.schemaname AND relname = t.relname),
                         n_tup_upd, n_tup_del FROM pg_stat_user_tables t WHERE schemaname = 'outrider' AND relname = 'delivery'";
    sqlx::query_as(counts).fetch_one(&tenant.pool).await.unwrap()
}

/// Pages that a look for a ready event without a floor reads.
async fn pages(tenant: &Tenant) -> i64 {
    let look = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)
                SELECT FROM outrider.delivery WHERE lane = 0 AND topic = 'orders' AND hold = 0 ORDER BY pos LIMIT 1";
    let mut connection = tenant.pool.acquire().await.unwrap();
    sqlx::query("SET enable_seqscan = off").execute(&mut *connection).await.unwrap();
    let plan: Value = sqlx::query_scalar(look).fetch_one(&mut *connection).await.unwrap();
    let count = |what: &str| plan[0]["Plan"][what].as_i64().unwrap();
    count("Shared Hit Blocks") + count("Shared Read Blocks")
}

#[tokio::test]
async fn under_a_held_snapshot_the_last_event_costs_what_the_first_one_did() {
    let tenant = Tenant::new("reported").await;
    let mut report = tenant.pool.begin().await.unwrap();
    sqlx::query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ").execute(&mut *report).await.unwrap();
    sqlx::query("SELECT count(*) FROM outrider.outbox").execute(&mut *report).await.unwrap();
    let broker = MemoryBroker::new("hub", "", "");
    // A session that has something to do says each second what it did.
    let relay = Relay::start(&broker.root("poll = { min = \"20ms\", max = \"200ms\" }"), &[&tenant]);
    let sent = Cell::new(0);
    let send = async |events: i32| {
        tenant.insert_many("orders", events, 0).await;
        tenant.drained().await;
        sent.set(sent.get() + i64::from(events));
    };
    let read = async || {
        // The settles, and so the claims before them on the same connection.
        until("PostgreSQL has counted it", async || counted(&tenant).await.2 == sent.get()).await;
        counted(&tenant).await.0
    };
    // What one event costs.
    let cost = async || {
        // A floor passes what was sent with the claims after it.
        for _ in 0..3 {
            send(1).await;
        }
        let before = read().await;
        send(1).await;
        read().await - before
    };
    let most = cost().await + i64::from(BATCH) / 10;
    for _ in 0..BATCHES {
        send(BATCH).await;
    }
    let mut costs = Vec::new();
    // Each half minute the janitor counts what is there, which may fall into one of them.
    while costs.len() < 3 && costs.iter().all(|cost| *cost > most) {
        costs.push(cost().await);
    }
    // Without a floor each claim and each look for work would walk past all that was sent before.
    assert!(
        costs.iter().any(|cost| *cost <= most),
        "index entries read for one event: {costs:?}, and not {most}"
    );
    let (_, updated, deleted) = counted(&tenant).await;
    assert_eq!((updated, deleted), (0, sent.get()), "a row is written once and deleted once");

    // All of it can be used again once the snapshot is gone.
    let held = pages(&tenant).await;
    report.rollback().await.unwrap();
    sqlx::query("VACUUM outrider.delivery").execute(&tenant.pool).await.unwrap();
    let free = pages(&tenant).await;
    assert!(held > 50 && free < 10, "{held} pages with the dead entries, {free} without");
    relay.stop(STOP).await;
}
