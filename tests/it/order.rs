//! Order within a topic and key: the first copy of each event reaches the broker in the order of `seq`, whatever happens
//! to the ones before it.

mod dead;
mod faults;

use std::time::Duration;

use outrider::outbox::OnDead;
use outrider::store::{ClaimRequest, TopicRequest};
use outrider_broker::{Cause, ErrorClass, Message, Outcome, Refusal};
use outrider_memory::Behaviour;
use uuid::Uuid;

use crate::relay::{MemoryBroker, Relay, Tenant, until};

const STOP: Duration = Duration::from_secs(10);

/// Tried again soon, as often as it takes.
const STUBBORN: &str =
    "max_refusals = 100000\nmax_unknown = 100000\nbackoff = { base = \"50ms\", max = \"100ms\" }";

/// The event is to blame, for now or for good.
fn refused(permanent: bool) -> Outcome {
    Outcome::Refused(Refusal { cause: Cause::event(ErrorClass::Invalid, "not like this"), permanent })
}

fn says(text: &'static str) -> impl Fn(&Message) -> bool + Send + Sync + 'static {
    move |message| message.payload == text
}

/// What the broker has of one key, by payload, in the order in which it came.
fn arrived(broker: &MemoryBroker, key: &str) -> Vec<String> {
    let messages = broker.store.messages();
    let of_key = messages.iter().filter(|message| message.key.as_deref() == Some(key));
    of_key.map(|message| String::from_utf8(message.payload.to_vec()).unwrap()).collect()
}

/// C21: A is refused again and again, B waits behind it, and another key goes on; with one relay, or with two of which
/// the one that met the refusals stops.
async fn a_refused_event_holds_back_its_key(name: &str, replicas: usize) {
    let tenant = Tenant::new(name).await;
    let broker = MemoryBroker::new("hub", "", "");
    let refusing = broker.store.tell(says("A"), Behaviour::Answer(refused(false)));
    let names = [format!("{name}-0"), format!("{name}-1")];
    let root = broker.root(STUBBORN);
    let mut relays: Vec<(&String, Relay)> =
        names[..replicas].iter().map(|name| (name, Relay::named(name, &root, &[&tenant]))).collect();
    let first = tenant.insert("orders", Some("k"), b"A").await;
    let second = tenant.insert("orders", Some("k"), b"B").await;
    tenant.insert("orders", Some("other"), b"1").await;
    until("A was refused more than once", async || tenant.event(first).await.2 > 1).await;
    if replicas > 1 {
        let owner = tenant.owner().await.expect("somebody owns the lane");
        let at = relays.iter().position(|(name, _)| **name == owner).expect("it is one of ours");
        relays.swap_remove(at).1.stop(STOP).await;
        until("the other relay has it", async || tenant.owner().await.is_some_and(|now| now != owner)).await;
    }
    let refusals = tenant.event(first).await.2;
    tenant.insert("orders", Some("other"), b"2").await;
    until("the other key goes on", async || arrived(&broker, "other") == ["1", "2"]).await;
    until("A is refused anew", async || tenant.event(first).await.2 > refusals).await;
    assert_eq!(tenant.event(second).await, ("blocked".to_owned(), 0, 0, None));
    assert!(arrived(&broker, "k").is_empty());

    broker.store.take_back(refusing);
    tenant.drained().await;
    assert_eq!(arrived(&broker, "k"), ["A", "B"]);
    for (_, relay) in relays {
        relay.stop(STOP).await;
    }
}

// C21
#[tokio::test]
async fn a_retry_is_not_overtaken() {
    a_refused_event_holds_back_its_key("retry", 1).await;
}

// C21. Contract: order holds across replicas.
#[tokio::test]
async fn a_retry_is_not_overtaken_by_another_relay() {
    a_refused_event_holds_back_its_key("retry-of-two", 2).await;
}

// C21: A is leased to a replica that is gone.
#[tokio::test]
async fn an_event_that_a_lost_replica_had_goes_before_the_later_ones_of_its_key() {
    let tenant = Tenant::new("lost-replica").await;
    let first = tenant.insert("orders", Some("k"), b"A").await;
    let (mut gone, owner) = (tenant.store(), Uuid::new_v4());
    let lease = Duration::from_secs(3);
    gone.take(0, owner, "gone", lease, false).await.unwrap().expect("the lane is free");
    let topics = [TopicRequest { topic: "orders", after: -1, limit: 10, on_dead: OnDead::Block }];
    let request =
        ClaimRequest { lane: 0, owner, broker: "hub", token: Uuid::new_v4(), live: &[], topics: &topics };
    assert_eq!(gone.claim(&request).await.unwrap().rows.len(), 1);
    gone.disconnect().await;
    tenant.insert("orders", Some("k"), b"B").await;

    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    assert_eq!(tenant.event(first).await.0, "leased");
    tenant.drained().await;
    let messages = broker.store.messages();
    assert_eq!(arrived(&broker, "k"), ["A", "B"]);
    assert!(messages[0].redelivery, "it may have reached the broker before");
    assert!(!messages[1].redelivery);
    relay.stop(STOP).await;
}

// C21: A's row is locked by somebody else when its refusal has to be written.
#[tokio::test]
async fn a_lock_on_an_events_row_lets_no_later_one_pass() {
    let tenant = Tenant::new("row-lock").await;
    let broker = MemoryBroker::new("hub", "", "");
    let refusing = broker.store.tell(says("A"), Behaviour::Answer(refused(false)));
    let first = tenant.insert("orders", Some("k"), b"A").await;
    let mut other = tenant.pool.begin().await.unwrap();
    let lock = "SELECT FROM outrider.delivery WHERE seq = $1 FOR UPDATE";
    sqlx::query(lock).bind(first).execute(&mut *other).await.unwrap();
    let relay = Relay::start(&broker.root(STUBBORN), &[&tenant]);
    until("its refusal waits for the lock", async || {
        let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
                        AND application_name LIKE 'outrider/%' AND wait_event_type = 'Lock')";
        sqlx::query_scalar(waiting).fetch_one(&tenant.pool).await.unwrap()
    })
    .await;
    tenant.insert("orders", Some("k"), b"B").await;
    // The absence of B over a stated time is the claim; an undisturbed relay sends it within milliseconds.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(arrived(&broker, "k").is_empty());
    other.rollback().await.unwrap();
    until("its refusal is written", async || tenant.event(first).await.2 > 0).await;
    assert!(arrived(&broker, "k").is_empty());
    broker.store.take_back(refusing);
    tenant.drained().await;
    assert_eq!(arrived(&broker, "k"), ["A", "B"]);
    relay.stop(STOP).await;
}

// Contract: while an event is unsent, no later one of its topic and key that is visible beside it is published; other keys
// and topics, and events without a key, are never held up.
#[tokio::test]
async fn while_an_event_is_in_flight_no_later_one_of_its_key_is_published() {
    let tenant = Tenant::new("in-flight").await;
    let broker = MemoryBroker::new("hub", "", "");
    let stalled = broker.store.tell(says("head"), Behaviour::Stall);
    tenant.insert("orders", Some("k"), b"head").await;
    tenant.insert("orders", Some("k"), b"beside it").await;
    let relay = Relay::start(&broker.root("claims_in_flight = 8"), &[&tenant]);
    until("the head is in flight", async || broker.store.in_flight() > 0).await;
    // By claims of their own, while the head is out.
    let later = tenant.insert("orders", Some("k"), b"after it").await;
    tenant.insert("orders", Some("other"), b"1").await;
    tenant.insert("orders", None, b"without a key").await;
    tenant.insert("billing", Some("k"), b"of another topic").await;
    until("all others are out", async || broker.store.messages().len() == 3).await;
    until("the later one is claimed", async || tenant.event(later).await.0 == "leased").await;
    assert_eq!(arrived(&broker, "k"), ["of another topic"]);
    broker.store.take_back(stalled);
    tenant.drained().await;
    assert_eq!(arrived(&broker, "k"), ["of another topic", "head", "beside it", "after it"]);
    relay.stop(STOP).await;
}

// C25: new events, whose rows lie in any order on disk.
#[tokio::test]
async fn a_key_leaves_in_order_whatever_the_order_of_its_rows_on_disk() {
    let tenant = Tenant::new("shuffled").await;
    tenant.insert_many("orders", 300, 1).await;
    let shuffle = "DO $$ DECLARE r record; BEGIN
        FOR r IN SELECT seq FROM outrider.delivery ORDER BY random() LOOP
          UPDATE outrider.delivery SET last_error = 'moved' WHERE seq = r.seq;
        END LOOP; END $$";
    sqlx::query(shuffle).execute(&tenant.pool).await.unwrap();
    let on_disk = order_by(&tenant, "ctid").await;
    assert!(!on_disk.is_sorted(), "the rows are shuffled");
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root("batch_events = 100\nclaims_in_flight = 8"), &[&tenant]);
    tenant.drained().await;
    assert_eq!(broker.seqs(), (1..=300).collect::<Vec<i64>>());
    relay.stop(STOP).await;
}

// C25: retries, whose times come in any order.
#[tokio::test]
async fn a_key_leaves_in_order_whatever_the_order_of_its_retries() {
    let tenant = Tenant::new("retries").await;
    tenant.insert_many("orders", 60, 1).await;
    let fail = "UPDATE outrider.delivery
                   SET hold = 1, attempts = 1, due_at = clock_timestamp() - random() * interval '1 minute'";
    sqlx::query(fail).execute(&tenant.pool).await.unwrap();
    assert!(!order_by(&tenant, "due_at").await.is_sorted(), "the retries are shuffled");
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    tenant.drained().await;
    assert_eq!(broker.seqs(), (1..=60).collect::<Vec<i64>>());
    relay.stop(STOP).await;
}

async fn order_by(tenant: &Tenant, column: &str) -> Vec<i64> {
    let sql = format!("SELECT seq FROM outrider.delivery ORDER BY {column}");
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_all(&tenant.pool).await.unwrap()
}
