//! C22: a dead event holds back its key, or is passed over, as its topic's policy says; and both can be seen and mended.

use outrider::store::Stats;
use outrider_memory::{Behaviour, RuleId};
use uuid::Uuid;

use super::{STOP, arrived, refused, says};
use crate::relay::{MemoryBroker, Relay, Tenant, until};

/// A, B and C of one key, and D of another.
struct Scene {
    tenant: Tenant,
    broker: MemoryBroker,
    relay: Relay,
    seqs: [i64; 4],
    refusing: RuleId,
}

impl Scene {
    /// A is refused for good.
    async fn with_a_dead(name: &str, on_dead: &str) -> Self {
        let tenant = Tenant::new(name).await;
        let broker = MemoryBroker::new("hub", "", "");
        let refusing = broker.store.tell(says("A"), Behaviour::Answer(refused(true)));
        let mut seqs = [0; 4];
        for (seq, (key, payload)) in seqs.iter_mut().zip([("k", "A"), ("k", "B"), ("k", "C"), ("other", "D")])
        {
            *seq = tenant.insert("orders", Some(key), payload.as_bytes()).await;
        }
        let relay = Relay::start(&broker.root(&format!("on_dead = \"{on_dead}\"")), &[&tenant]);
        until("A is dead", async || tenant.event(seqs[0]).await.0 == "dead").await;
        until("the other key goes on", async || arrived(&broker, "other") == ["D"]).await;
        Scene { tenant, broker, relay, seqs, refusing }
    }

    async fn stats(&self) -> Stats {
        self.tenant.store().stats().await.unwrap()
    }
}

// C22. Contract: a dead event holds back its key under `on_dead = "block"`, which is counted and shown.
#[tokio::test]
async fn a_dead_event_blocks_its_key_until_it_is_requeued() {
    let scene = Scene::with_a_dead("block-requeue", "block").await;
    let Scene { tenant, broker, seqs, .. } = &scene;
    let (state, attempts, refusals, error) = tenant.event(seqs[0]).await;
    assert_eq!((state.as_str(), attempts, refusals), ("dead", 1, 1));
    assert_eq!(error.as_deref(), Some("not like this"));
    for blocked in &seqs[1..3] {
        assert_eq!(tenant.event(*blocked).await, ("blocked".to_owned(), 0, 0, None));
    }
    let stats = scene.stats().await;
    assert_eq!((stats.dead, stats.parked, stats.blocked_keys), (1, 2, 1));
    // A new one of the key waits too.
    let late = tenant.insert("orders", Some("k"), b"E").await;
    until("it is parked", async || tenant.event(late).await.0 == "blocked").await;
    until("and counted", async || scene.stats().await.parked == 3).await;
    assert!(arrived(broker, "k").is_empty());

    broker.store.take_back(scene.refusing);
    assert_eq!(tenant.store().requeue(&seqs[..1]).await.unwrap(), seqs[..1]);
    tenant.drained().await;
    assert_eq!(arrived(broker, "k"), ["A", "B", "C", "E"]);
    scene.relay.stop(STOP).await;
}

// C22
#[tokio::test]
async fn a_dead_event_blocks_its_key_until_it_is_discarded() {
    let scene = Scene::with_a_dead("block-discard", "block").await;
    let Scene { tenant, broker, seqs, .. } = &scene;
    let discarded = tenant.store().discard(&seqs[..1], Uuid::new_v4()).await.unwrap();
    assert_eq!(discarded.seqs, seqs[..1]);
    tenant.drained().await;
    assert_eq!(arrived(broker, "k"), ["B", "C"]);
    assert_eq!(tenant.event(seqs[0]).await.0, "discarded", "and never sent");
    assert_eq!(tenant.receipts().await, seqs[1..]);
    scene.relay.stop(STOP).await;
}

// C22. Contract: under `on_dead = "skip"` a dead event does not hold back its key.
#[tokio::test]
async fn a_dead_event_is_skipped_where_the_tenant_says_so() {
    let scene = Scene::with_a_dead("skip", "skip").await;
    let Scene { tenant, broker, seqs, .. } = &scene;
    until("the key goes on", async || arrived(broker, "k") == ["B", "C"]).await;
    until("only the dead one is left", async || tenant.unsent().await == 1).await;
    assert_eq!(tenant.event(seqs[0]).await.0, "dead");
    let stats = scene.stats().await;
    assert_eq!((stats.dead, stats.parked, stats.blocked_keys), (1, 0, 0));
    // A new one of the key is not held up either.
    tenant.insert("orders", Some("k"), b"E").await;
    until("a new one passes", async || arrived(broker, "k") == ["B", "C", "E"]).await;

    // Requeued and failing, it holds back the key like any other; mended, it comes late, which is out of order.
    broker.store.take_back(scene.refusing);
    let failing = broker.store.tell(says("A"), Behaviour::Answer(refused(false)));
    assert_eq!(tenant.store().requeue(&seqs[..1]).await.unwrap(), seqs[..1]);
    until("it fails again", async || tenant.event(seqs[0]).await.0 == "backing off").await;
    let held = tenant.insert("orders", Some("k"), b"F").await;
    until("a later one waits", async || tenant.event(held).await.0 == "blocked").await;
    broker.store.take_back(failing);
    tenant.drained().await;
    assert_eq!(arrived(broker, "k"), ["B", "C", "E", "A", "F"]);
    scene.relay.stop(STOP).await;
}

// C22: a route overrides the tenant's policy for its topics.
#[tokio::test]
async fn one_topic_skips_while_the_others_block() {
    let tenant = Tenant::new("skip-by-route").await;
    let broker = MemoryBroker::new("hub", "", "");
    broker.store.tell(says("bad"), Behaviour::Answer(refused(true)));
    for topic in ["orders", "audit", "billing"] {
        tenant.insert(topic, Some(topic), b"bad").await;
        tenant.insert(topic, Some(topic), b"good").await;
    }
    let root = format!(
        "{}[[routes]]\ntopic = \"audit\"\nbroker = \"hub\"\non_dead = \"skip\"\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n",
        broker.section
    );
    let relay = Relay::start(&root, &[&tenant]);
    until("all heads are dead", async || tenant.states().await.contains(&("dead".to_owned(), 3))).await;
    // Behind the dead head as well as together with it.
    tenant.insert("audit", Some("audit"), b"better").await;
    until("the topic that skips goes on", async || arrived(&broker, "audit") == ["good", "better"]).await;
    let states = [("blocked".to_owned(), 2), ("dead".to_owned(), 3), ("sent".to_owned(), 2)];
    until("the others wait", async || tenant.states().await == states).await;
    assert_eq!(broker.seqs().len(), 2);
    relay.stop(STOP).await;
}
