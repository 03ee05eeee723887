//! Ends while a broker or the database does not answer. The process ends in time, and nothing is written that is not so.

use std::time::Duration;

use outrider_servers::address;
use outrider_test_support::proxy::Mode;

use super::stage::{EVENTS, OUT, Stage};
use super::{AT_ONCE, OVERDUE};
use crate::relay::{Tenant, program, proxied, until};

// C100: the broker never confirms, and what is out can't end within the grace period.
#[tokio::test]
async fn a_broker_that_never_confirms_ends_in_an_incomplete_drain() {
    // What is out has four fifths of the grace period, and would need nearly all of it.
    let stage = Stage::set("8s", "7900ms", "15s").await;
    let mut daemon = stage.daemon.start().await.unwrap();
    stage.claim_all().await;
    daemon.terminate().unwrap();
    let status = daemon.ended_within(Duration::from_secs(8) + OVERDUE).await.unwrap();
    assert_eq!(status.code(), Some(3), "{}", stage.daemon.quote());
    assert_eq!(stage.sent().await, [0; 0], "nothing is marked that was not confirmed");
    assert_eq!(stage.claimed().await, OUT, "what was not handed over was released all the same");
    assert_eq!(stage.spent().await, 0);
    let given = "SELECT (owner IS NULL AND until <= clock_timestamp() + interval '7900 ms')::int::bigint FROM outrider.lane";
    assert_eq!(stage.one(given).await, 1, "the lane rests for as long as a message may still be on its way");

    stage.broker.set(Mode::Pass);
    // Waiting for the end of that rest would show nothing more.
    sqlx::query("UPDATE outrider.lane SET until = clock_timestamp()")
        .execute(&stage.tenant.pool)
        .await
        .unwrap();
    let next = stage.daemon.start().await.unwrap();
    stage.tenant.drained().await;
    assert_eq!(next.end().await.unwrap().code(), Some(0));
    assert_eq!(stage.published(EVENTS).await, stage.sent().await, "the next relay sends the rest");
    stage.clear().await;
}

// C100: the broker never confirms, and the publish deadline passes within the grace period.
// Contract: a publish without an answer is unknown, and unknown is not sent.
#[tokio::test]
async fn an_unanswered_publish_is_written_back_before_the_end() {
    let stage = Stage::set("10s", "3s", "6s").await;
    let mut daemon = stage.daemon.start().await.unwrap();
    stage.claim_all().await;
    daemon.terminate().unwrap();
    let status = daemon.ended_within(Duration::from_secs(10) + OVERDUE).await.unwrap();
    assert_eq!(status.code(), Some(0), "{}", stage.daemon.quote());
    assert_eq!(stage.sent().await, [0; 0], "nothing is marked that was not confirmed");
    assert_eq!(stage.claimed().await, 0);
    assert!(stage.spent().await >= OUT, "what was out has an attempt behind it");
    stage.clear().await;
}

// C100: SIGTERM with the database gone.
#[tokio::test]
async fn a_database_that_does_not_answer_cannot_hold_the_end_up() {
    let stage = Stage::set("5s", "3s", "6s").await;
    let mut daemon = stage.daemon.start().await.unwrap();
    stage.claim_all().await;
    stage.database.set(Mode::BlackHole);
    daemon.terminate().unwrap();
    stage.broker.set(Mode::Pass);
    let status = daemon.ended_within(Duration::from_secs(5) + OVERDUE).await.unwrap();
    assert_eq!(status.code(), Some(3), "{}", stage.daemon.quote());
    // What the dead process said last is lost, as on a line that was cut.
    stage.database.cut();
    stage.database.set(Mode::Pass);
    assert_eq!(stage.sent().await, [0; 0], "nobody could write it down");

    let next = stage.daemon.start().await.unwrap();
    stage.tenant.drained().await;
    assert_eq!(next.end().await.unwrap().code(), Some(0));
    assert_eq!(stage.published(EVENTS).await, stage.sent().await, "nothing is lost by it");
    stage.clear().await;
}

// C100: a client that blocks in a call, here librdkafka's first look at its cluster. It would take a minute.
#[tokio::test]
async fn a_broker_that_never_answered_cannot_hold_the_end_up() {
    let tenant = Tenant::new("acme").await;
    let (broker, kafka) = proxied(&address::kafka()).await;
    broker.set(Mode::BlackHole);
    let root = format!(
        "[brokers.kafka]\nkind = \"kafka\"\nconnect_timeout = \"60s\"\n\
         params = {{ \"bootstrap.servers\" = \"{kafka}\" }}\n[[routes]]\ntopic = \"*\"\nbroker = \"kafka\"\n"
    );
    let program = program(&root, &[&tenant]);
    let mut daemon = program.start().await.unwrap();
    tenant.insert("orders", None, b"x").await;
    until("it has the lane", async || {
        let taken = "SELECT count(*) FROM outrider.lane WHERE owner IS NOT NULL";
        sqlx::query_scalar::<_, i64>(taken).fetch_one(&tenant.pool).await.unwrap() == 1
    })
    .await;
    daemon.terminate().unwrap();
    let status = daemon.ended_within(AT_ONCE).await;
    assert_eq!(status.unwrap().code(), Some(0), "{}", program.quote());
}
