//! SETTLE SENT and SETTLE FAILED: facts are written by anybody, everything else only under a claim that stands.

use std::time::Duration;

use outrider::outbox::OnDead;
use outrider::store::{Failed, FailedOutcome, NotApplied, SettledSent};
use sqlx::Row as _;
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    sent_events_leave_with_a_receipt,
    a_settle_that_is_sent_again_changes_nothing,
    each_outcome_does_what_it_says,
    a_part_of_a_claim_is_settled_and_the_rest_flies_on,
    a_part_that_is_sent_again_late_puts_nothing_back,
    a_stale_owner_changes_nothing_but_facts,
    a_failure_of_an_event_that_somebody_else_confirmed_is_gone,
    a_released_event_is_ready_again_unless_its_key_is_held,
    no_delay_or_count_overflows,
    any_error_text_can_be_stored,
    the_longest_topic_and_key_can_be_held,
    one_deleted_and_one_locked_row_undo_nobody,
    crossing_settles_all_come_through,
    a_settle_of_nothing_is_nothing,
);

async fn sent_events_leave_with_a_receipt(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 3).await;
    let (token, _) = f.claim("t").await;
    let receipt = Uuid::new_v4();
    let settled = f.store.settle_sent("kafka-eu", receipt, &seqs, &[token]).await.unwrap();
    assert_eq!(settled, SettledSent { deleted: 3, promoted: 0, locked: vec![] });
    let row =
        rows(&mut f.sql, "SELECT id, broker, outcome, seqs, first_seq, last_seq FROM outrider.receipt").await;
    assert_eq!(row.len(), 1);
    assert_eq!(row[0].get::<Uuid, _>(0), receipt);
    assert_eq!((row[0].get::<&str, _>(1), row[0].get::<&str, _>(2)), ("kafka-eu", "sent"));
    assert_eq!(row[0].get::<Vec<i64>, _>(3), seqs);
    assert_eq!((row[0].get::<i64, _>(4), row[0].get::<i64, _>(5)), (seqs[0], seqs[2]));
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.claim").await, 0);
    assert_eq!(f.shown(seqs[0]).await, "sent");
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.outbox").await, 3, "the log stays");
}

async fn a_settle_that_is_sent_again_changes_nothing(mut f: Fixture) {
    let seqs = f.insert("t", None, 3).await;
    let (token, _) = f.claim("t").await;
    let receipt = Uuid::new_v4();
    f.store.settle_sent("b", receipt, &seqs, &[token]).await.unwrap();
    let again = f.store.settle_sent("b", receipt, &seqs, &[token]).await.unwrap();
    assert_eq!(again, SettledSent::default());
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.receipt").await, 1);
}

async fn each_outcome_does_what_it_says(mut f: Fixture) {
    let mut seqs = Vec::new();
    for key in ["refused", "unknown", "dead", "released", "blocked"] {
        seqs.extend(f.insert("t", Some(key), 1).await);
    }
    let (token, _) = f.claim("t").await;
    let outcomes = [
        FailedOutcome::Refused,
        FailedOutcome::Unknown,
        FailedOutcome::Dead,
        FailedOutcome::Released,
        FailedOutcome::Blocked,
    ];
    let given: Vec<Failed<'_>> =
        seqs.iter().zip(outcomes).map(|(seq, outcome)| failed(*seq, outcome)).collect();
    assert_eq!(f.store.settle_failed(token, &given, true).await.unwrap(), []);
    let mut states = Vec::new();
    for seq in &seqs {
        states.push(f.state(*seq).await.unwrap());
    }
    assert_eq!(states, [(1, 1, 1), (1, 1, 0), (3, 1, 1), (0, 0, 0), (2, 0, 0)]);
    let dead =
        "SELECT array_agg(seq) FROM outrider.delivery WHERE dead_at IS NOT NULL AND last_error = 'because'";
    assert_eq!(f.one::<Vec<i64>>(dead).await, [seqs[2]]);
    let waits: i32 = f.one("SELECT extract(epoch FROM min(due_at) - clock_timestamp())::int FROM outrider.delivery WHERE hold = 1").await;
    assert!((50..=60).contains(&waits), "{waits}");
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.claim").await, 0);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.receipt").await, 0);
}

async fn a_part_of_a_claim_is_settled_and_the_rest_flies_on(mut f: Fixture) {
    let seqs = f.insert("t", None, 4).await;
    let (token, _) = f.claim("t").await;
    f.store.settle_sent("b", Uuid::new_v4(), &seqs[..1], &[]).await.unwrap();
    f.store.settle_failed(token, &[failed(seqs[1], FailedOutcome::Unknown)], false).await.unwrap();
    let left: Vec<i64> = f.one("SELECT seqs FROM outrider.claim").await;
    assert_eq!(left, [seqs[0], seqs[2], seqs[3]], "a sent one may stay listed, it has no row");
    assert!(!f.claim_with("t", &[token], OnDead::Block).await.1.seen);
    // Named again, it is not in the claim any more.
    let again =
        f.store.settle_failed(token, &[failed(seqs[1], FailedOutcome::Unknown)], false).await.unwrap();
    assert_eq!(again, [(seqs[1], NotApplied::Fenced)]);
    assert_eq!(f.state(seqs[1]).await, Some((1, 1, 0)));
}

async fn a_part_that_is_sent_again_late_puts_nothing_back(mut f: Fixture) {
    let seqs = f.insert("t", None, 3).await;
    let (token, _) = f.claim("t").await;
    f.store.settle_failed(token, &[failed(seqs[0], FailedOutcome::Unknown)], false).await.unwrap();
    f.store.settle_failed(token, &[failed(seqs[1], FailedOutcome::Unknown)], false).await.unwrap();
    f.store.settle_failed(token, &[failed(seqs[0], FailedOutcome::Unknown)], false).await.unwrap();
    assert_eq!(f.one::<Vec<i64>>("SELECT seqs FROM outrider.claim").await, seqs[2..]);
}

// C17
async fn a_stale_owner_changes_nothing_but_facts(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 3).await;
    let (stale, _) = f.claim("t").await;
    let mut second = store(&f.database);
    let owner = Uuid::new_v4();
    second.take(LANE, owner, "second", LEASE, true).await.unwrap();
    second.reclaim(LANE, owner, &[], true).await.unwrap();
    f.owner = owner;
    let (fresh, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), seqs);

    let before = rows(&mut f.sql, "SELECT d::text FROM outrider.delivery d ORDER BY seq").await;
    let before: Vec<String> = before.iter().map(|row| row.get(0)).collect();
    for outcome in [
        FailedOutcome::Refused,
        FailedOutcome::Unknown,
        FailedOutcome::Dead,
        FailedOutcome::Released,
        FailedOutcome::Blocked,
    ] {
        let given: Vec<_> = seqs.iter().map(|seq| failed(*seq, outcome)).collect();
        let fenced = f.store.settle_failed(stale, &given, true).await.unwrap();
        assert_eq!(fenced, seqs.iter().map(|seq| (*seq, NotApplied::Fenced)).collect::<Vec<_>>());
    }
    let after = rows(&mut f.sql, "SELECT d::text FROM outrider.delivery d ORDER BY seq").await;
    assert_eq!(before, after.iter().map(|row| row.get::<String, _>(0)).collect::<Vec<_>>());

    // A late confirm is a fact, and it takes the event from the new owner's claim.
    let settled = f.store.settle_sent("b", Uuid::new_v4(), &seqs[..1], &[stale]).await.unwrap();
    assert_eq!(settled.deleted, 1);
    assert_eq!(f.one::<Uuid>("SELECT token FROM outrider.claim").await, fresh, "its claim stands");
}

async fn a_failure_of_an_event_that_somebody_else_confirmed_is_gone(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 2).await;
    let (token, _) = f.claim("t").await;
    f.store.settle_sent("b", Uuid::new_v4(), &seqs[..1], &[]).await.unwrap();
    let given = [failed(seqs[0], FailedOutcome::Unknown), failed(seqs[1], FailedOutcome::Blocked)];
    let left = f.store.settle_failed(token, &given, true).await.unwrap();
    assert_eq!(left, [(seqs[0], NotApplied::Gone)]);
    // The follower is parked behind nobody now; that is what orphans are for.
    assert_eq!(f.state(seqs[1]).await, Some((2, 0, 0)));
    assert_eq!(f.store.orphans(LANE, OnDead::Block, &[]).await.unwrap(), seqs[1..]);
}

async fn a_released_event_is_ready_again_unless_its_key_is_held(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 3).await;
    let free = f.insert("t", Some("free"), 1).await;
    let (token, _) = f.claim("t").await;
    let given = [failed(seqs[0], FailedOutcome::Refused), failed(seqs[1], FailedOutcome::Blocked)];
    f.store.settle_failed(token, &given, false).await.unwrap();
    let now = Duration::ZERO;
    let release = |seq| Failed { seq, outcome: FailedOutcome::Released, delay: now, error: None };
    let given = [release(seqs[2]), release(free[0])];
    assert_eq!(f.store.settle_failed(token, &given, true).await.unwrap(), []);
    assert_eq!(f.state(seqs[2]).await, Some((1, 0, 0)), "held: a follower parked meanwhile must not pass it");
    assert_eq!(f.state(free[0]).await, Some((0, 0, 0)));
}

// C05
async fn no_delay_or_count_overflows(mut f: Fixture) {
    let seqs = f.insert("t", None, 7).await;
    for (seq, count) in seqs.iter().zip([31, 63, 64, 1_100, 2_000_000_000, i32::MAX, 0]) {
        f.run(&format!(
            "UPDATE outrider.delivery SET attempts = {count}, refusals = {count} WHERE seq = {seq}"
        ))
        .await;
    }
    let (token, claimed) = f.claim("t").await;
    assert_eq!(events(&claimed)[5].attempts, i32::MAX as u32);
    let given: Vec<_> = seqs
        .iter()
        .map(|seq| Failed { seq: *seq, outcome: FailedOutcome::Refused, delay: Duration::MAX, error: None })
        .collect();
    assert_eq!(f.store.settle_failed(token, &given, true).await.unwrap(), []);
    assert_eq!(f.state(seqs[5]).await, Some((1, i32::MAX, i32::MAX)));
    assert_eq!(f.state(seqs[6]).await, Some((1, 1, 1)));
    let days: i32 =
        f.one("SELECT extract(day FROM max(due_at) - clock_timestamp())::int FROM outrider.delivery").await;
    assert!((365..=366).contains(&days), "{days}");
    // A lost lease counts an attempt too.
    f.pass_time().await;
    f.claim_due("t", &[], OnDead::Block).await;
    f.store.reclaim(LANE, f.owner, &[], true).await.unwrap();
    assert_eq!(f.state(seqs[5]).await, Some((1, i32::MAX, i32::MAX)));
}

// C74
async fn any_error_text_can_be_stored(mut f: Fixture) {
    let seqs = f.insert("t", None, 3).await;
    let (token, _) = f.claim("t").await;
    let long = "\u{10ffff}é\0".repeat(400_000);
    let errors = ["a\0b\0", long.as_str(), ""];
    let given: Vec<_> = seqs
        .iter()
        .zip(errors)
        .map(|(seq, error)| Failed { error: Some(error), ..failed(*seq, FailedOutcome::Dead) })
        .collect();
    assert_eq!(f.store.settle_failed(token, &given, true).await.unwrap(), []);
    let kept = rows(&mut f.sql, "SELECT last_error FROM outrider.delivery ORDER BY seq").await;
    assert_eq!(kept[0].get::<&str, _>(0), "ab");
    assert_eq!(kept[1].get::<String, _>(0).chars().count(), 500);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.delivery WHERE hold = 3").await, 3);
}

async fn the_longest_topic_and_key_can_be_held(mut f: Fixture) {
    // Random, so that it does not compress: what counts is whether an index entry holds it.
    let random = |bytes: i32| {
        format!(
            "SELECT left(string_agg(md5(random()::text || g::text), ''), {bytes}) FROM generate_series(1, 100) g"
        )
    };
    let topic: String = f.one(&random(512)).await;
    let key: String = f.one(&random(2_048)).await;
    let seqs = f.hold(&topic, &key, 2, FailedOutcome::Dead).await;
    assert_eq!(f.state(seqs[0]).await, Some((3, 1, 1)));
    // Longer ones fail the writer, not the relay.
    let error =
        sqlx::query("INSERT INTO outrider.outbox (topic, key, type, payload) VALUES ('t', $1, 't', 'x')")
            .bind(format!("{key}x"))
            .execute(&mut f.sql)
            .await
            .unwrap_err();
    assert!(error.to_string().contains("outbox_key_length"), "{error}");
}

// C59
async fn one_deleted_and_one_locked_row_undo_nobody(mut f: Fixture) {
    let seqs = f.insert("t", None, 50).await;
    let (token, _) = f.claim("t").await;
    f.run(&format!("DELETE FROM outrider.delivery WHERE seq = {}", seqs[19])).await;
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, &format!("BEGIN; SELECT FROM outrider.delivery WHERE seq = {} FOR UPDATE", seqs[29]))
        .await;

    let receipt = Uuid::new_v4();
    let settled = f.store.settle_sent("b", receipt, &seqs, &[token]).await.unwrap();
    assert_eq!(settled, SettledSent { deleted: 48, promoted: 0, locked: vec![seqs[29]] });
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.delivery").await, 1);
    assert_eq!(f.shown(seqs[29]).await, "leased", "it stays in flight: nobody publishes it again");
    assert!(!f.claim_with("t", &[token], OnDead::Block).await.1.seen);
    let listed: Vec<i64> = f.one("SELECT seqs FROM outrider.receipt").await;
    assert!(!listed.contains(&seqs[29]), "no receipt says that it left");

    run(&mut locker, "ROLLBACK").await;
    let settled = f.store.settle_sent("b", Uuid::new_v4(), &settled.locked, &[token]).await.unwrap();
    assert_eq!(settled, SettledSent { deleted: 1, promoted: 0, locked: vec![] });
    assert_eq!(f.shown(seqs[29]).await, "sent");
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.claim").await, 0);
}

// C62
async fn crossing_settles_all_come_through(mut f: Fixture) {
    const EVENTS: i32 = 2_000;
    let seqs = f.insert("t", Some("k"), EVENTS).await;
    // Heap order against seq order, so that a scan by heap would lock in another order.
    f.run("UPDATE outrider.delivery SET last_error = 'x' WHERE seq % 2 = 0").await;
    let tasks: Vec<_> = (0..4)
        .map(|replica| {
            let mut store = store(&f.database);
            let mut seqs = seqs.clone();
            if replica % 2 == 1 {
                seqs.reverse();
            }
            tokio::spawn(async move {
                let mut deleted = 0;
                for part in seqs.chunks(100) {
                    let mut part = part.to_vec();
                    while !part.is_empty() {
                        let settled = store.settle_sent("b", Uuid::new_v4(), &part, &[]).await.unwrap();
                        deleted += settled.deleted;
                        part = settled.locked;
                    }
                    store.retention(Duration::from_secs(3_600), 10).await.unwrap();
                }
                deleted
            })
        })
        .collect();
    let mut deleted = 0;
    for task in tasks {
        deleted += task.await.unwrap();
    }
    assert_eq!(deleted, EVENTS as u64, "each left once");
}

async fn a_settle_of_nothing_is_nothing(mut f: Fixture) {
    let (token, _) = f.claim("t").await;
    let settled = f.store.settle_sent("b", Uuid::new_v4(), &[], &[token]).await.unwrap();
    assert_eq!(settled, SettledSent::default());
    assert_eq!(f.store.settle_failed(token, &[], true).await.unwrap(), []);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.receipt").await, 0);
}
