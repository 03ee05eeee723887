//! Lease and publish deadline follow what is measured, within their bounds.

use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::recorder::metric;
use crate::relay::{MemoryBroker, Relay, Tenant, until, until_within};
use crate::script::{Script, Scripted};

const STOP: Duration = Duration::from_secs(10);

/// Bounds in seconds.
const LEASE: (f64, f64) = (3.0, 12.0);
const DEADLINE: (f64, f64) = (1.0, 4.0);
const DELIVERY: &str = "lease = { min = \"3s\", max = \"12s\" }";
const BROKER: &str = "publish_deadline = { min = \"1s\", max = \"4s\" }";

/// In force for a tenant, in seconds: the lease and the deadline of its broker.
fn in_force(tenant: &str) -> (f64, f64) {
    let labels = [("tenant", tenant)];
    let (lease, deadline) =
        (metric("outrider_lease_seconds", &labels), metric("outrider_publish_deadline_seconds", &labels));
    assert!(lease == 0.0 || (LEASE.0..=LEASE.1).contains(&lease), "a lease of {lease} s");
    assert!((DEADLINE.0..=DEADLINE.1).contains(&deadline), "a deadline of {deadline} s");
    (lease, deadline)
}

// Every flight is shorter than the deadline that is in force by then, so nothing may come twice.
#[tokio::test]
async fn a_slow_broker_lengthens_lease_and_deadline_and_a_fast_one_brings_them_back() {
    let tenant = Tenant::new("paced").await;
    let broker = Scripted::new(Script::default());
    let root = format!(
        "[brokers.hub]\nkind = \"script\"\n{BROKER}\n[delivery]\n{DELIVERY}\n\
         [[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n"
    );
    let relay = Relay::with_brokers(&broker.registry(), "paced", &root, &[&tenant]);
    let send = async || {
        tenant.insert_many("orders", 5, 5).await;
        tenant.drained().await;
    };
    send().await;
    assert_eq!(in_force("paced"), (LEASE.0, DEADLINE.0), "a fast one has the shortest");

    for (flight, deadline) in [(800, 1.6), (1_300, 2.6), (2_200, DEADLINE.1)] {
        broker.fly(Duration::from_millis(flight));
        send().await;
        until("the deadline has grown", async || in_force("paced").1 >= deadline).await;
    }
    let (lease, deadline) = in_force("paced");
    assert!(lease >= 4.4 && lease * 2.0 / 3.0 > deadline + 0.5, "{lease} s for {deadline} s");
    let left: f64 =
        sqlx::query_scalar("SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM outrider.lane")
            .fetch_one(&tenant.pool)
            .await
            .unwrap();
    assert!(LEASE.0 < left && left <= lease, "and the database knows: {left} s");

    broker.fly(Duration::ZERO);
    until_within(Duration::from_secs(60), "both are short again", async || {
        send().await;
        in_force("paced") == (LEASE.0, DEADLINE.0)
    })
    .await;

    relay.stop(STOP).await;
    let mut seqs: Vec<i64> = broker.tried().into_iter().flat_map(|tried| tried.seqs).collect();
    seqs.sort_unstable();
    let all: i64 =
        sqlx::query_scalar("SELECT count(*) FROM outrider.outbox").fetch_one(&tenant.pool).await.unwrap();
    assert_eq!(seqs, (1..=all).collect::<Vec<i64>>(), "each was handed over once");
    assert_eq!(tenant.receipts().await, seqs);
    assert_eq!(metric("outrider_lanes_lost_total", &[("tenant", "paced")]), 0.0);
}

#[tokio::test]
async fn a_broker_that_is_slower_than_the_deadline_is_waited_for_once_that_is_known() {
    let tenant =
        Tenant::new("late").await.with("delivery = { backoff = { base = \"10ms\", max = \"10ms\" } }\n");
    let broker = MemoryBroker::new("hub", BROKER, ", latency = \"1500ms\"");
    let seq = tenant.insert("orders", Some("k"), b"x").await;
    let relay = Relay::start(&broker.root(DELIVERY), &[&tenant]);
    tenant.drained().await;
    assert!(broker.seqs().len() >= 2, "its first confirm came too late");
    let copies = broker.seqs().len();
    assert!(in_force("late").1 >= 2.0);
    tenant.insert_many("orders", 10, 0).await;
    tenant.drained().await;
    assert_eq!(broker.seqs().len(), copies + 10, "and from then on each comes once: {:?}", broker.seqs());
    assert_eq!(tenant.event(seq).await.0, "sent");
    relay.stop(STOP).await;
}

// A claim that was won long ago is not a right to publish: nothing is handed over whose lease left, on the owner's clock,
// is shorter than the deadline and the margin.
#[tokio::test]
async fn nothing_is_handed_over_that_could_outlive_its_lease() {
    const EVENTS: i32 = 60;
    let tenant = Tenant::new("outlived").await;
    // One key: each event waits for the one before it, long after all of them were claimed.
    tenant.insert_many("orders", EVENTS, 1).await;
    let broker = Scripted::new(Script { flight: Duration::from_millis(100), ..Script::default() });
    let root = "[brokers.hub]\nkind = \"script\"\npublish_deadline = \"1s\"\n[delivery]\nlease = \"4s\"\n\
                [[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n";
    let relay = Relay::with_brokers(&broker.registry(), "outlived", root, &[&tenant]);
    until("the first is sent", async || !broker.tried().is_empty()).await;
    // Somebody keeps the lane's row: no renewal gets through, and between its tries there is time to publish.
    let mut keeper = tenant.pool.begin().await.unwrap();
    let keep = "SELECT extract(epoch FROM until - clock_timestamp())::float8 FROM outrider.lane FOR UPDATE";
    let left: f64 = sqlx::query_scalar(keep).fetch_one(&mut *keeper).await.unwrap();
    let kept = Instant::now();
    let ends = kept + Duration::from_secs_f64(left);
    until("the lease is long over", async || Instant::now() > ends + Duration::from_secs(3)).await;
    let tried = broker.tried();
    assert!(tried.iter().any(|tried| tried.began > kept), "it went on while it could: {}", tried.len());
    assert!(tried.len() < EVENTS as usize, "and stopped");
    for (seq, began) in tried.iter().flat_map(|tried| tried.seqs.iter().map(|seq| (seq, tried.began))) {
        let left = ends.saturating_duration_since(began);
        // The margin, less what a busy machine takes between the look and the plugin.
        assert!(left >= Duration::from_millis(1_200), "{seq} was handed over {left:?} before the end");
    }

    // Nobody took the lane meanwhile: it goes on where it stopped, and what was confirmed is not sent again.
    keeper.rollback().await.unwrap();
    tenant.drained().await;
    let seqs: Vec<i64> = broker.tried().into_iter().flat_map(|tried| tried.seqs).collect();
    assert_eq!(seqs, (1..=i64::from(EVENTS)).collect::<Vec<i64>>());
    relay.stop(STOP).await;
}

#[tokio::test]
async fn a_lost_lane_makes_what_is_in_flight_unknown_and_says_so() {
    let tenant = Tenant::new("doubted").await;
    let broker = Scripted::new(Script { flight: Duration::from_secs(5), ..Script::default() });
    tenant.insert_many("orders", 7, 0).await;
    let root = "[brokers.hub]\nkind = \"script\"\npublish_deadline = \"6s\"\n[delivery]\nlease = \"12s\"\n\
                [[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n";
    let relay = Relay::with_brokers(&broker.registry(), "doubted", root, &[&tenant]);
    until("all are claimed", async || {
        let claimed = "SELECT coalesce(sum(cardinality(seqs)), 0)::bigint FROM outrider.claim";
        sqlx::query_scalar::<_, i64>(claimed).fetch_one(&tenant.pool).await.unwrap() == 7
    })
    .await;
    let (mut operator, owner) = (tenant.store(), Uuid::new_v4());
    assert_eq!(operator.take(0, owner, "operator", Duration::from_secs(60), true).await.unwrap(), Some(2));
    operator.reclaim(0, owner, &[], true).await.unwrap();
    assert_eq!(
        tenant.event(1).await,
        ("pending".to_owned(), 1, 0, None),
        "the next owner counted its attempt"
    );
    // It notices with its next claim.
    tenant.insert("orders", None, b"x").await;
    let shown = |name| metric(name, &[("tenant", "doubted")]);
    until("it is shown", async || shown("outrider_lanes_lost_total") == 1.0).await;
    assert_eq!(shown("outrider_events_in_doubt_total"), 7.0);
    assert_eq!(shown("outrider_lease_seconds"), 0.0);
    until("the confirms are facts", async || tenant.unsent().await == 1).await;
    operator.give(0, owner, Duration::ZERO).await.unwrap();
    tenant.drained().await;
    relay.stop(STOP).await;
}
