//! RETENTION: by receipt, in small steps, one runner, and nothing that was not sent.

use std::time::Duration;

use outrider::store::{FailedOutcome, Retained};
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    only_what_left_long_ago_goes,
    it_goes_in_steps_oldest_first,
    locked_rows_wait,
    one_runner_at_a_time,
    an_event_that_is_unsent_again_stays,
);

const HOUR: Duration = Duration::from_secs(3_600);

async fn send(f: &mut Fixture, seqs: &[i64], settled: &str) {
    let receipt = Uuid::new_v4();
    f.store.settle_sent("b", receipt, seqs, &[]).await.unwrap();
    f.run(&format!(
        "UPDATE outrider.receipt SET settled_at = now() - interval '{settled}' WHERE id = '{receipt}'"
    ))
    .await;
}

// C80
async fn only_what_left_long_ago_goes(mut f: Fixture) {
    let insert_old = |topic: &str| {
        format!(
            "INSERT INTO outrider.outbox (topic, key, type, payload, occurred_at) VALUES ('{topic}', '{topic}', 't', 'x', now() - interval '2 days')"
        )
    };
    for topic in ["pending", "leased", "dead", "sent-long-ago", "sent-just-now", "discarded-long-ago"] {
        f.run(&insert_old(topic)).await;
    }
    let all: Vec<i64> = f.one("SELECT array_agg(seq ORDER BY seq) FROM outrider.outbox").await;
    f.claim("leased").await;
    f.run("UPDATE outrider.delivery SET hold = 3, dead_at = now() - interval '2 days' WHERE topic IN ('dead', 'discarded-long-ago')").await;
    send(&mut f, &all[3..4], "2 hours").await;
    send(&mut f, &all[4..5], "30 minutes").await;
    let receipt = Uuid::new_v4();
    f.store.discard(&all[5..6], receipt).await.unwrap();
    f.run(&format!(
        "UPDATE outrider.receipt SET settled_at = now() - interval '2 hours' WHERE id = '{receipt}'"
    ))
    .await;

    let retained = f.store.retention(HOUR, 100).await.unwrap();
    assert_eq!(retained, Some(Retained { events: 2, receipts: 2, locked: 0 }));
    let left: Vec<String> = f.one("SELECT array_agg(topic ORDER BY seq) FROM outrider.outbox").await;
    assert_eq!(left, ["pending", "leased", "dead", "sent-just-now"]);
    assert_eq!(f.store.retention(HOUR, 100).await.unwrap(), Some(Retained::default()));
}

async fn it_goes_in_steps_oldest_first(mut f: Fixture) {
    let seqs = f.insert("t", None, 6).await;
    send(&mut f, &seqs[4..6], "3 hours").await;
    send(&mut f, &seqs[0..2], "5 hours").await;
    send(&mut f, &seqs[2..4], "4 hours").await;
    let step = Some(Retained { events: 2, receipts: 1, locked: 0 });
    for left in [vec![2, 3, 4, 5], vec![4, 5], vec![]] {
        assert_eq!(f.store.retention(HOUR, 1).await.unwrap(), step);
        let expected: Vec<i64> = left.into_iter().map(|index: usize| seqs[index]).collect();
        let found: Option<Vec<i64>> = f.one("SELECT array_agg(seq ORDER BY seq) FROM outrider.outbox").await;
        assert_eq!(found.unwrap_or_default(), expected);
    }
    assert_eq!(f.store.retention(HOUR, 1).await.unwrap(), Some(Retained::default()));
}

// C79
async fn locked_rows_wait(mut f: Fixture) {
    let seqs = f.insert("t", None, 6).await;
    send(&mut f, &seqs[..3], "5 hours").await;
    send(&mut f, &seqs[3..], "4 hours").await;
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, &format!("BEGIN; SELECT FROM outrider.outbox WHERE seq = {} FOR KEY SHARE", seqs[1]))
        .await;
    let retained = f.store.retention(HOUR, 100).await.unwrap();
    assert_eq!(retained, Some(Retained { events: 5, receipts: 1, locked: 1 }));
    assert_eq!(f.shown(seqs[1]).await, "sent", "its receipt stays with it");
    run(&mut locker, "ROLLBACK").await;
    let retained = f.store.retention(HOUR, 100).await.unwrap();
    assert_eq!(retained, Some(Retained { events: 1, receipts: 1, locked: 0 }));
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.receipt").await, 0);
}

async fn one_runner_at_a_time(mut f: Fixture) {
    let seqs = f.insert("t", None, 2).await;
    send(&mut f, &seqs, "5 hours").await;
    // The first run is held up while it works: its advisory lock is held, its rows are not to be had.
    let mut blocker = f.database.connect().await.unwrap();
    run(&mut blocker, "BEGIN; SELECT FROM outrider.receipt FOR KEY SHARE").await;
    let mut first = store(&f.database);
    let held_up = tokio::spawn(async move { first.retention(HOUR, 100).await });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
    let mut second_was_refused = false;
    while !held_up.is_finished() {
        if f.one::<bool>(waits).await && f.store.retention(HOUR, 100).await.ok() == Some(None) {
            second_was_refused = true;
            break;
        }
    }
    run(&mut blocker, "ROLLBACK").await;
    let first = held_up.await.unwrap();
    assert!(second_was_refused, "the first run said {first:?}");
    let after = f.store.retention(HOUR, 100).await.unwrap().unwrap();
    let removed = first.ok().flatten().map_or(0, |r| r.events) + after.events;
    assert_eq!(removed, 2, "each was removed once");
}

async fn an_event_that_is_unsent_again_stays(mut f: Fixture) {
    // An operator repaired an orphan that had a receipt all the same: what has a delivery row is not sent.
    let seqs = f.hold("t", "k", 1, FailedOutcome::Dead).await;
    f.run(&format!(
        "INSERT INTO outrider.receipt (id, broker, seqs, first_seq, last_seq, settled_at)
         VALUES (gen_random_uuid(), 'b', ARRAY[{0}], {0}, {0}, now() - interval '1 day')",
        seqs[0]
    ))
    .await;
    f.store.retention(HOUR, 100).await.unwrap();
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.outbox").await, 1);
    assert_eq!(f.shown(seqs[0]).await, "dead");
}
