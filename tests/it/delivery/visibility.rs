//! Transactions that commit late or side by side: the order of `seq` is not the order in which events become visible.

use std::collections::BTreeSet;
use std::time::Duration;

use outrider_memory::Behaviour;
use tokio::task::JoinSet;

use super::STOP;
use crate::relay::{MemoryBroker, Relay, Tenant, insert, until};

// C11. Contract: an event whose transaction committed is delivered, also when later ones left long before.
#[tokio::test]
async fn an_event_that_commits_behind_later_ones_is_sent() {
    let tenant = Tenant::new("late-commit").await;
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root("batch_events = 10"), &[&tenant]);
    let mut first = tenant.pool.begin().await.unwrap();
    let late = insert(&mut first, "orders", None, b"late").await;
    // Several claims pass the open transaction, so that whatever is kept of the last one is far beyond it.
    let mut sent = Vec::new();
    for _ in 0..4 {
        tenant.insert_many("orders", 20, 0).await;
        tenant.drained().await;
        sent = broker.seqs();
    }
    assert_eq!(sent.len(), 80);
    assert!(sent.iter().all(|seq| *seq > late));
    first.commit().await.unwrap();
    until("the late one is sent", async || broker.seqs().last() == Some(&late)).await;
    tenant.drained().await;
    assert_eq!(broker.seqs().len(), 81);
    relay.stop(STOP).await;
}

// C11, many times over: writers that hold their transactions open for as long as they like.
#[tokio::test]
async fn nothing_is_passed_by_among_writers_of_every_pace() {
    const WRITERS: u64 = 16;
    let tenant = Tenant::new("paces").await;
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root("batch_events = 20"), &[&tenant]);
    let pool = tenant.database.pool(WRITERS as u32).await.unwrap();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let pool = pool.clone();
        writers.spawn(async move {
            let mut seqs = Vec::new();
            for turn in 0..5 {
                let mut open = pool.begin().await.unwrap();
                seqs.push(insert(&mut open, "orders", None, b"").await);
                // How long this writer thinks, from not at all to most of a second.
                let thinks = Duration::from_millis((writer * 37 + turn * 101) % 8 * (writer * 7));
                tokio::time::sleep(thinks).await;
                seqs.push(insert(&mut open, "orders", None, b"").await);
                open.commit().await.unwrap();
            }
            seqs
        });
    }
    let inserted: BTreeSet<i64> = writers.join_all().await.into_iter().flatten().collect();
    until("all are sent", async || broker.seqs().len() >= inserted.len()).await;
    tenant.drained().await;
    let sent = broker.seqs();
    assert_eq!(sent.len(), inserted.len(), "each once");
    assert_eq!(sent.into_iter().collect::<BTreeSet<_>>(), inserted);
    relay.stop(STOP).await;
}

// C23. Contract: events of overlapping transactions of one key are all delivered, in the order in which they became
// visible.
#[tokio::test]
async fn overlapping_transactions_of_a_key_are_delivered_as_they_became_visible() {
    let tenant = Tenant::new("overlap").await;
    let broker = MemoryBroker::new("hub", "", "");
    let event = |name: &'static str| (Some("k"), name.as_bytes());
    let order = || -> Vec<String> {
        let messages = broker.store.messages();
        messages.iter().map(|message| String::from_utf8(message.payload.to_vec()).unwrap()).collect()
    };

    // Both are visible when the relay first looks: in the order of `seq`, whoever committed first.
    let (mut one, mut two) = (tenant.pool.begin().await.unwrap(), tenant.pool.begin().await.unwrap());
    for (transaction, name) in [(&mut one, "both 1"), (&mut two, "both 2")] {
        let (key, payload) = event(name);
        insert(transaction, "orders", key, payload).await;
    }
    two.commit().await.unwrap();
    one.commit().await.unwrap();
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    tenant.drained().await;
    assert_eq!(order(), ["both 1", "both 2"]);
    broker.store.empty();

    // The relay runs between the commits.
    let (mut one, mut two) = (tenant.pool.begin().await.unwrap(), tenant.pool.begin().await.unwrap());
    for (transaction, name) in [(&mut one, "lower"), (&mut two, "higher")] {
        let (key, payload) = event(name);
        insert(transaction, "orders", key, payload).await;
    }
    two.commit().await.unwrap();
    until("the first to commit is sent", async || order() == ["higher"]).await;
    tenant.drained().await;
    one.commit().await.unwrap();
    until("the other is sent too", async || order() == ["higher", "lower"]).await;
    tenant.drained().await;
    broker.store.empty();

    // The lower one becomes visible while the higher one is in flight: it waits for its end.
    let stalled = broker.store.tell(|message| message.payload == "in flight", Behaviour::Stall);
    let (mut one, mut two) = (tenant.pool.begin().await.unwrap(), tenant.pool.begin().await.unwrap());
    let (key, payload) = event("meanwhile");
    let meanwhile = insert(&mut one, "orders", key, payload).await;
    let (key, payload) = event("in flight");
    insert(&mut two, "orders", key, payload).await;
    two.commit().await.unwrap();
    until("the higher one is in flight", async || broker.store.in_flight() == 1).await;
    one.commit().await.unwrap();
    until("the lower one is claimed", async || tenant.event(meanwhile).await.0 == "leased").await;
    assert!(order().is_empty());
    broker.store.take_back(stalled);
    tenant.drained().await;
    assert_eq!(order(), ["in flight", "meanwhile"]);
    relay.stop(STOP).await;
}
