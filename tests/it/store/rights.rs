//! Two roles: an application that can only insert, and a relay that can do its work and nothing else.

use std::time::Duration;

use outrider::outbox::OnDead;
use outrider::store::{FailedOutcome, NewEvent, Schema, Store, StoreOptions, TriggerState};
use sqlx::{AssertSqlSafe, Executor};
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(unowned:
    an_application_can_insert_and_publish,
    an_application_can_do_nothing_else,
    the_relay_role_can_run_every_statement,
    the_relay_role_can_do_nothing_else,
    a_second_consumer_sees_an_event_once,
);

async fn refused(f: &mut Fixture, sql: &str) {
    let result = f.sql.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    let code =
        result.map(drop).map_err(|e| e.as_database_error().and_then(|e| e.code().map(|c| c.into_owned())));
    assert_eq!(code, Err(Some("42501".to_owned())), "{sql}");
}

async fn an_application_can_insert_and_publish(mut f: Fixture) {
    f.run("SET ROLE outrider_app").await;
    let seq: i64 = f
        .one("INSERT INTO outrider.outbox (topic, type, payload) VALUES ('t', 't', 'x') RETURNING seq")
        .await;
    let id: Uuid = f.one("INSERT INTO outrider.outbox (topic, key, type, payload, aggregate_type, aggregate_id, sequence_no) VALUES ('t', 'k', 't', 'x', 'order', '1', 1) RETURNING id").await;
    let published: Uuid = f.one("SELECT outrider.publish('t', 'k', 'orders.created', 'x')").await;
    let more: Uuid = f.one("SELECT outrider.publish(topic => 't', key => 'k', type => NULL, payload => 'x', headers => '{}', available_at => now(), serialize_key => true)").await;
    assert!(seq > 0 && id != published && published != more);
    f.run("RESET ROLE").await;
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.delivery").await, 4);
    assert_eq!(
        f.one::<i64>("SELECT count(*) FROM outrider.outbox WHERE type = 't' AND topic = 't'").await,
        3
    );
}

async fn an_application_can_do_nothing_else(mut f: Fixture) {
    f.insert("t", None, 1).await;
    f.run("SET ROLE outrider_app").await;
    for sql in [
        "INSERT INTO outrider.outbox (seq, topic, type, payload) OVERRIDING SYSTEM VALUE VALUES (1, 't', 't', 'x')",
        "SELECT payload FROM outrider.outbox",
        "UPDATE outrider.outbox SET topic = 'x'",
        "DELETE FROM outrider.outbox",
        "TRUNCATE outrider.outbox",
        "SELECT seq FROM outrider.delivery",
        "INSERT INTO outrider.delivery (seq, due_at, lane, topic) VALUES (99, now(), 0, 't')",
        "DELETE FROM outrider.delivery",
        "UPDATE outrider.lane SET owner = NULL",
        "SELECT * FROM outrider.claim",
        "SELECT * FROM outrider.receipt",
        "SELECT * FROM outrider.events",
        "SELECT * FROM outrider.blocked_keys",
        "SELECT * FROM outrider.inbox",
        "SELECT setval('outrider.outbox_seq_seq', 1)",
        "SELECT outrider.grant_rights()",
        "SELECT outrider.lane_of('k', 1)",
        "CREATE TABLE outrider.mine (x int)",
        "ALTER TABLE outrider.outbox DISABLE TRIGGER outbox_delivery",
    ] {
        refused(&mut f, sql).await;
    }
}

async fn the_relay_role_can_run_every_statement(mut f: Fixture) {
    let connect = f.database.options().options([("role", "outrider_relay")]);
    f.store = Store::new(StoreOptions::new(connect, Schema::default()));
    f.store.schema_state().await.unwrap();
    assert_eq!(f.store.trigger_state().await.unwrap(), TriggerState::Enabled);
    f.store.heartbeat("r", Duration::from_secs(1)).await.unwrap();
    f.store.take(LANE, f.owner, "r", LEASE, false).await.unwrap();
    f.store.reclaim(LANE, f.owner, &[], true).await.unwrap();
    f.store.orphans(LANE, OnDead::Block, &[]).await.unwrap();
    f.store.lanes().await.unwrap();
    let held = f.hold("t", "k", 3, FailedOutcome::Dead).await;
    f.store.topics(LANE, &[]).await.unwrap();
    f.store.promote(LANE, &[("t", "k")]).await.unwrap();
    f.store.requeue(&held).await.unwrap();
    f.pass_time().await;
    let (token, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    let seqs = claimed_seqs(&claimed);
    f.store.settle_sent("b", Uuid::new_v4(), &seqs, &[token]).await.unwrap();
    f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap();
    let more = f.hold("u", "k", 1, FailedOutcome::Dead).await;
    f.store.discard(&more, Uuid::new_v4()).await.unwrap();
    f.store.stats().await.unwrap();
    f.store.orphan_rows(100).await.unwrap();
    f.store.oldest_writer().await.unwrap();
    let retained = f.store.retention(Duration::ZERO, 10).await.unwrap().unwrap();
    assert_eq!(retained.events, 4);
    // The way past a locked row asks for a right of its own.
    let seqs = f.insert("t", None, 2).await;
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, &format!("BEGIN; SELECT FROM outrider.delivery WHERE seq = {} FOR UPDATE", seqs[0]))
        .await;
    let settled = f.store.settle_sent("b", Uuid::new_v4(), &seqs, &[]).await.unwrap();
    assert_eq!(settled.locked, seqs[..1]);
    f.store.give(LANE, f.owner, LEASE).await.unwrap();
    f.store.depart("r").await.unwrap();
}

async fn the_relay_role_can_do_nothing_else(mut f: Fixture) {
    f.insert("t", None, 1).await;
    let connect = f.database.options().options([("role", "outrider_relay")]);
    let mut relay = Store::new(StoreOptions::new(connect, Schema::default()));
    let error = relay.publish(&NewEvent { topic: "t", ..NewEvent::default() }).await.unwrap_err();
    assert!(error.is_schema(), "{error}");
    f.run("SET ROLE outrider_relay").await;
    for sql in [
        "INSERT INTO outrider.outbox (topic, type, payload) VALUES ('t', 't', 'x')",
        "UPDATE outrider.outbox SET payload = 'y'",
        "UPDATE outrider.outbox SET topic = 'y'",
        "INSERT INTO outrider.delivery (seq, due_at, lane, topic) VALUES (99, now(), 0, 't')",
        "DELETE FROM outrider.lane",
        "UPDATE outrider.receipt SET outcome = 'x'",
        "DELETE FROM outrider.migration",
        "CREATE TABLE outrider.mine (x int)",
        "SELECT outrider.grant_rights()",
    ] {
        refused(&mut f, sql).await;
    }
}

// C66
async fn a_second_consumer_sees_an_event_once(mut f: Fixture) {
    let id = Uuid::new_v4();
    let see = format!("SELECT outrider.record_delivery('{id}', 'billing')");
    f.run("SET ROLE outrider_app").await;
    let mut other = f.database.connect().await.unwrap();
    run(&mut other, "SET ROLE outrider_app; BEGIN").await;
    assert!(one::<bool>(&mut other, &see).await);
    // The second copy waits for the first one's transaction; that one fails, so the second handles it.
    let (mut sql, database) = (f.sql, f.database);
    let second = tokio::spawn(async move {
        let first_time = one::<bool>(&mut sql, &see).await;
        let again = one::<bool>(&mut sql, &see).await;
        (sql, first_time, again)
    });
    let mut watcher = database.connect().await.unwrap();
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !one::<bool>(&mut watcher, waits).await {}
    run(&mut other, "ROLLBACK").await;
    let (mut sql, first_time, again) = second.await.unwrap();
    assert!(first_time && !again);
    let elsewhere = format!("SELECT outrider.record_delivery('{id}', 'shipping')");
    assert!(one::<bool>(&mut sql, &elsewhere).await, "once per consumer");
}
