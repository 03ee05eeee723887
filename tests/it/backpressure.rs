//! Permits bound what is in flight, whatever waits. Contract: in flight never exceeds the bound.

use std::time::Duration;

use outrider_memory::Behaviour;

use crate::relay::{MemoryBroker, Relay, Tenant, until};

// C16: a mailbox is no bound; permits are.
#[tokio::test]
async fn a_stalled_broker_has_exactly_its_bound_of_events_in_flight() {
    let (one, two) = (Tenant::new("one").await, Tenant::new("two").await);
    one.insert_many("orders", 500, 0).await;
    two.insert_many("orders", 500, 0).await;
    let broker = MemoryBroker::new("hub", "max_in_flight = { events = 70, bytes = \"64MiB\" }", "");
    broker.store.tell(|_| true, Behaviour::Stall);
    let root = format!(
        "{}\n[delivery]\nbatch_events = 30\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n",
        broker.section
    );
    let relay = Relay::start(&root, &[&one, &two]);
    until("the bound is reached", async || broker.store.in_flight() == 70).await;
    // What is in flight is claimed, and nothing else is.
    let mut claimed = 0;
    for tenant in [&one, &two] {
        let count: i64 =
            sqlx::query_scalar("SELECT coalesce(sum(cardinality(seqs)), 0)::bigint FROM outrider.claim")
                .fetch_one(&tenant.pool)
                .await
                .unwrap();
        claimed += count;
    }
    assert_eq!(claimed, 70);
    broker.store.take_all_back();
    one.drained().await;
    two.drained().await;
    assert_eq!(broker.store.most_in_flight(), 70, "reached, and never exceeded");
    assert_eq!(broker.store.messages().len(), 1_000);
    relay.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_stalled_broker_has_exactly_its_bound_of_bytes_in_flight() {
    let tenant = Tenant::new("acme").await;
    for _ in 0..12 {
        tenant.insert("orders", None, &[7; 1_000]).await;
    }
    // Larger than the whole bound: travels alone instead of never.
    let large = tenant.insert("orders", None, &[7; 9_000]).await;
    let broker = MemoryBroker::new("hub", "max_in_flight = { events = 1000, bytes = \"5KiB\" }", "");
    broker.store.tell(|_| true, Behaviour::Stall);
    let root = format!("{}\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n", broker.section);
    let relay = Relay::start(&root, &[&tenant]);
    until("the bound is reached", async || broker.store.in_flight() == 5).await;
    broker.store.take_all_back();
    tenant.drained().await;
    assert_eq!(broker.store.most_in_flight(), 5, "5 KiB hold five payloads of 1,000 bytes");
    assert!(broker.seqs().contains(&large));
    relay.stop(Duration::from_secs(5)).await;
}
