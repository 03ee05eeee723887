//! The program itself, stopped (SIGSTOP) while its publishes are out, for longer than its lease.

use outrider_test_support::proxy::Mode;

use super::pair::{LEASE, LOOK, Pair};
use crate::relay::{SOON, until};

const EVENTS: i32 = 12;
const KEYS: i32 = 4;

// C17. Contract, fencing: what a stalled owner says after its lease changes nothing, and is counted.
#[tokio::test]
async fn a_relay_that_was_stopped_past_its_lease_changes_nothing_when_it_goes_on() {
    let pair = Pair::new("stopped").await;
    let [stalled, survivor] = &pair.names;
    let first = pair.first.start().await.unwrap();
    let second = pair.second.start().await.unwrap();
    pair.owned_by(stalled, SOON).await;
    pair.tenant.insert("orders", None, b"before").await;
    pair.tenant.drained().await;

    pair.proxy.set(Mode::BlackHole);
    pair.tenant.insert_many("orders", EVENTS, KEYS).await;
    until("all are claimed", async || pair.in_flight().await.len() == EVENTS as usize).await;
    first.pause().unwrap();
    pair.owned_by(survivor, LEASE + LOOK).await;
    pair.tenant.drained().await;
    let (states, receipts) = (pair.tenant.states().await, pair.tenant.receipts().await);
    assert_eq!(states, [("sent".to_owned(), i64::from(EVENTS) + 1)]);

    // It finds its publishes unanswered and its lease over.
    first.resume().unwrap();
    until("its late failures are counted as fenced", async || {
        fenced(&pair.first.ask("/metrics").await.unwrap_or_default()) > 0
    })
    .await;
    assert_eq!((pair.tenant.states().await, pair.tenant.receipts().await), (states, receipts));

    let mut consumer = pair.consumer().await;
    let seqs: Vec<i64> =
        pair.rest(&mut consumer).await.iter().map(|message| message.seq().unwrap()).collect();
    for key in 0..i64::from(KEYS) {
        let of_key: Vec<i64> =
            seqs.iter().copied().filter(|seq| *seq > 1 && seq % i64::from(KEYS) == key).collect();
        assert_eq!(of_key.len(), (EVENTS / KEYS) as usize, "once each: {seqs:?}");
        assert!(of_key.is_sorted(), "in order: {seqs:?}");
    }
    for relay in [first, second] {
        assert!(relay.end().await.unwrap().success());
    }
    pair.clear().await;
}

/// Events counted as fenced.
fn fenced(metrics: &str) -> u64 {
    let line =
        metrics.lines().find(|line| line.starts_with("outrider_events_fenced_total{tenant=\"stopped\"}"));
    line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0)
}
