//! The program itself, killed while its publishes are out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outrider::outbox::share::share;
use outrider_servers::address;
use outrider_test_support::consume::{self, Consume, rabbitmq};
use outrider_test_support::daemon::Daemon;
use outrider_test_support::proxy::Mode;
use uuid::Uuid;

use crate::relay::{SOON, Tenant, program, proxied, until, until_within};

/// Longer than a replica counts as alive after its last heartbeat, so that nobody waits for the dead one.
const LEASE: Duration = Duration::from_secs(12);

/// How long whoever wants a lane may look the other way, and what a loaded machine adds.
const LOOK: Duration = Duration::from_secs(3);

const EVENTS: usize = 20;

fn daemon(replica: &str, rabbitmq: &str, exchange: &str, tenant: &Tenant) -> Daemon {
    let root = format!(
        "[replica]\nname = \"{replica}\"\n[delivery]\nlease = \"{}s\"
         [brokers.rabbit]\nkind = \"rabbitmq\"\npublish_deadline = \"6s\"\nparams = {{ url = \"{rabbitmq}\" }}
         [[routes]]\ntopic = \"*\"\nbroker = \"rabbit\"\nto = {{ exchange = \"{exchange}\", routing_key = \"{{topic}}\" }}\n",
        LEASE.as_secs()
    );
    program(&root, &[tenant])
}

// Contract: after a crash what was handed over and not settled is sent again, once, with the same id; nothing is lost. C15:
// any live replica takes over within the lease.
#[tokio::test]
async fn a_killed_relay_is_taken_over_and_what_it_had_in_flight_comes_at_most_twice() {
    let tenant = Tenant::new("killed").await;
    let (url, name) = (address::rabbitmq(), format!("killed-{}", Uuid::new_v4().simple()));
    rabbitmq::declare(&url, &name, &name, "#").await.unwrap();
    let (proxy, slow) = proxied(&url).await;

    // The one whose share the tenant is gets killed; it alone reaches the broker by the proxy.
    let replicas = ["killed-a", "killed-b"];
    let victim = share(&["killed"], &replicas)["killed"];
    let survivor = replicas.into_iter().find(|replica| *replica != victim).unwrap();
    let (doomed, other) = (daemon(victim, &slow, &name, &tenant), daemon(survivor, &url, &name, &tenant));
    let mut doomed_runs = doomed.start().await.unwrap();
    let other_runs = other.start().await.unwrap();
    until("the lane is where it belongs", async || tenant.owner().await.as_deref() == Some(victim)).await;
    tenant.insert("orders", None, b"before").await;
    tenant.drained().await;

    // From now on confirms are far behind what they confirm.
    proxy.set(Mode::Delay(Duration::from_secs(2)));
    tenant.insert_many("orders", EVENTS as i32, 0).await;
    let mut consumer = rabbitmq::Consumer::open(&url, &name).await.unwrap();
    let mut arrived = consume::read(&mut consumer, 2, Instant::now() + SOON).await.unwrap();
    assert_eq!(arrived.len(), 2, "one from before, and the first of those in flight");
    doomed_runs.kill().await.unwrap();
    let killed = Instant::now();
    let in_flight: Vec<i64> =
        sqlx::query_scalar("SELECT unnest(seqs) FROM outrider.claim").fetch_all(&tenant.pool).await.unwrap();
    assert!(!in_flight.is_empty(), "it was killed with events in flight");
    assert_eq!(tenant.receipts().await.len(), 1, "and before it knew of any confirm");

    let limit = (LEASE + LOOK).saturating_sub(killed.elapsed());
    until_within(limit, "the other has the lane", async || tenant.owner().await.as_deref() == Some(survivor))
        .await;
    tenant.drained().await;
    // Everything that is sent has been confirmed, so it is in the queue.
    let waiting = rabbitmq::length(&url, &name).await.unwrap();
    assert_eq!(waiting, 0, "this consumer was given all of it");
    while let Some(message) = consumer.next(Instant::now() + Duration::from_secs(1)).await.unwrap() {
        arrived.push(message);
    }
    let mut copies: BTreeMap<i64, Vec<Uuid>> = BTreeMap::new();
    for message in &arrived {
        copies.entry(message.seq().unwrap()).or_default().push(message.id().unwrap());
    }
    assert_eq!(copies.len(), EVENTS + 1, "nothing is lost");
    let twice: Vec<i64> = copies.iter().filter(|(_, ids)| ids.len() > 1).map(|(seq, _)| *seq).collect();
    assert!(!twice.is_empty(), "what was in flight had reached the broker");
    assert!(twice.iter().all(|seq| in_flight.contains(seq)), "only what was in flight came again");
    assert!(copies.values().all(|ids| ids.len() <= 2 && ids.iter().all(|id| *id == ids[0])));
    other_runs.end().await.unwrap();
    rabbitmq::delete(&url, &name, &name).await.unwrap();
}
