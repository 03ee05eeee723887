//! The program itself, killed while its publishes are out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outrider_test_support::proxy::Mode;
use uuid::Uuid;

use super::pair::{LEASE, LOOK, Pair};
use crate::relay::SOON;

const EVENTS: usize = 20;

// Contract: after a crash what was handed over and not settled is sent again, once, with the same id; nothing is lost. C15:
// any live replica takes over within the lease.
#[tokio::test]
async fn a_killed_relay_is_taken_over_and_what_it_had_in_flight_comes_at_most_twice() {
    let pair = Pair::new("killed").await;
    let [victim, survivor] = &pair.names;
    let mut doomed = pair.first.start().await.unwrap();
    let other = pair.second.start().await.unwrap();
    pair.owned_by(victim, SOON).await;
    pair.tenant.insert("orders", None, b"before").await;
    pair.tenant.drained().await;

    // From now on confirms are far behind what they confirm.
    pair.proxy.set(Mode::Delay(Duration::from_secs(2)));
    pair.tenant.insert_many("orders", EVENTS as i32, 0).await;
    let mut consumer = pair.consumer().await;
    let mut arrived = pair.read(&mut consumer, 2).await;
    assert_eq!(arrived.len(), 2, "one from before, and the first of those in flight");
    doomed.kill().await.unwrap();
    let killed = Instant::now();
    let in_flight = pair.in_flight().await;
    assert!(!in_flight.is_empty(), "it was killed with events in flight");
    assert_eq!(pair.tenant.receipts().await.len(), 1, "and before it knew of any confirm");

    pair.owned_by(survivor, (LEASE + LOOK).saturating_sub(killed.elapsed())).await;
    pair.tenant.drained().await;
    arrived.extend(pair.rest(&mut consumer).await);
    let mut copies: BTreeMap<i64, Vec<Uuid>> = BTreeMap::new();
    for message in &arrived {
        copies.entry(message.seq().unwrap()).or_default().push(message.id().unwrap());
    }
    assert_eq!(copies.len(), EVENTS + 1, "nothing is lost");
    let twice: Vec<i64> = copies.iter().filter(|(_, ids)| ids.len() > 1).map(|(seq, _)| *seq).collect();
    assert!(!twice.is_empty(), "what was in flight had reached the broker");
    assert!(twice.iter().all(|seq| in_flight.contains(seq)), "only what was in flight came again");
    assert!(copies.values().all(|ids| ids.len() <= 2 && ids.iter().all(|id| *id == ids[0])));
    other.end().await.unwrap();
    pair.clear().await;
}
