//! What `check` and the janitor ask.

use std::time::Duration;

use outrider::store::{NewEvent, SchemaState, TriggerState};
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    a_disabled_or_missing_trigger_is_told,
    rows_without_delivery_row_and_receipt_are_found,
    the_oldest_writer_is_found,
    the_schema_is_current,
    publish_inserts_one_event,
);

async fn a_disabled_or_missing_trigger_is_told(mut f: Fixture) {
    assert_eq!(f.store.trigger_state().await.unwrap(), TriggerState::Enabled);
    for (change, state) in [
        ("DISABLE TRIGGER outbox_delivery", TriggerState::Disabled),
        ("ENABLE REPLICA TRIGGER outbox_delivery", TriggerState::Disabled),
        ("ENABLE ALWAYS TRIGGER outbox_delivery", TriggerState::Enabled),
    ] {
        f.run(&format!("ALTER TABLE outrider.outbox {change}")).await;
        assert_eq!(f.store.trigger_state().await.unwrap(), state, "{change}");
    }
    f.run("DROP TRIGGER outbox_delivery ON outrider.outbox").await;
    assert_eq!(f.store.trigger_state().await.unwrap(), TriggerState::Missing);
}

async fn rows_without_delivery_row_and_receipt_are_found(mut f: Fixture) {
    let sent = f.insert("t", None, 5).await;
    f.store.settle_sent("b", Uuid::new_v4(), &sent, &[]).await.unwrap();
    f.insert("t", None, 5).await;
    assert_eq!(f.store.orphan_rows(1_000).await.unwrap(), NONE);
    f.run("SET session_replication_role = replica").await;
    let orphans = f.insert("t", None, 3).await;
    f.run("RESET session_replication_role").await;
    assert_eq!(f.store.orphan_rows(1_000).await.unwrap(), orphans);
    assert_eq!(f.shown(orphans[0]).await, "orphan");
    assert_eq!(f.store.orphan_rows(2).await.unwrap(), orphans[1..], "of the newest two");
}

async fn the_oldest_writer_is_found(mut f: Fixture) {
    let mut writer = f.database.connect().await.unwrap();
    run(&mut writer, "BEGIN").await;
    insert(&mut writer, "t", None, 1).await;
    // Other databases of this server have writers too, and theirs may be older.
    let oldest = f.store.oldest_writer().await.unwrap().expect("there is one at least");
    assert!(oldest.pid.is_some());
    assert!(oldest.age.unwrap() < Duration::from_secs(600));
    let pid: i32 = one(&mut writer, "SELECT pg_backend_pid()").await;
    eventually("every older writer is done and ours is the oldest", || {
        let mut store = store(&f.database);
        async move { store.oldest_writer().await.unwrap().and_then(|w| w.pid) == Some(pid) }
    })
    .await;
    run(&mut writer, "ROLLBACK").await;
}

async fn the_schema_is_current(mut f: Fixture) {
    assert_eq!(f.store.schema_state().await.unwrap(), SchemaState::Current);
    f.run("UPDATE outrider.migration SET checksum = 'x' WHERE version = 3").await;
    let changed = SchemaState::Changed { version: 3, name: "ownership".into() };
    assert_eq!(f.store.schema_state().await.unwrap(), changed);
    f.run("DROP SCHEMA outrider CASCADE").await;
    assert_eq!(f.store.schema_state().await.unwrap(), SchemaState::Missing);
}

async fn publish_inserts_one_event(mut f: Fixture) {
    let event = NewEvent {
        topic: "orders",
        key: Some("k"),
        kind: Some("orders.created.v1"),
        payload: b"{}",
        headers: Some(r#"{"a": "b"}"#),
        serialize_key: true,
        ..NewEvent::default()
    };
    let id = f.store.publish(&event).await.unwrap();
    let plain =
        f.store.publish(&NewEvent { topic: "plain", payload: b"x", ..NewEvent::default() }).await.unwrap();
    let (_, claimed) = f.claim("orders").await;
    let body = events(&claimed)[0].body.clone().unwrap();
    assert_eq!(
        (body.id, &*body.kind, body.headers.as_deref()),
        (id, "orders.created.v1", Some(r#"{"a": "b"}"#))
    );
    let (_, claimed) = f.claim("plain").await;
    let body = events(&claimed)[0].body.clone().unwrap();
    assert_eq!((body.id, &*body.kind, body.headers), (plain, "plain", None));

    let later = time::OffsetDateTime::now_utc() + Duration::from_secs(3_600);
    let scheduled =
        NewEvent { topic: "later", payload: b"x", available_at: Some(later), ..NewEvent::default() };
    f.store.publish(&scheduled).await.unwrap();
    assert!(!f.claim("later").await.1.seen);
    let error = f.store.publish(&NewEvent { topic: "", ..NewEvent::default() }).await.unwrap_err();
    assert!(error.to_string().contains("outbox_topic_length"), "{error}");
    let error = f.store.publish(&NewEvent { headers: Some("{secret"), ..event.clone() }).await.unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(!error.outcome_unknown());
}
