//! The view of blocked keys: which they are, what stands at their head, and why that is not out.

use outrider::outbox::OnDead;
use outrider::store::FailedOutcome;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    a_key_is_listed_with_its_head_its_age_and_the_reason,
    a_key_is_listed_only_while_something_waits_behind_its_head,
    what_was_passed_over_is_not_the_head,
    a_head_that_is_gone_is_said_to_be,
    the_relay_may_read_it,
);

/// One row of the view.
#[derive(Debug, PartialEq, sqlx::FromRow)]
struct Key {
    topic: String,
    key: String,
    head_seq: Option<i64>,
    head_state: String,
    last_error: Option<String>,
    blocked: i64,
}

fn key(topic: &str, key: &str, head: i64, state: &str, blocked: i64) -> Key {
    Key {
        topic: topic.to_owned(),
        key: key.to_owned(),
        head_seq: Some(head),
        head_state: state.to_owned(),
        last_error: Some("because".to_owned()),
        blocked,
    }
}

async fn listed(f: &mut Fixture) -> Vec<Key> {
    let listed = "SELECT topic, key, head_seq, head_state, last_error, blocked FROM outrider.blocked_keys";
    let listed: Vec<Key> = sqlx::query_as(AssertSqlSafe(listed)).fetch_all(&mut f.sql).await.unwrap();
    let gauge = f.store.stats().await.unwrap().blocked_keys;
    assert_eq!(gauge, listed.len() as u64, "the gauge counts what is listed: {listed:?}");
    listed
}

async fn a_key_is_listed_with_its_head_its_age_and_the_reason(mut f: Fixture) {
    assert_eq!(listed(&mut f).await, []);
    let dead = f.hold("t", "dead", 3, FailedOutcome::Dead).await;
    let waiting = f.hold("u", "waiting", 2, FailedOutcome::Refused).await;
    f.insert("t", Some("free"), 2).await;
    let both = [key("t", "dead", dead[0], "dead", 2), key("u", "waiting", waiting[0], "backing off", 1)];
    assert_eq!(listed(&mut f).await, both);

    f.run(
        "UPDATE outrider.outbox SET occurred_at = clock_timestamp() - interval '3 hours' WHERE topic = 't'",
    )
    .await;
    let right = format!(
        "SELECT bool_and(head_id = (SELECT id FROM outrider.outbox WHERE seq = {}) AND head_type = 't' AND attempts = 1
            AND refusals = 1 AND age BETWEEN interval '3 hours' AND interval '3 hours 1 minute' AND due_at IS NULL
            AND dead_at > clock_timestamp() - interval '1 minute') FROM outrider.blocked_keys WHERE key = 'dead'",
        dead[0]
    );
    assert!(f.one::<bool>(&right).await);
    let next =
        "SELECT due_at - now() BETWEEN interval '50 seconds' AND interval '60 seconds' AND dead_at IS NULL
                  FROM outrider.blocked_keys WHERE key = 'waiting'";
    assert!(f.one::<bool>(next).await);

    f.pass_time().await;
    assert_eq!(listed(&mut f).await[1].head_state, "pending");
    let (token, _) = f.claim_due("u", &[], OnDead::Block).await;
    assert_eq!(listed(&mut f).await[1].head_state, "leased");
    f.store.settle_sent("b", Uuid::new_v4(), &waiting[..1], &[token]).await.unwrap();
    assert_eq!(listed(&mut f).await, both[..1], "its follower goes on");
}

async fn a_key_is_listed_only_while_something_waits_behind_its_head(mut f: Fixture) {
    let alone = f.hold("t", "alone", 1, FailedOutcome::Dead).await;
    assert_eq!(listed(&mut f).await, []);
    f.insert("t", Some("alone"), 2).await;
    f.claim("t").await;
    assert_eq!(listed(&mut f).await, [key("t", "alone", alone[0], "dead", 2)]);
    f.store.requeue(&alone).await.unwrap();
    assert_eq!(listed(&mut f).await[0].head_state, "pending");
    let again = f.hold("t", "other", 2, FailedOutcome::Dead).await;
    assert_eq!(listed(&mut f).await.len(), 2);
    f.store.discard(&again[..1], Uuid::new_v4()).await.unwrap();
    assert_eq!(listed(&mut f).await.len(), 1);
}

// Under `on_dead = "skip"` a dead event holds nobody back.
async fn what_was_passed_over_is_not_the_head(mut f: Fixture) {
    let dead = f.hold("t", "k", 1, FailedOutcome::Dead).await;
    let waiting = f.insert("t", Some("k"), 2).await;
    let (token, claimed) = f.claim_with("t", &[], OnDead::Skip).await;
    assert_eq!(claimed_seqs(&claimed), waiting);
    let ends = [failed(waiting[0], FailedOutcome::Refused), failed(waiting[1], FailedOutcome::Blocked)];
    f.store.settle_failed(token, &ends, true).await.unwrap();
    assert!(dead[0] < waiting[0]);
    assert_eq!(listed(&mut f).await, [key("t", "k", waiting[0], "backing off", 1)]);
}

async fn a_head_that_is_gone_is_said_to_be(mut f: Fixture) {
    let seqs = f.hold("t", "k", 3, FailedOutcome::Refused).await;
    f.run(&format!("DELETE FROM outrider.delivery WHERE seq = {}", seqs[0])).await;
    let gone = listed(&mut f).await;
    assert_eq!((gone[0].head_seq, gone[0].head_state.as_str(), gone[0].blocked), (None, "gone", 2));
    f.store.orphans(LANE, OnDead::Block, &[]).await.unwrap();
    assert_eq!(listed(&mut f).await, [key("t", "k", seqs[1], "pending", 1)]);
}

async fn the_relay_may_read_it(mut f: Fixture) {
    f.hold("t", "k", 2, FailedOutcome::Dead).await;
    f.run("SET ROLE outrider_relay").await;
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.blocked_keys").await, 1);
}
