//! PROMOTE, ORPHANS, REQUEUE, DISCARD: held rows always find their way on.

use outrider::outbox::OnDead;
use outrider::store::FailedOutcome;
use sqlx::Row as _;
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    followers_of_a_passed_over_event_are_promoted,
    a_confirmed_head_promotes_two_hundred_and_the_rest_follows,
    orphans_are_parked_rows_without_a_head,
    orphans_go_by_the_rule_of_their_topic,
    a_requeued_event_starts_afresh,
    a_discarded_event_leaves_with_a_receipt_that_says_so,
);

// C22
async fn followers_of_a_passed_over_event_are_promoted(mut f: Fixture) {
    let seqs = f.hold("t", "k", 3, FailedOutcome::Dead).await;
    let others = f.hold("t", "other", 2, FailedOutcome::Dead).await;
    assert_eq!(f.store.promote(LANE, &[("t", "k"), ("none", "k")]).await.unwrap(), seqs[1..]);
    assert_eq!(f.store.promote(LANE, &[("t", "k")]).await.unwrap(), NONE);
    let (_, claimed) = f.claim_due("t", &[], OnDead::Skip).await;
    assert_eq!(claimed_seqs(&claimed), seqs[1..]);
    assert_eq!(f.state(others[1]).await, Some((2, 0, 0)));
}

async fn a_confirmed_head_promotes_two_hundred_and_the_rest_follows(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 1).await;
    let (token, _) = f.claim("t").await;
    f.store.settle_failed(token, &[failed(seqs[0], FailedOutcome::Unknown)], true).await.unwrap();
    let followers = f.insert("t", Some("k"), 450).await;
    while f.claim("t").await.1.seen {}
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.delivery WHERE hold = 2").await, 450);
    // The heap holds them in another order than seq.
    f.run("UPDATE outrider.delivery SET last_error = 'x' WHERE seq % 3 = 0").await;

    let mut sent: Vec<i64> = Vec::new();
    f.pass_time().await;
    loop {
        let (token, claimed) = f.claim_due("t", &[], OnDead::Block).await;
        let seqs = claimed_seqs(&claimed);
        if !claimed.seen {
            break;
        }
        assert_eq!(claimed.parked, 0, "followers come due in order, so that none is parked twice");
        sent.extend(&seqs);
        f.store.settle_sent("b", Uuid::new_v4(), &seqs, &[token]).await.unwrap();
    }
    let expected: Vec<i64> = seqs.into_iter().chain(followers).collect();
    assert_eq!(sent, expected, "all, and in order");
}

async fn orphans_are_parked_rows_without_a_head(mut f: Fixture) {
    let orphan = f.hold("t", "lost", 3, FailedOutcome::Refused).await;
    let fine = f.hold("t", "fine", 2, FailedOutcome::Refused).await;
    assert_eq!(f.store.orphans(LANE, OnDead::Block, &[]).await.unwrap(), NONE);
    f.run(&format!("DELETE FROM outrider.delivery WHERE seq = {}", orphan[0])).await;
    assert_eq!(f.store.orphans(LANE, OnDead::Block, &[]).await.unwrap(), [orphan[1]]);
    assert_eq!(f.state(orphan[1]).await, Some((1, 0, 0)));
    assert_eq!(f.state(orphan[2]).await, Some((2, 0, 0)), "it has a head again");
    assert_eq!(f.state(fine[1]).await, Some((2, 0, 0)));
    assert_eq!(f.store.orphans(7, OnDead::Block, &[]).await.unwrap(), NONE, "another lane");
}

async fn orphans_go_by_the_rule_of_their_topic(mut f: Fixture) {
    let strict = f.hold("strict", "k", 2, FailedOutcome::Dead).await;
    let loose = f.hold("loose", "k", 2, FailedOutcome::Dead).await;
    assert_eq!(f.store.orphans(LANE, OnDead::Block, &[]).await.unwrap(), NONE);
    assert_eq!(f.store.orphans(LANE, OnDead::Block, &["loose"]).await.unwrap(), loose[1..]);
    assert_eq!(f.store.orphans(LANE, OnDead::Skip, &["strict"]).await.unwrap(), NONE);
    assert_eq!(f.store.orphans(LANE, OnDead::Skip, &["loose"]).await.unwrap(), strict[1..]);
}

async fn a_requeued_event_starts_afresh(mut f: Fixture) {
    let seqs = f.hold("t", "k", 2, FailedOutcome::Dead).await;
    assert_eq!(f.shown(seqs[0]).await, "dead");
    assert_eq!(f.store.requeue(&seqs).await.unwrap(), seqs[..1], "only what is dead");
    assert_eq!(f.store.requeue(&seqs).await.unwrap(), NONE);
    assert_eq!(f.state(seqs[0]).await, Some((1, 0, 0)));
    let (_, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), seqs[..1]);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.delivery WHERE dead_at IS NOT NULL").await, 0);
}

async fn a_discarded_event_leaves_with_a_receipt_that_says_so(mut f: Fixture) {
    let seqs = f.hold("t", "k", 3, FailedOutcome::Dead).await;
    let receipt = Uuid::new_v4();
    let discarded = f.store.discard(&seqs, receipt).await.unwrap();
    assert_eq!((discarded.seqs, discarded.promoted), (seqs[..1].to_vec(), 2));
    assert_eq!(f.store.discard(&seqs, receipt).await.unwrap().seqs, NONE);
    assert_eq!(f.shown(seqs[0]).await, "discarded");
    let row = rows(&mut f.sql, "SELECT outcome, broker, seqs FROM outrider.receipt").await;
    assert_eq!(row.len(), 1);
    assert_eq!((row[0].get::<&str, _>(0), row[0].get::<Option<&str>, _>(1)), ("discarded", None));
    let (_, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), seqs[1..]);
}
