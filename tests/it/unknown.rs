//! Outcomes without a word from the broker, and those that never reached it: who is to blame, and who is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use outrider_broker::{Cause, ErrorClass, Outcome, Receipt};
use outrider_memory::Behaviour;

use crate::relay::{MemoryBroker, Relay, Tenant, until};
use crate::script::{Script, Scripted, Tried};

/// Retries that follow one another at once, and few unknown outcomes until an event is a suspect.
const DELIVERY: &str = "max_unknown = 2\nmax_refusals = 1\nbackoff = { base = \"10ms\", max = \"40ms\" }";

fn root(section: &str) -> String {
    format!("{section}\n[delivery]\n{DELIVERY}\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n")
}

fn lost() -> Outcome {
    Outcome::Unknown(Cause::event(ErrorClass::Timeout, "no answer before the deadline"))
}

/// The fewest attempts of an unsent event, and the most refusals; and whether one is dead.
async fn spent(tenant: &Tenant, topic: &str) -> (i32, i32, bool) {
    sqlx::query_as(
        "SELECT coalesce(min(attempts), 0), coalesce(max(refusals), 0), coalesce(bool_or(hold = 3), false)
           FROM outrider.delivery WHERE topic = $1",
    )
    .bind(topic)
    .fetch_one(&tenant.pool)
    .await
    .unwrap()
}

// Contract: unknown: retried, counted apart; an outage never counts.
#[tokio::test]
async fn while_nothing_is_confirmed_unknown_outcomes_spend_attempts_and_make_nothing_dead() {
    let tenant = Tenant::new("acme").await;
    tenant.insert_many("lost", 5, 0).await;
    let broker = MemoryBroker::new("hub", "", "");
    broker.store.tell(|message| message.destination["name"] == "lost", Behaviour::Answer(lost()));
    let relay = Relay::start(&root(&broker.section), &[&tenant]);
    until("each is far over max_unknown", async || {
        // Another topic of the same broker gets through all the while, and says nothing about this one.
        let fine = tenant.insert("fine", None, b"x").await;
        until("it is sent", async || broker.seqs().contains(&fine)).await;
        spent(&tenant, "lost").await.0 >= 10
    })
    .await;
    let (_, refusals, dead) = spent(&tenant, "lost").await;
    assert_eq!((refusals, dead), (0, false));
    broker.store.take_all_back();
    tenant.drained().await;
    relay.stop(Duration::from_secs(5)).await;
}

// Contract: an event that ends unknown `max_unknown` times while others of its route are confirmed is tried alone, then
// dead with that reason.
#[tokio::test]
async fn an_event_that_alone_stays_unknown_is_tried_alone_and_then_dead_and_its_neighbours_go_through() {
    let tenant = Tenant::new("acme").await;
    let poison = Arc::new(AtomicI64::new(0));
    let target = poison.clone();
    let script = Scripted::new(Script {
        answer: Box::new(move |message| {
            let poisoned = message.seq == target.load(Ordering::SeqCst);
            if poisoned { lost() } else { Outcome::Confirmed(Receipt::default()) }
        }),
        flight: Duration::from_millis(40),
        ..Script::default()
    });
    tenant.insert_many("orders", 30, 0).await;
    let poison_seq = tenant.insert("orders", Some("k"), b"x").await;
    poison.store(poison_seq, Ordering::SeqCst);
    let blocked = tenant.insert("orders", Some("k"), b"x").await;
    // Enough for two claims in flight all the while, so that nothing is alone by chance.
    tenant.insert_many("orders", 1_000, 0).await;
    let tenant = tenant.with("delivery = { batch_events = 20 }\n");
    let hub = root("[brokers.hub]\nkind = \"script\"");
    let relay = Relay::with_brokers(&script.registry(), "unknown", &hub, &[&tenant]);
    let mut neighbours = BTreeSet::new();
    until("it is dead", async || {
        neighbours.insert(tenant.insert("orders", None, b"x").await);
        tenant.event(poison_seq).await.0 == "dead"
    })
    .await;
    until("all others are sent", async || tenant.unsent().await == 2).await;
    assert_eq!(tenant.event(blocked).await.0, "blocked");
    let (_, attempts, _, error) = tenant.event(poison_seq).await;
    let error = error.unwrap();
    assert!(error.contains(&format!("no confirm in {attempts} attempts")), "{attempts}: {error}");
    assert!(error.contains("alone") && error.contains("no answer before the deadline"), "{error}");

    let tried = script.tried();
    let with_poison: Vec<&Tried> = tried.iter().filter(|tried| tried.seqs.contains(&poison_seq)).collect();
    assert_eq!(with_poison.len(), usize::try_from(attempts).unwrap());
    assert!(with_poison.len() >= 4, "twice among others, then twice alone: {with_poison:?}");
    assert!(with_poison[0].seqs.len() > 1, "first it goes with its neighbours");
    for alone in &with_poison[2..] {
        assert_eq!(alone.seqs, [poison_seq]);
        let beside = tried.iter().filter(|other| other.overlaps(alone)).count();
        assert_eq!(beside, 1, "nothing else was in flight meanwhile");
    }
    for neighbour in neighbours {
        let times = tried.iter().filter(|tried| tried.seqs.contains(&neighbour)).count();
        assert_eq!(times, 1, "a neighbour's confirm counts, whatever happens beside it");
    }
    relay.stop(Duration::from_secs(5)).await;
}

// Contract: an event that dies with its publisher `max_unknown` times is tried alone, then dead. C60: a panic inside the
// publish task is no success.
#[tokio::test]
async fn an_event_that_panics_the_plugin_each_time_is_isolated_and_its_neighbours_go_through() {
    let tenant = Tenant::new("acme").await;
    tenant.insert_many("orders", 10, 0).await;
    let poison = tenant.insert("orders", None, b"poison").await;
    tenant.insert_many("orders", 10, 0).await;
    let broker = MemoryBroker::new("hub", "", "");
    broker.store.tell(|message| &*message.payload == b"poison", Behaviour::Panic);
    let relay = Relay::start(&root(&broker.section), &[&tenant]);
    until("it is dead", async || {
        tenant.insert("orders", None, b"x").await;
        tenant.event(poison).await.0 == "dead"
    })
    .await;
    until("all others are sent", async || tenant.unsent().await == 1).await;
    let error = tenant.event(poison).await.3.unwrap();
    assert!(error.contains("the plugin panicked") && error.contains("alone"), "{error}");
    let states = tenant.states().await;
    assert_eq!(states.iter().map(|(state, _)| state.as_str()).collect::<Vec<_>>(), ["dead", "sent"]);
    assert!(!broker.seqs().contains(&poison));
    relay.stop(Duration::from_secs(5)).await;
}

// Contract: not sent: released, attempt given back. Broker trouble: its attempt is given back.
#[tokio::test]
async fn what_was_not_sent_or_met_broker_trouble_gets_its_attempt_back() {
    let tenant = Tenant::new("acme").await;
    let broker = MemoryBroker::new("hub", "", "");
    let cause = Cause::destination(ErrorClass::Unavailable, "no leader");
    let mut tries = Vec::new();
    for (topic, outcome) in
        [("retry", Outcome::Retry(cause.clone())), ("not_sent", Outcome::NotSent(cause.clone()))]
    {
        let counted = Arc::new(AtomicUsize::new(0));
        tries.push(counted.clone());
        broker.store.tell(
            move |message| {
                let concerns = message.destination["name"] == topic;
                counted.fetch_add(usize::from(concerns), Ordering::SeqCst);
                concerns
            },
            Behaviour::Answer(outcome),
        );
        tenant.insert_many(topic, 10, 2).await;
    }
    let relay = Relay::start(&root(&broker.section), &[&tenant]);
    until("each topic was tried again and again", async || {
        // First one of each key, then a single one each time.
        tries.iter().all(|tries| tries.load(Ordering::SeqCst) >= 5)
    })
    .await;
    for topic in ["retry", "not_sent"] {
        let most: (i32, i32, bool) = sqlx::query_as(
            "SELECT max(attempts), max(refusals), bool_or(hold = 3) FROM outrider.delivery WHERE topic = $1",
        )
        .bind(topic)
        .fetch_one(&tenant.pool)
        .await
        .unwrap();
        assert_eq!(most, (0, 0, false), "{topic}");
    }
    broker.store.take_all_back();
    tenant.drained().await;
    assert_eq!(broker.seqs().len(), 20, "each was delivered once");
    relay.stop(Duration::from_secs(5)).await;
}
