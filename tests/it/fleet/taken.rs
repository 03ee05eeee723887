//! C17: a relay whose lane was taken from it while its publishes were out. What it says late is true only if it is a
//! confirm.

use std::time::Duration;

use outrider_broker::{Cause, ErrorClass, Outcome, Refusal};
use outrider_memory::Behaviour;
use uuid::Uuid;

use super::STOP;
use crate::recorder::metric;
use crate::relay::{MemoryBroker, Relay, Tenant, until};

// C17. Contract: every write after a claim is fenced; `sent` is a fact and may be written by whoever has the confirm. A
// stale owner changes nothing else and is counted as fenced.
#[tokio::test]
async fn a_stale_owner_changes_nothing_but_what_was_confirmed() {
    let tenant = Tenant::new("fenced").await;
    let broker = MemoryBroker::new("hub", "", "");
    let stalled = broker.store.tell(|_| true, Behaviour::Stall);
    let refused = tenant.insert("orders", Some("k"), b"refused").await;
    let confirmed = tenant.insert("orders", Some("other"), b"confirmed").await;
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    until("both are in flight", async || broker.store.in_flight() == 2).await;

    let (mut operator, owner) = (tenant.store(), Uuid::new_v4());
    let epoch = operator.take(0, owner, "operator", Duration::from_secs(120), true).await.unwrap();
    assert_eq!(epoch, Some(2));
    let reclaimed = operator.reclaim(0, owner, &[], true).await.unwrap();
    assert_eq!(reclaimed.claims.len(), 1);
    assert_eq!(reclaimed.claims[0].seqs, [refused, confirmed]);

    let refusal = Refusal { cause: Cause::event(ErrorClass::Invalid, "comes too late"), permanent: true };
    let refusing = broker
        .store
        .tell(|message| message.payload == "refused", Behaviour::Answer(Outcome::Refused(refusal)));
    broker.store.take_back(stalled);
    let fenced = || metric("outrider_events_fenced_total", &[("tenant", "fenced")]);
    until("the late refusal is counted as fenced", async || fenced() == 1.0).await;
    until("the late confirm is written", async || tenant.event(confirmed).await.0 == "sent").await;
    // One attempt, counted when the lane was taken; the refusal left no trace.
    assert_eq!(tenant.event(refused).await, ("pending".to_owned(), 1, 0, None));
    assert_eq!(tenant.receipts().await, [confirmed]);
    // It has noticed by now, or will when it renews: in either case the lane stays where it is.
    let lost = "the stale owner sees that it has lost the lane";
    until(lost, async || metric("outrider_lanes_owned", &[("tenant", "fenced")]) == 0.0).await;
    let lane = &operator.lanes().await.unwrap()[0];
    assert_eq!((lane.owner, lane.owner_name.as_deref()), (Some(owner), Some("operator")));
    assert_eq!(fenced(), 1.0, "each outcome is counted once");
    let shown = |name| metric(name, &[("tenant", "fenced")]);
    assert_eq!(shown("outrider_lanes_lost_total"), 1.0);
    let doubt = shown("outrider_events_in_doubt_total");
    // One is counted if the loss was noticed before the refusal came in, and both before either.
    assert!(doubt <= 2.0, "{doubt}");

    broker.store.take_back(refusing);
    operator.give(0, owner, Duration::ZERO).await.unwrap();
    tenant.drained().await;
    let messages = broker.store.messages();
    assert_eq!(broker.seqs(), [confirmed, refused]);
    assert!(messages[1].redelivery, "it was handed over before");
    relay.stop(STOP).await;
}
