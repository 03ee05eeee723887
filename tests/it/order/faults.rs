//! Order and completeness under everything that can happen to a publish, with replicas that come and go.

use std::collections::BTreeMap;
use std::time::Duration;

use outrider_broker::{Cause, ErrorClass, Message, Outcome};
use outrider_memory::{Behaviour, Store};
use tokio::task::JoinSet;

use super::{STOP, STUBBORN, refused};
use crate::relay::{MemoryBroker, Relay, Tenant, until};

const KEYS: u32 = 4;
const TOPICS: [&str; 2] = ["orders", "billing"];
/// Per tenant, topic and key.
const EVENTS: u32 = 15;

/// Every so many messages, at random.
fn one_in(count: u32) -> impl Fn(&Message) -> bool + Send + Sync + 'static {
    move |_| rand::random_range(0..count) == 0
}

/// From now on every outcome there is.
fn misbehave(broker: &Store) {
    let silence = || Outcome::Unknown(Cause::event(ErrorClass::Timeout, "no word came back"));
    let trouble = || Cause::destination(ErrorClass::Unavailable, "no leader");
    let outage = || Cause::broker(ErrorClass::Unavailable, "no room");
    broker.tell(one_in(10), Behaviour::Answer(refused(false)));
    broker.tell(one_in(10), Behaviour::Lose(silence()));
    broker.tell(one_in(15), Behaviour::Answer(silence()));
    // Few of these: each makes a topic or the whole broker wait.
    broker.tell_times(3, one_in(40), Behaviour::Answer(Outcome::Retry(trouble())));
    broker.tell_times(2, one_in(60), Behaviour::Answer(Outcome::Retry(outage())));
    broker.tell_times(2, one_in(60), Behaviour::Answer(Outcome::NotSent(outage())));
}

/// One writer per topic and key: each insert begins after the one before has committed.
fn write(tenant: &Tenant, writers: &mut JoinSet<()>) {
    for (topic, key) in TOPICS.iter().flat_map(|topic| (0..KEYS).map(move |key| (*topic, key))) {
        let pool = tenant.pool.clone();
        writers.spawn(async move {
            let key = format!("k{key}");
            for _ in 0..EVENTS {
                let mut connection = pool.acquire().await.unwrap();
                crate::relay::insert(&mut connection, topic, Some(&key), b"").await;
                drop(connection);
                // The pace of the business.
                tokio::time::sleep(Duration::from_millis(rand::random_range(0..100))).await;
            }
        });
    }
}

/// `seq`s of the first copies, by destination and key, in the order in which they came.
fn first_copies(messages: &[Message]) -> BTreeMap<(String, String), Vec<i64>> {
    let mut copies: BTreeMap<_, Vec<i64>> = BTreeMap::new();
    for message in messages {
        let place = (message.destination["name"].clone(), message.key.as_deref().unwrap().to_owned());
        let seqs = copies.entry(place).or_default();
        if !seqs.contains(&message.seq) {
            seqs.push(message.seq);
        }
    }
    copies
}

/// Two relays on two tenants; midway the first one ends as `end` says, and a third one comes.
async fn first_copies_are_in_order(name: &str, end: impl AsyncFnOnce(Relay)) {
    let tenants = [Tenant::new(&format!("{name}-1")).await, Tenant::new(&format!("{name}-2")).await];
    let both = [&tenants[0], &tenants[1]];
    let broker = MemoryBroker::new("hub", "publish_deadline = \"1s\"", "");
    misbehave(&broker.store);
    let root = format!(
        "{}[delivery]\n{STUBBORN}\nbatch_events = 20\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\nto = {{ name = \"{{tenant}}.{{topic}}\" }}\n",
        broker.section
    );
    let first = Relay::named(&format!("{name}-first"), &root, &both);
    let second = Relay::named(&format!("{name}-second"), &root, &both);
    let mut writers = JoinSet::new();
    write(&tenants[0], &mut writers);
    write(&tenants[1], &mut writers);
    let total = (2 * KEYS * EVENTS) as usize * TOPICS.len();
    let some = total / 3;
    until("some are out", async || broker.store.messages().len() > some).await;
    end(first).await;
    let third = Relay::named(&format!("{name}-third"), &root, &both);
    writers.join_all().await;
    tenants[0].drained().await;
    tenants[1].drained().await;

    let messages = broker.store.messages();
    let copies = first_copies(&messages);
    assert_eq!(copies.len(), 2 * TOPICS.len() * KEYS as usize);
    for ((place, key), seqs) in &copies {
        assert!(seqs.is_sorted(), "{place} {key} came as {seqs:?}");
        assert_eq!(seqs.len(), EVENTS as usize, "{place} {key} is complete");
    }
    assert!(messages.len() > total, "no copy came twice: the faults did not happen");
    for tenant in both {
        let mut sent = tenant.receipts().await;
        sent.dedup();
        assert_eq!(sent.len(), total / 2, "every event has its receipt");
    }
    second.stop(STOP).await;
    third.stop(STOP).await;
}

// Contract: the first copy of each event reaches the broker in the order of `seq`, across replicas, retries and restarts,
// if the writer serialises the key.
#[tokio::test]
async fn first_copies_are_in_order_through_faults_and_a_relay_that_drains() {
    first_copies_are_in_order("drains", async |relay| _ = relay.stop(STOP).await).await;
}

// The same for one that ends at once, with whatever it has in flight.
#[tokio::test]
async fn first_copies_are_in_order_through_faults_and_a_relay_that_ends_at_once() {
    first_copies_are_in_order("ends", async |relay| drop(relay)).await;
}
