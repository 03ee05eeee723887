//! CLAIM and CLAIM DUE: what is claimed, what is not, and in which order.

use std::time::Duration;

use outrider::outbox::OnDead;
use outrider::store::{FailedOutcome, Row, StoreOptions, TopicRequest};
use sqlx::Row as _;
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    an_event_comes_back_as_it_was_stored,
    nothing_there_costs_nothing,
    rows_come_back_in_order_whatever_the_heap_says,
    a_limit_is_a_limit,
    a_limit_holds_under_the_worst_plan,
    what_flies_is_left_out,
    what_is_at_or_below_the_floor_is_left_out,
    a_late_commit_is_claimed,
    the_oldest_running_writer_is_told,
    a_follower_of_a_held_event_is_parked_once,
    a_parked_key_holds_nobody_else_up,
    a_dead_event_blocks_or_not_by_topic,
    a_retry_comes_back_when_due_and_takes_its_followers_along,
    a_due_head_outside_the_window_blocks_its_followers,
    a_scheduled_event_waits_for_its_time_and_for_no_order,
    an_event_without_payload_row_comes_back_without_body,
    payload_and_headers_are_not_touched,
    odd_times_harm_nobody,
    other_lanes_are_not_claimed,
);

async fn an_event_comes_back_as_it_was_stored(mut f: Fixture) {
    let row = rows(
        &mut f.sql,
        "INSERT INTO outrider.outbox (topic, key, type, content_type, headers, payload, occurred_at)
         VALUES ('orders.eu', 'k-1', 'orders.created.v1', 'text/plain', '{\"a\": \"b\"}', '\\x00ff', '2024-02-29 12:00:00.123456+00')
         RETURNING seq, id",
    )
    .await;
    let (seq, id): (i64, Uuid) = (row[0].get(0), row[0].get(1));
    let (token, claimed) = f.claim("orders.eu").await;
    assert!(claimed.seen && !claimed.lane_lost() && claimed.xid.is_some());
    let left = claimed.lease_left.unwrap();
    assert!(left > LEASE - Duration::from_secs(10) && left <= LEASE);
    let event = events(&claimed)[0];
    assert_eq!((event.seq, &*event.topic, event.key.as_deref()), (seq, "orders.eu", Some("k-1")));
    assert_eq!((event.attempts, event.refusals), (0, 0));
    let body = event.body.as_ref().unwrap();
    assert_eq!((body.id, &*body.kind, &*body.content_type), (id, "orders.created.v1", "text/plain"));
    assert_eq!(body.headers.as_deref(), Some("{\"a\": \"b\"}"));
    assert_eq!(body.occurred_at, time::macros::datetime!(2024-02-29 12:00:00.123456 UTC));
    assert_eq!(&body.payload[..], b"\x00\xff");

    let claims = rows(&mut f.sql, "SELECT token, lane, broker, seqs FROM outrider.claim").await;
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0].get::<Uuid, _>(0), token);
    assert_eq!(claims[0].get::<Vec<i64>, _>(3), [seq]);
    assert_eq!(f.state(seq).await, Some((0, 0, 0)), "a claim changes no event");
}

async fn nothing_there_costs_nothing(mut f: Fixture) {
    // Whoever locks the lane row leaves a trace in it.
    let trace = "SELECT ctid::text || xmin::text || xmax::text FROM outrider.lane";
    let before: String = f.one(trace).await;
    for _ in 0..3 {
        let (_, claimed) = f.claim("t").await;
        assert!(!claimed.seen && !claimed.lane_lost() && claimed.rows.is_empty());
        assert_eq!(claimed.xid, None);
        assert!(claimed.xmin > 0);
        assert!(!f.claim_due("t", &[], OnDead::Block).await.1.seen);
    }
    assert_eq!(f.one::<String>(trace).await, before);
    f.insert("t", None, 1).await;
    f.claim("t").await;
    assert_ne!(f.one::<String>(trace).await, before, "a claim of something does lock it");
}

// C25
async fn rows_come_back_in_order_whatever_the_heap_says(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 500).await;
    f.run("UPDATE outrider.delivery SET last_error = md5(random()::text) WHERE seq % 3 = 0").await;
    f.run("UPDATE outrider.delivery SET last_error = NULL WHERE seq % 7 = 0").await;
    let topics = [TopicRequest { topic: "t", after: -1, limit: 500, on_dead: OnDead::Block }];
    let request = f.request(&[], &topics);
    let claimed = f.store.claim(&request).await.unwrap();
    assert_eq!(claimed_seqs(&claimed), seqs);
    let numbers: Vec<String> = events(&claimed)
        .iter()
        .map(|e| String::from_utf8(e.body.as_ref().unwrap().payload.to_vec()).unwrap())
        .collect();
    assert_eq!(numbers, (1..=500).map(|n| n.to_string()).collect::<Vec<_>>());
}

// C01
async fn a_limit_is_a_limit(mut f: Fixture) {
    f.insert("a", Some("k"), 30).await;
    f.insert("b", None, 30).await;
    let topics = [
        TopicRequest { topic: "a", after: -1, limit: 7, on_dead: OnDead::Block },
        TopicRequest { topic: "b", after: -1, limit: 0, on_dead: OnDead::Skip },
        TopicRequest { topic: "none", after: -1, limit: 9, on_dead: OnDead::Block },
    ];
    let request = f.request(&[], &topics);
    let claimed = f.store.claim(&request).await.unwrap();
    assert_eq!(claimed.rows.len(), 7);
    assert!(claimed.rows.iter().all(|row| &**row.topic() == "a"));
    assert_eq!(claimed.excess, 0);
}

// C01: never analysed, and every join that materialises its input turned off.
async fn a_limit_holds_under_the_worst_plan(mut f: Fixture) {
    f.run("ALTER TABLE outrider.delivery SET (autovacuum_enabled = off)").await;
    f.insert("t", Some("k"), 5_000).await;
    f.insert("t", None, 5_000).await;
    let odd = [
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("enable_material", "off"),
        ("enable_sort", "off"),
    ];
    let options = StoreOptions::new(f.database.options().options(odd), Default::default());
    f.store = outrider::store::Store::new(options);
    let topics = [TopicRequest { topic: "t", after: -1, limit: 10, on_dead: OnDead::Block }];
    let mut live = Vec::new();
    let mut seen = Vec::new();
    for round in 0..40 {
        let request = f.request(&live, &topics);
        let claimed = f.store.claim(&request).await.unwrap();
        assert_eq!((claimed.rows.len(), claimed.excess), (10, 0), "round {round}");
        seen.extend(claimed_seqs(&claimed));
        live.push(request.token);
    }
    let most: i32 = f.one("SELECT max(cardinality(seqs)) FROM outrider.claim").await;
    assert_eq!(most, 10);
    let distinct: std::collections::BTreeSet<i64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), 400, "nothing was claimed twice");
}

async fn what_flies_is_left_out(mut f: Fixture) {
    let first = f.insert("t", Some("k"), 2).await;
    let (one, _) = f.claim("t").await;
    let second = f.insert("t", Some("k"), 2).await;
    let (two, claimed) = f.claim_with("t", &[one], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), second, "an event in flight does not block its followers");
    let (_, claimed) = f.claim_with("t", &[one, two], OnDead::Block).await;
    assert!(!claimed.seen);
    let (_, claimed) = f.claim_with("t", &[two], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), first, "whatever the owner does not name is not in flight");
}

async fn what_is_at_or_below_the_floor_is_left_out(mut f: Fixture) {
    let seqs = f.insert("t", None, 3).await;
    let topics = [TopicRequest { topic: "t", after: seqs[0], limit: 9, on_dead: OnDead::Block }];
    let request = f.request(&[], &topics);
    assert_eq!(claimed_seqs(&f.store.claim(&request).await.unwrap()), seqs[1..]);
}

// C11, C23: the lower seq commits after the higher one was sent.
async fn a_late_commit_is_claimed(mut f: Fixture) {
    let mut early = f.database.connect().await.unwrap();
    run(&mut early, "BEGIN").await;
    let late = insert(&mut early, "t", Some("k"), 1).await;
    let first = f.insert("t", Some("k"), 1).await;
    assert!(late[0] < first[0]);

    let (token, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), first);
    f.store.settle_sent("b", Uuid::new_v4(), &first, &[token]).await.unwrap();
    run(&mut early, "COMMIT").await;

    assert_eq!(claimed_seqs(&f.claim("t").await.1), late);
}

async fn the_oldest_running_writer_is_told(mut f: Fixture) {
    let mut writer = f.database.connect().await.unwrap();
    run(&mut writer, "BEGIN").await;
    insert(&mut writer, "t", None, 1).await;
    let xid: i64 = one(&mut writer, "SELECT pg_current_xact_id()::text::bigint").await;
    f.insert("t", None, 1).await;
    let (_, claimed) = f.claim("t").await;
    assert!(claimed.xmin <= xid, "{} is not before the writer {xid}", claimed.xmin);
    assert!(claimed.xid.unwrap() > xid);
    run(&mut writer, "COMMIT").await;
    let (_, claimed) = f.claim("none").await;
    // Writers of other databases of the server count too, so this may take a while.
    let mut xmin = claimed.xmin;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    while xmin <= xid && tokio::time::Instant::now() < deadline {
        xmin = f.claim("none").await.1.xmin;
    }
    assert!(xmin > xid, "the floor passes a writer that is done");
}

// C21
async fn a_follower_of_a_held_event_is_parked_once(mut f: Fixture) {
    let seqs = f.hold("t", "k", 1, FailedOutcome::Refused).await;
    let later = f.insert("t", Some("k"), 2).await;
    let (_, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), NONE);
    assert_eq!(blocked_seqs(&claimed), later);
    assert_eq!(claimed.parked, 2);
    assert!(!claimed.lane_lost() && claimed.xid.is_none());
    assert!(!f.claim("t").await.1.seen, "parked rows are met once");
    assert_eq!(f.state(later[0]).await, Some((2, 0, 0)));
    assert_eq!(f.shown(later[0]).await, "blocked");
    assert_eq!(f.shown(seqs[0]).await, "backing off");
}

async fn a_parked_key_holds_nobody_else_up(mut f: Fixture) {
    f.hold("t", "k", 2, FailedOutcome::Unknown).await;
    let other_key = f.insert("t", Some("other"), 1).await;
    let no_key = f.insert("t", None, 1).await;
    let other_topic = f.insert("u", Some("k"), 1).await;
    f.insert("t", Some("k"), 1).await;
    let (_, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), [other_key[0], no_key[0]]);
    assert_eq!(claimed_seqs(&f.claim("u").await.1), other_topic);
}

// C22
async fn a_dead_event_blocks_or_not_by_topic(mut f: Fixture) {
    f.hold("strict", "k", 1, FailedOutcome::Dead).await;
    f.hold("loose", "k", 1, FailedOutcome::Dead).await;
    let strict = f.insert("strict", Some("k"), 1).await;
    let loose = f.insert("loose", Some("k"), 1).await;
    let topics = [
        TopicRequest { topic: "strict", after: -1, limit: 9, on_dead: OnDead::Block },
        TopicRequest { topic: "loose", after: -1, limit: 9, on_dead: OnDead::Skip },
    ];
    let request = f.request(&[], &topics);
    let claimed = f.store.claim(&request).await.unwrap();
    assert_eq!(claimed_seqs(&claimed), loose);
    assert_eq!(blocked_seqs(&claimed), strict);
}

// C21
async fn a_retry_comes_back_when_due_and_takes_its_followers_along(mut f: Fixture) {
    let seqs = f.hold("t", "k", 3, FailedOutcome::Refused).await;
    assert!(!f.claim_due("t", &[], OnDead::Block).await.1.seen, "not due");
    f.pass_time().await;
    let (token, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), seqs[..1]);
    assert_eq!((events(&claimed)[0].attempts, events(&claimed)[0].refusals), (1, 1));
    let settled = f.store.settle_sent("b", Uuid::new_v4(), &seqs[..1], &[token]).await.unwrap();
    assert_eq!((settled.deleted, settled.promoted), (1, 2));
    let (_, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), seqs[1..]);
}

async fn a_due_head_outside_the_window_blocks_its_followers(mut f: Fixture) {
    let seqs = f.hold("t", "k", 2, FailedOutcome::Refused).await;
    // The follower is due before its head, and the window has room for one.
    f.run(&format!(
        "UPDATE outrider.delivery SET hold = 1, due_at = clock_timestamp() - interval '1 h' WHERE seq = {};
         UPDATE outrider.delivery SET due_at = clock_timestamp() WHERE seq = {}",
        seqs[1], seqs[0]
    ))
    .await;
    let topics = [TopicRequest { topic: "t", after: -1, limit: 1, on_dead: OnDead::Block }];
    let request = f.request(&[], &topics);
    let claimed = f.store.claim_due(&request).await.unwrap();
    assert_eq!((claimed_seqs(&claimed), blocked_seqs(&claimed)), (NONE.to_vec(), vec![seqs[1]]));
    assert_eq!(claimed.parked, 1);
    let (_, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), seqs[..1]);
}

async fn a_scheduled_event_waits_for_its_time_and_for_no_order(mut f: Fixture) {
    f.run("INSERT INTO outrider.outbox (topic, key, type, payload, available_at) VALUES ('t', 'k', 't', 'x', now() + interval '1 hour')").await;
    let scheduled: i64 = f.one("SELECT max(seq) FROM outrider.outbox").await;
    let later = f.insert("t", Some("k"), 1).await;
    assert_eq!(f.shown(scheduled).await, "scheduled");
    assert!(!f.claim_due("t", &[], OnDead::Block).await.1.seen);
    let (token, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), later, "it takes no part in its key's order");
    f.store.settle_sent("b", Uuid::new_v4(), &later, &[token]).await.unwrap();
    f.pass_time().await;
    let (token, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), [scheduled]);
    // Tried and not sent, it holds back later events of its key like any other.
    f.store.settle_failed(token, &[failed(scheduled, FailedOutcome::Unknown)], true).await.unwrap();
    let after = f.insert("t", Some("k"), 1).await;
    assert_eq!(blocked_seqs(&f.claim("t").await.1), after);
}

async fn an_event_without_payload_row_comes_back_without_body(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 3).await;
    f.run(&format!("DELETE FROM outrider.outbox WHERE seq = {}", seqs[1])).await;
    let (_, claimed) = f.claim("t").await;
    let bodies: Vec<bool> = events(&claimed).iter().map(|e| e.body.is_some()).collect();
    assert_eq!((claimed_seqs(&claimed), bodies), (seqs, vec![true, false, true]));
}

// C75
async fn payload_and_headers_are_not_touched(mut f: Fixture) {
    let text =
        r#"{"a":9007199254740993,"b":12345678901234567890123,"c":1.10,"d":1e400,"e":-0.0,"f":"é","a":1}"#;
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.extend(text.as_bytes());
    for payload in [text.as_bytes(), &bytes[..], b""] {
        sqlx::query(
            "INSERT INTO outrider.outbox (topic, type, payload, headers) VALUES ('t', 't', $1, $2::jsonb)",
        )
        .bind(payload)
        .bind(r#"{"n": 12345678901234567890123, "o": 1.10}"#)
        .execute(&mut f.sql)
        .await
        .unwrap();
    }
    let (_, claimed) = f.claim("t").await;
    let bodies: Vec<_> = events(&claimed).into_iter().map(|e| e.body.clone().unwrap()).collect();
    assert_eq!(&bodies[0].payload[..], text.as_bytes());
    assert_eq!(&bodies[1].payload[..], &bytes[..]);
    assert!(bodies[2].payload.is_empty());
    assert_eq!(bodies[0].headers.as_deref(), Some(r#"{"n": 12345678901234567890123, "o": 1.10}"#));
}

async fn odd_times_harm_nobody(mut f: Fixture) {
    f.run(
        "INSERT INTO outrider.outbox (topic, type, payload, occurred_at) VALUES
           ('t', 't', 'x', 'infinity'), ('t', 't', 'x', '-infinity'), ('t', 't', 'x', '294276-12-31 23:59:59+00'),
           ('t', 't', 'x', '4713-01-01 00:00:00+00 BC'), ('t', 't', 'x', '2024-01-01 00:00:00+00')",
    )
    .await;
    f.run("INSERT INTO outrider.outbox (topic, type, payload, available_at) VALUES ('t', 't', 'x', 'infinity'), ('t', 't', 'x', '-infinity')").await;
    let (_, claimed) = f.claim("t").await;
    let years: Vec<i32> =
        events(&claimed).iter().map(|e| e.body.as_ref().unwrap().occurred_at.year()).collect();
    assert_eq!(years[..5], [9999, -9999, 9999, -4712, 2024]);
    assert_eq!(years.len(), 6, "all but the one that is never due");
    f.store.topics(LANE, &[]).await.unwrap();
    f.store.stats().await.unwrap();
}

async fn other_lanes_are_not_claimed(mut f: Fixture) {
    let seqs = f.insert("t", None, 2).await;
    f.run(&format!(
        "INSERT INTO outrider.lane (lane) VALUES (1); UPDATE outrider.delivery SET lane = 1 WHERE seq = {}",
        seqs[1]
    ))
    .await;
    let (_, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), seqs[..1]);
    assert!(matches!(claimed.rows[0], Row::Event(_)));
}
