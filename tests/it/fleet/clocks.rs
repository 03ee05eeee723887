//! Two programs whose wall clocks are wrong, one ahead and one behind.

use std::time::Duration;

use outrider_servers::{Install, left_out};
use outrider_test_support::daemon::Daemon;
use outrider_test_support::proxy::Mode;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::pair::{LEASE, LOOK, Pair};
use crate::relay::{SOON, until};

const EVENTS: i32 = 12;
/// How much later an event is due, and how long publishes stay out: half of their deadline.
const LATER: Duration = Duration::from_secs(3);

// C09. Contract, clocks: the database's clock decides leases and due times.
#[tokio::test]
async fn wall_clocks_that_are_five_minutes_off_change_nothing() {
    let Some(library) = Install::locate().faketime() else {
        left_out::tell("libfaketime is not installed");
        return;
    };
    let pair = Pair::new("skewed").await;
    for (daemon, skew) in [(&pair.first, "+5m"), (&pair.second, "-5m")] {
        let variables = [
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME", skew),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_DISABLE_SHM", "1"),
            ("OUTRIDER_LOG__FORMAT", "json"),
        ];
        daemon.tell(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    }
    let [ahead, behind] = &pair.names;
    let (first, second) = (pair.first.start().await.unwrap(), pair.second.start().await.unwrap());
    pair.owned_by(ahead, SOON).await;
    assert!(minutes_off(&pair.first) >= 4, "its clock is ahead");
    assert!(minutes_off(&pair.second) <= -4, "its clock is behind");

    pair.tenant.insert("orders", None, b"before").await;
    pair.tenant.drained().await;

    // Publishes that take a good part of the lease: the other one must not think that it is over.
    pair.proxy.set(Mode::BlackHole);
    later(&pair, 1).await;
    pair.tenant.insert_many("orders", EVENTS, 3).await;
    let epoch = epoch(&pair).await;
    until("all are claimed", async || pair.in_flight().await.len() >= EVENTS as usize).await;
    tokio::time::sleep(LATER).await;
    let left: f64 =
        pair.one("SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM outrider.lane").await;
    assert!(0.0 < left && left <= LEASE.as_secs_f64(), "a lease of {left} s");
    pair.proxy.set(Mode::Pass);
    pair.tenant.drained().await;
    assert_eq!(self::epoch(&pair).await, epoch, "the lane stayed where it was");

    // The one behind takes over, and does as well.
    assert!(first.end().await.unwrap().success());
    pair.owned_by(behind, LEASE + LOOK).await;
    later(&pair, 2).await;
    pair.tenant.insert_many("orders", EVENTS, 3).await;
    pair.tenant.drained().await;

    let early: i64 = pair
        .one(
            "SELECT count(*) FROM outrider.receipt r, unnest(r.seqs) AS u(seq) JOIN outrider.outbox o USING (seq)
              WHERE r.settled_at < o.available_at",
        )
        .await;
    assert_eq!(early, 0, "nothing went before its time");
    let off: f64 =
        pair.one("SELECT max(abs(extract(epoch FROM clock_timestamp() - settled_at)))::float8 FROM outrider.receipt").await;
    assert!(off < 120.0, "stamped by the database: {off} s off");
    let mut consumer = pair.consumer().await;
    let mut seqs: Vec<i64> =
        pair.rest(&mut consumer).await.iter().map(|message| message.seq().unwrap()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=2 * i64::from(EVENTS) + 3).collect::<Vec<i64>>(), "each exactly once");
    assert!(second.end().await.unwrap().success());
    pair.clear().await;
}

/// An event that is due soon, by the database's clock.
async fn later(pair: &Pair, number: i32) {
    sqlx::query(
        "INSERT INTO outrider.outbox (topic, type, payload, available_at)
         VALUES ('later', 'test', convert_to($1::text, 'UTF8'), clock_timestamp() + $2)",
    )
    .bind(number)
    .bind(LATER)
    .execute(&pair.tenant.pool)
    .await
    .unwrap();
}

async fn epoch(pair: &Pair) -> i64 {
    pair.one("SELECT epoch FROM outrider.lane").await
}

/// How far ahead the clock is that stamped a daemon's first log line, in minutes.
fn minutes_off(daemon: &Daemon) -> i64 {
    let log = std::fs::read_to_string(daemon.log()).unwrap();
    let line: serde_json::Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let stamp = OffsetDateTime::parse(line["timestamp"].as_str().unwrap(), &Rfc3339).unwrap();
    (stamp - OffsetDateTime::now_utc()).whole_minutes()
}
