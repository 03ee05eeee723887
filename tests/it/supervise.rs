//! A panic in one child restarts that child, with backoff, and leaves its siblings alone.
//!
//! The program has no hook for this. A panic inside a plugin comes from a plugin of the test; one inside outrider's own
//! tasks comes from the metrics recorder ([`crate::recorder`]), which is called from every one of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use outrider::actors::board::TenantState;
use outrider::telemetry::metrics;
use outrider_memory::Behaviour;

use crate::recorder::{metric, trap};
use crate::relay::{MemoryBroker, Relay, Tenant, until, until_within};
use crate::script::{Script, Scripted};

/// Leases that end soon, for the lane of a claimer that panicked is free only then.
const LEASE: &str = "[delivery]\nlease = \"3s\"\n";

/// For the section of a broker under that lease.
const DEADLINE: &str = "publish_deadline = \"1s\"";

fn root(broker: &MemoryBroker) -> String {
    format!("{}\n{LEASE}[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n", broker.section)
}

/// How often the tenant's lane was taken: as often as a claimer of it began to work.
async fn takes(tenant: &Tenant) -> i64 {
    sqlx::query_scalar("SELECT epoch FROM outrider.lane").fetch_one(&tenant.pool).await.unwrap()
}

/// A new event of a tenant that nothing happened to is sent, soon.
async fn flows(tenant: &Tenant, topic: &str) {
    tenant.insert(topic, None, b"x").await;
    until_within(Duration::from_secs(10), "a sibling goes on", async || tenant.unsent().await == 0).await;
}

// C102
#[tokio::test]
async fn a_claimer_that_panics_over_a_claim_is_restarted_and_its_events_are_sent_after_the_lease() {
    let (hurt, calm) = (Tenant::new("hurt-claim").await, Tenant::new("calm-claim").await);
    let broker = MemoryBroker::new("hub", DEADLINE, "");
    let met = trap(metrics::EVENTS_CLAIMED, "hurt-claim", 1);
    hurt.insert_many("orders", 50, 5).await;
    let relay = Relay::start(&root(&broker), &[&hurt, &calm]);
    until("it panicked", async || !met.lock().unwrap().is_empty()).await;
    assert_eq!(hurt.unsent().await, 50, "nothing was handed over");
    until("it is back and its events are sent", async || {
        flows(&calm, "orders").await;
        assert_eq!(relay.board.tenants()["calm-claim"], TenantState::Working);
        assert_eq!(relay.board.health(), Ok(()));
        hurt.unsent().await == 0
    })
    .await;
    assert_eq!((takes(&hurt).await, takes(&calm).await), (2, 1), "only one of them began anew");
    assert_eq!(broker.store.connects(), 1, "and no publisher did");
    relay.stop(Duration::from_secs(5)).await;
}

// C102
#[tokio::test]
async fn a_claimer_that_panics_at_each_start_rests_longer_each_time() {
    let (hurt, calm) = (Tenant::new("hurt-start").await, Tenant::new("calm-start").await);
    let broker = MemoryBroker::new("hub", DEADLINE, "");
    let met = trap(metrics::TENANT_UP, "hurt-start", 4);
    hurt.insert_many("orders", 10, 0).await;
    let relay = Relay::start(&root(&broker), &[&hurt, &calm]);
    let shown = |metric_name, name| metric(metric_name, &[("role", "claimer"), ("name", name)]);
    let resting = || shown(metrics::CHILD_RESTING, "hurt-start");
    until("it is shown while it rests", async || resting() == 1.0).await;
    hurt.drained().await;
    assert_eq!((resting(), shown(metrics::CHILD_RESTARTS, "hurt-start")), (0.0, 4.0));
    assert_eq!(shown(metrics::CHILD_RESTARTS, "calm-start"), 0.0);
    flows(&calm, "orders").await;
    let met = met.lock().unwrap().clone();
    let rests: Vec<Duration> = met.windows(2).map(|two| two[1] - two[0]).collect();
    // 200 ms, doubled each time, of which jitter takes away at most half.
    for (rest, least) in rests.iter().zip([100, 200, 400, 800]) {
        assert!(*rest >= Duration::from_millis(least), "{rests:?}");
    }
    assert_eq!(rests.len(), 4);
    assert_eq!((takes(&hurt).await, takes(&calm).await), (1, 1));
    relay.stop(Duration::from_secs(5)).await;
}

// C102: a periodic task.
#[tokio::test]
async fn a_janitor_that_panics_is_restarted_and_no_tenant_notices() {
    let tenant = Tenant::new("measured").await;
    let broker = MemoryBroker::new("hub", DEADLINE, "");
    let met = trap(metrics::TENANT_MEASURED, "measured", 2);
    let relay = Relay::start(&root(&broker), &[&tenant]);
    // Its own pace is a pass each 30 s: three this soon are three lives.
    until_within(Duration::from_secs(12), "it measures again", async || met.lock().unwrap().len() >= 3).await;
    flows(&tenant, "orders").await;
    assert_eq!((takes(&tenant).await, broker.store.connects()), (1, 1));
    relay.stop(Duration::from_secs(5)).await;
}

// C102: a publisher. A third party's plugin panics where outrider asks it a question.
#[tokio::test]
async fn a_publisher_whose_link_panics_is_restarted_and_the_other_kinds_keep_their_connections() {
    let tenant = Tenant::new("acme").await;
    let sick = Arc::new(AtomicBool::new(false));
    let asked = sick.clone();
    let script = Scripted::new(Script {
        alive: Box::new(move || {
            assert!(!asked.swap(false, Ordering::SeqCst), "the plugin does not want to be asked");
            true
        }),
        ..Script::default()
    });
    let calm = MemoryBroker::new("hub", DEADLINE, "");
    let root = format!(
        "[brokers.sick]\nkind = \"script\"\n{DEADLINE}\n[[routes]]\ntopic = \"sick\"\nbroker = \"sick\"\n{}",
        root(&calm)
    );
    let relay = Relay::with_brokers(&script.registry(), "link", &root, &[&tenant]);
    flows(&tenant, "sick").await;
    flows(&tenant, "orders").await;
    for life in 1..=3 {
        assert_eq!(script.connects(), life);
        sick.store(true, Ordering::SeqCst);
        until("the publisher has begun anew", async || script.connects() == life + 1).await;
        flows(&tenant, "orders").await;
        flows(&tenant, "sick").await;
    }
    assert_eq!((calm.store.connects(), takes(&tenant).await), (1, 1));
    relay.stop(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_plugin_that_panics_while_it_connects_is_broker_trouble_and_tried_again() {
    let tenant = Tenant::new("acme").await;
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let script = Scripted::new(Script {
        connect: Box::new(move || {
            assert!(count.fetch_add(1, Ordering::SeqCst) >= 2, "the plugin can't connect");
        }),
        ..Script::default()
    });
    tenant.insert_many("orders", 10, 0).await;
    let root = format!(
        "[brokers.hub]\nkind = \"script\"\n{DEADLINE}\n{LEASE}[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n"
    );
    let relay = Relay::with_brokers(&script.registry(), "connect", &root, &[&tenant]);
    tenant.drained().await;
    assert_eq!((tries.load(Ordering::SeqCst), script.connects()), (3, 1));
    assert_eq!(script.tried().iter().map(|tried| tried.seqs.len()).sum::<usize>(), 10);
    relay.stop(Duration::from_secs(5)).await;
}

// C102, C60: the plugin panics in one batch.
#[tokio::test]
async fn a_batch_that_panics_the_plugin_counts_as_unknown_and_the_link_lives_on() {
    let tenant = Tenant::new("acme").await;
    // The usual deadline: a panic that prints its backtrace can take longer than a short one.
    let broker = MemoryBroker::new("hub", "", "");
    broker.store.tell_times(1, |message| message.destination["name"] == "orders", Behaviour::Panic);
    // Long enough for the test to see what was written.
    let tenant = tenant.with("delivery = { backoff = { base = \"2s\", max = \"2s\" } }\n");
    let seq = tenant.insert("orders", None, b"x").await;
    let root = format!("{}\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n", broker.section);
    let relay = Relay::start(&root, &[&tenant]);
    until("it is settled as unknown", async || tenant.event(seq).await.0 == "backing off").await;
    let (_, attempts, refusals, error) = tenant.event(seq).await;
    assert_eq!((attempts, refusals, error.as_deref()), (1, 0, Some("the plugin panicked")));
    assert_eq!(broker.seqs(), [] as [i64; 0]);
    tenant.insert_many("others", 10, 0).await;
    tenant.drained().await;
    assert_eq!((broker.seqs().len(), broker.store.connects(), takes(&tenant).await), (11, 1, 1));
    relay.stop(Duration::from_secs(5)).await;
}

// C102: outrider's own code panics while it has a batch. The actor lives, and the permits come back.
#[tokio::test]
async fn a_panic_over_a_report_loses_neither_the_events_nor_their_permits() {
    let tenant =
        Tenant::new("acme").await.with("delivery = { backoff = { base = \"10ms\", max = \"10ms\" } }\n");
    let broker = MemoryBroker::new(
        "hub-report",
        "publish_deadline = \"1s\"\nmax_in_flight = { events = 2, bytes = \"1MiB\" }",
        "",
    );
    let met = trap(metrics::PUBLISH_SECONDS, "hub-report", 5);
    tenant.insert_many("orders", 30, 0).await;
    let root = format!("{}\n{LEASE}[[routes]]\ntopic = \"*\"\nbroker = \"hub-report\"\n", broker.section);
    let relay = Relay::start(&root, &[&tenant]);
    tenant.drained().await;
    assert!(met.lock().unwrap().len() > 5, "five panics, and more batches after them");
    assert_eq!((broker.store.most_in_flight(), broker.store.connects(), takes(&tenant).await), (2, 1, 1));
    let mut seqs = broker.seqs();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!(seqs.len(), 30);
    relay.stop(Duration::from_secs(5)).await;
}
