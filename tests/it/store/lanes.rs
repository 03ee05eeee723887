//! TAKE, RECLAIM, RENEW, GIVE: one owner per lane, and no batch of an old owner after a take-over.

use std::time::Duration;

use outrider::outbox::OnDead;
use outrider::store::{FailedOutcome, Store, StoreError};
use tokio::time::timeout;
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    a_lane_has_one_owner,
    a_take_waits_for_a_claim_that_still_runs,
    an_old_owner_claims_nothing,
    an_owner_whose_lease_is_over_claims_nothing_until_it_renews,
    a_reclaim_counts_one_attempt,
    a_reclaim_leaves_known_claims_alone,
    a_reclaim_by_somebody_else_does_nothing,
    what_comes_back_behind_a_held_event_comes_back_as_held,
    a_renewal_keeps_the_lane,
    a_renewal_under_a_new_owner_shuts_out_the_old_one,
    a_lane_given_up_is_free_at_once_when_nothing_flies,
    a_lane_given_up_in_flight_rests,
    a_lease_is_as_long_in_every_time_zone,
    no_lease_overflows,
);

async fn a_lane_has_one_owner(mut f: Fixture) {
    let mut other = f.store.sibling();
    let owner = Uuid::new_v4();
    assert_eq!(other.take(LANE, owner, "second", LEASE, false).await.unwrap(), None);
    assert_eq!(other.take(7, owner, "second", LEASE, false).await.unwrap(), None, "there is no such lane");

    let lanes = f.store.lanes().await.unwrap();
    assert_eq!(lanes.len(), 1);
    assert_eq!((lanes[0].owner, lanes[0].owner_name.as_deref()), (Some(f.owner), Some("first")));

    assert_eq!(other.take(LANE, owner, "second", LEASE, true).await.unwrap(), Some(2), "forced");
    assert_eq!(f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap(), None);

    f.run("UPDATE outrider.lane SET until = clock_timestamp()").await;
    assert_eq!(
        f.store.take(LANE, f.owner, "first", LEASE, false).await.unwrap(),
        Some(3),
        "its time was over"
    );
}

// C19. The trap: a claim that commits after the take-over. The take must wait, and the reclaim must see its row.
async fn a_take_waits_for_a_claim_that_still_runs(mut f: Fixture) {
    f.insert("t", None, 3).await;
    f.run("BEGIN").await;
    // What a claim does last, held open: the lane FOR SHARE and its claim row.
    f.run(&format!(
        "SELECT FROM outrider.lane WHERE lane = 0 AND owner = '{}' FOR SHARE;
         INSERT INTO outrider.claim (token, lane, broker, seqs) SELECT gen_random_uuid(), 0, 'b', array_agg(seq) FROM outrider.delivery",
        f.owner
    ))
    .await;

    let mut second = store(&f.database);
    let owner = Uuid::new_v4();
    let take = tokio::spawn(async move {
        let taken = take_stubbornly(&mut second, owner).await;
        (second, taken)
    });
    let mut watcher = f.database.connect().await.unwrap();
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
    timeout(Duration::from_secs(10), async { while !one::<bool>(&mut watcher, waits).await {} })
        .await
        .unwrap();
    assert!(!take.is_finished());
    f.run("COMMIT").await;

    let (mut second, epoch) = take.await.unwrap();
    assert_eq!(epoch, 2);
    let reclaim = second.reclaim(LANE, owner, &[], true).await.unwrap();
    assert_eq!(reclaim.claims.len(), 1, "the claim that it waited for");
    assert_eq!(reclaim.claims[0].seqs.len(), 3);
}

/// A take, repeated while it meets the lock.
async fn take_stubbornly(store: &mut Store, owner: Uuid) -> i64 {
    loop {
        match store.take(LANE, owner, "second", LEASE, true).await {
            Ok(epoch) => return epoch.unwrap(),
            Err(StoreError::Busy { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn an_old_owner_claims_nothing(mut f: Fixture) {
    f.insert("t", None, 3).await;
    let mut other = store(&f.database);
    other.take(LANE, Uuid::new_v4(), "second", LEASE, true).await.unwrap();
    let (_, claimed) = f.claim("t").await;
    assert!(claimed.seen && claimed.lane_lost() && claimed.rows.is_empty());
    assert_eq!(claimed.xid, None);
    f.run("UPDATE outrider.delivery SET hold = 1").await;
    let (_, claimed) = f.claim_due("t", &[], OnDead::Block).await;
    assert!(claimed.seen && claimed.lane_lost() && claimed.rows.is_empty());
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.claim").await, 0);
}

async fn an_owner_whose_lease_is_over_claims_nothing_until_it_renews(mut f: Fixture) {
    let seqs = f.insert("t", None, 3).await;
    f.run("UPDATE outrider.lane SET until = clock_timestamp()").await;
    assert!(f.claim("t").await.1.lane_lost());
    assert!(f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap().is_some(), "nobody took it");
    assert_eq!(claimed_seqs(&f.claim("t").await.1), seqs);
}

async fn a_reclaim_counts_one_attempt(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 2).await;
    let (token, _) = f.claim("t").await;
    let mut second = store(&f.database);
    let owner = Uuid::new_v4();
    second.take(LANE, owner, "second", LEASE, true).await.unwrap();
    let reclaim = second.reclaim(LANE, owner, &[], true).await.unwrap();
    assert_eq!(reclaim.changed, 2);
    assert_eq!((reclaim.claims[0].token, reclaim.claims[0].broker.as_str()), (token, "b"));
    assert_eq!(reclaim.claims[0].seqs, seqs);
    for seq in &seqs {
        assert_eq!(f.state(*seq).await, Some((0, 1, 0)));
    }
    // A second run, as after a lost reply, changes nothing.
    assert_eq!(second.reclaim(LANE, owner, &[], true).await.unwrap(), Default::default());
    assert_eq!(f.state(seqs[0]).await, Some((0, 1, 0)));
}

async fn a_reclaim_leaves_known_claims_alone(mut f: Fixture) {
    let seqs = f.insert("t", None, 2).await;
    let (known, _) = f.claim("t").await;
    let more = f.insert("t", None, 2).await;
    let (lost, claimed) = f.claim_with("t", &[known], OnDead::Block).await;
    assert_eq!(claimed_seqs(&claimed), more);
    let reclaim = f.store.reclaim(LANE, f.owner, &[known], false).await.unwrap();
    assert_eq!(reclaim.claims.iter().map(|c| c.token).collect::<Vec<_>>(), [lost]);
    assert_eq!(reclaim.changed, 0, "a lost reply of a claim costs no attempt");
    assert_eq!(f.state(more[0]).await, Some((0, 0, 0)));
    assert_eq!(f.shown(seqs[0]).await, "leased");
    assert_eq!(f.shown(more[0]).await, "pending");
}

async fn a_reclaim_by_somebody_else_does_nothing(mut f: Fixture) {
    f.insert("t", None, 2).await;
    f.claim("t").await;
    let reclaim = store(&f.database).reclaim(LANE, Uuid::new_v4(), &[], true).await.unwrap();
    assert_eq!(reclaim, Default::default());
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.claim").await, 1);
}

async fn what_comes_back_behind_a_held_event_comes_back_as_held(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 2).await;
    let free = f.insert("t", Some("other"), 1).await;
    let (token, _) = f.claim("t").await;
    // The first fails by itself while the others are still out; then the lane is lost.
    let first = [failed(seqs[0], FailedOutcome::Refused)];
    f.store.settle_failed(token, &first, false).await.unwrap();
    f.store.reclaim(LANE, f.owner, &[], true).await.unwrap();
    assert_eq!(f.state(seqs[1]).await, Some((1, 1, 0)), "held, so that no later one is promoted before it");
    assert_eq!(f.state(free[0]).await, Some((0, 1, 0)));
}

async fn a_renewal_keeps_the_lane(mut f: Fixture) {
    let left = f.store.renew(LANE, f.owner, &[f.owner], Duration::from_secs(100)).await.unwrap().unwrap();
    assert!(left > Duration::from_secs(99) && left <= Duration::from_secs(100), "{left:?}");
    assert_eq!(f.store.renew(LANE, Uuid::new_v4(), &[Uuid::new_v4()], LEASE).await.unwrap(), None);
    assert_eq!(f.store.lanes().await.unwrap()[0].owner, Some(f.owner));
}

async fn a_renewal_under_a_new_owner_shuts_out_the_old_one(mut f: Fixture) {
    let seqs = f.insert("t", None, 2).await;
    let (old, new) = (f.owner, Uuid::new_v4());
    assert!(f.store.renew(LANE, new, &[old, new], LEASE).await.unwrap().is_some());
    // A claim that was sent before and begins only now.
    assert!(f.claim("t").await.1.lane_lost());
    // The renewal's answer may be lost too: the next one names both.
    let newest = Uuid::new_v4();
    assert!(f.store.renew(LANE, newest, &[old, new, newest], LEASE).await.unwrap().is_some());
    f.owner = newest;
    assert_eq!(claimed_seqs(&f.claim("t").await.1), seqs);
}

async fn a_lane_given_up_is_free_at_once_when_nothing_flies(mut f: Fixture) {
    assert_eq!(f.store.give(LANE, Uuid::new_v4(), LEASE).await.unwrap(), None, "not theirs");
    assert_eq!(f.store.give(LANE, f.owner, LEASE).await.unwrap(), Some(true));
    let mut other = store(&f.database);
    assert_eq!(other.take(LANE, Uuid::new_v4(), "second", LEASE, false).await.unwrap(), Some(2));
}

async fn a_lane_given_up_in_flight_rests(mut f: Fixture) {
    f.insert("t", None, 1).await;
    f.claim("t").await;
    assert_eq!(f.store.give(LANE, f.owner, Duration::from_secs(8)).await.unwrap(), Some(false));
    let lane = f.store.lanes().await.unwrap().remove(0);
    assert_eq!(lane.owner, None);
    assert!(lane.left > Duration::from_secs(6) && lane.left <= Duration::from_secs(8), "{:?}", lane.left);
    let mut other = store(&f.database);
    assert_eq!(other.take(LANE, Uuid::new_v4(), "second", LEASE, false).await.unwrap(), None);
}

// C10
async fn a_lease_is_as_long_in_every_time_zone(mut f: Fixture) {
    for zone in ["America/Santiago", "Asia/Kolkata", "Pacific/Kiritimati", "UTC"] {
        let name = f.database.name().to_owned();
        f.run(&format!("ALTER DATABASE {name} SET timezone = '{zone}'")).await;
        let mut other = store(&f.database);
        other.take(LANE, Uuid::new_v4(), zone, LEASE, true).await.unwrap();
        let left = other.lanes().await.unwrap()[0].left;
        assert!(left > LEASE - Duration::from_secs(2) && left <= LEASE, "{zone}: {left:?}");
        // A session without outrider's settings sees the same moment.
        let left: i32 =
            f.one("SELECT extract(epoch FROM until - clock_timestamp())::int FROM outrider.lane").await;
        assert!((28..=30).contains(&left), "{zone}: {left}");
    }
}

async fn no_lease_overflows(mut f: Fixture) {
    assert!(f.store.renew(LANE, f.owner, &[f.owner], Duration::MAX).await.unwrap().is_some());
    f.run("UPDATE outrider.lane SET until = 'infinity'").await;
    // PostgreSQL before 17 cannot say how long that is; it must not be an answer that never comes.
    let _ = f.store.lanes().await;
    assert!(f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap().is_some());
}
