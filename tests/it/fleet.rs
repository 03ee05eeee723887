//! Several relays on the same tenants: who owns which lane, and what happens when one joins, stops, dies or has a lane
//! taken from it.

mod clocks;
mod killed;
mod pair;
mod retries;
mod stopped;
mod taken;

use std::collections::BTreeMap;
use std::time::Duration;

use outrider_broker::Message;

use crate::relay::{MemoryBroker, Relay, Tenant, until, until_within};

const STOP: Duration = Duration::from_secs(10);

async fn tenants(name: &str, count: usize) -> Vec<Tenant> {
    let mut tenants = Vec::new();
    for number in 0..count {
        tenants.push(Tenant::new(&format!("{name}-{number}")).await);
    }
    tenants
}

/// How many lanes each replica holds, by its name; lanes of nobody are under "".
async fn shares(tenants: &[Tenant]) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for tenant in tenants {
        *shares.entry(tenant.owner().await.unwrap_or_default()).or_default() += 1;
    }
    shares
}

/// Every lane is held, by these and nobody else, each as many.
fn even(replicas: [&str; 2], each: usize) -> BTreeMap<String, usize> {
    replicas.map(|replica| (replica.to_owned(), each)).into()
}

/// A relay whose messages name it: `REPLICA/TENANT` is their destination.
fn start(broker: &MemoryBroker, replica: &str, tenants: &[Tenant]) -> Relay {
    let root = format!(
        "{}[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\nto = {{ name = \"{replica}/{{tenant}}\" }}\n",
        broker.section
    );
    Relay::named(replica, &root, &tenants.iter().collect::<Vec<_>>())
}

/// Which replica sent a message, and of which tenant.
fn sender(message: &Message) -> (&str, &str) {
    message.destination["name"].split_once('/').unwrap()
}

// Without faults every event of several tenants is published exactly once by two relays, both take part, and never do
// both hold a lane.
#[tokio::test]
async fn two_relays_share_tenants_and_publish_every_event_once() {
    let (tenants, replicas) = (tenants("shared", 6).await, ["shared-a", "shared-b"]);
    let broker = MemoryBroker::new("hub", "", "");
    let relays = replicas.map(|replica| start(&broker, replica, &tenants));
    // Before the relays know of each other, while lanes change hands, and after that.
    let mut rounds = 0;
    until("the lanes are shared out evenly", async || {
        for tenant in &tenants {
            tenant.insert_many("orders", 10, 3).await;
        }
        rounds += 1;
        shares(&tenants).await == even(replicas, 3)
    })
    .await;
    let mut before = BTreeMap::new();
    for tenant in &tenants {
        tenant.drained().await;
        before.insert(tenant.name.as_str(), tenant.owner().await.unwrap());
    }
    let already = broker.store.messages().len();
    for tenant in &tenants {
        tenant.insert_many("orders", 40, 3).await;
    }
    for tenant in &tenants {
        tenant.drained().await;
    }

    let messages = broker.store.messages();
    let mut copies: BTreeMap<(&str, i64), u32> = BTreeMap::new();
    for message in &messages {
        *copies.entry((sender(message).1, message.seq)).or_default() += 1;
    }
    assert_eq!(copies.len(), 6 * (10 * rounds + 40), "nothing is lost");
    assert!(copies.values().all(|count| *count == 1), "and nothing is sent twice");
    // Both took part: each with the tenants whose lanes it holds.
    let late = messages[already..].iter().map(sender);
    let senders: BTreeMap<&str, &str> = late.map(|(replica, tenant)| (tenant, replica)).collect();
    assert_eq!(senders, before.iter().map(|(tenant, owner)| (*tenant, owner.as_str())).collect());
    // Never both: a tenant's messages change their sender only where its lane was taken.
    for tenant in &tenants {
        let of_tenant = messages.iter().map(sender).filter(|(_, name)| *name == tenant.name);
        let mut senders: Vec<&str> = of_tenant.map(|(replica, _)| replica).collect();
        senders.dedup();
        let taken: i64 =
            sqlx::query_scalar("SELECT epoch FROM outrider.lane").fetch_one(&tenant.pool).await.unwrap();
        assert!(senders.len() as i64 <= taken, "{}: {senders:?} in {taken} ownerships", tenant.name);
    }
    for relay in relays {
        relay.stop(STOP).await;
    }
}

// Hand-over is at once when nothing of the lane is in flight: nobody waits for a lease of 15 s to end.
#[tokio::test]
async fn a_relay_that_joins_takes_its_share_and_one_that_stops_hands_its_lanes_over() {
    let (tenants, replicas) = (tenants("handed", 4).await, ["handed-a", "handed-b"]);
    let broker = MemoryBroker::new("hub", "", "");
    let all = |replica: &str| BTreeMap::from([(replica.to_owned(), 4)]);
    let first = start(&broker, replicas[0], &tenants);
    until("the first has all", async || shares(&tenants).await == all(replicas[0])).await;
    let second = start(&broker, replicas[1], &tenants);
    let joined = Duration::from_secs(10);
    until_within(joined, "each has its share", async || shares(&tenants).await == even(replicas, 2)).await;
    first.stop(STOP).await;
    let stopped = Duration::from_secs(7);
    until_within(stopped, "the other has all", async || shares(&tenants).await == all(replicas[1])).await;
    for tenant in &tenants {
        tenant.insert_many("orders", 5, 0).await;
        tenant.drained().await;
    }
    second.stop(STOP).await;
}
