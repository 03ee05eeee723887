//! What SIGTERM, a second signal and SIGKILL do to a daemon that has events in flight. C100.
//!
//! Contract: on SIGTERM nothing more is claimed, what is in flight is finished and settled, the rest goes back at once and
//! without an attempt, and the exit code says whether that was all.

mod crash;
mod flush;
mod hang;
mod stage;

use std::time::Duration;

use outrider_test_support::proxy::Mode;
use stage::{EVENTS, OUT, Stage};

use crate::relay::{SOON, until, until_within};

/// Enough for what waits for nobody.
const AT_ONCE: Duration = Duration::from_secs(5);

/// What an end may take beyond the grace period.
const OVERDUE: Duration = Duration::from_secs(3);

// C100: leased rows, some of them in flight on a slow broker.
// Contract: what was not handed over is released, its attempt given back.
#[tokio::test]
async fn a_drain_finishes_what_is_out_and_gives_the_rest_back_at_once() {
    // A lease so long that nothing here can wait for its end.
    let stage = Stage::set("30s", "20s", "60s").await;
    let mut daemon = stage.daemon.start().await.unwrap();
    stage.claim_all().await;
    daemon.terminate().unwrap();
    until_within(AT_ONCE, "what was not handed over is released", async || stage.claimed().await == OUT)
        .await;
    assert_eq!(stage.spent().await, 0, "no attempt is spent");
    let late = stage.tenant.insert("orders", None, b"after the signal").await;
    stage.broker.set(Mode::Pass);
    let status = daemon.ended_within(SOON).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", stage.daemon.quote());

    let sent = stage.sent().await;
    assert_eq!(i64::try_from(sent.len()).unwrap(), OUT, "what was in flight is settled");
    assert_eq!(stage.published(sent.len()).await, sent, "and nothing else was published");
    assert_eq!((stage.claimed().await, stage.spent().await), (0, 0));
    assert!(!sent.contains(&late), "nothing is claimed after the signal");
    let (lane_is_free, replicas): (bool, i64) = sqlx::query_as(
        "SELECT owner IS NULL AND until <= clock_timestamp(), (SELECT count(*) FROM outrider.replica) FROM outrider.lane",
    )
    .fetch_one(&stage.tenant.pool)
    .await
    .unwrap();
    assert!(lane_is_free, "the lane is given up");
    assert_eq!(replicas, 0, "and the replica is off the list");

    let next = stage.daemon.start().await.unwrap();
    stage.tenant.drained().await;
    assert_eq!(next.end().await.unwrap().code(), Some(0));
    assert_eq!(stage.published(EVENTS + 1).await, stage.sent().await);
    stage.clear().await;
}

// C100: a second SIGTERM.
#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let stage = Stage::set("30s", "20s", "60s").await;
    let mut daemon = stage.daemon.start().await.unwrap();
    stage.claim_all().await;
    daemon.terminate().unwrap();
    until("it drains", async || stage.claimed().await == OUT).await;
    daemon.interrupt().unwrap();
    let status = daemon.ended_within(AT_ONCE).await.unwrap();
    assert_eq!(status.code(), Some(3), "{}", stage.daemon.quote());
    assert_eq!(stage.sent().await, [0; 0], "nothing is marked that was not confirmed");
    assert_eq!(stage.claimed().await, OUT, "leases give back the rest");
    stage.clear().await;
}
