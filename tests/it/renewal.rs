//! C18: a lease is renewed beside the work that it protects, however long that work takes and whatever it does to its
//! thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outrider::outbox::share::share;
use outrider_broker::{Outcome, Receipt};

use crate::recorder::{Gate, metric};
use crate::relay::{MemoryBroker, Relay, Tenant, until};
use crate::script::{Script, Scripted};

const STOP: Duration = Duration::from_secs(10);

/// Seconds. It is renewed when two thirds are left; one that was renewed only when nothing is out would be once the
/// publish deadline and the margin are all that is left.
const LEASE: f64 = 6.0;
const LEFT: f64 = 2.0;

// One plugin blocks its thread for longer than a lease, another has an event out at all times, and a second replica
// waits for the lane.
#[tokio::test]
async fn a_lease_is_renewed_while_publishes_are_out_and_a_plugin_keeps_a_thread_for_longer_than_the_lease() {
    let tenant =
        Tenant::new("renewed").await.with("delivery = { backoff = { base = \"10ms\", max = \"10ms\" } }\n");
    let gate = Arc::new(Gate::default());
    let (blocking, tries) = (gate.clone(), AtomicUsize::new(0));
    let script = Scripted::new(Script {
        answer: Box::new(move |_| {
            if tries.fetch_add(1, Ordering::SeqCst) == 0 {
                blocking.pass();
            }
            Outcome::Confirmed(Receipt::default())
        }),
        ..Script::default()
    });
    let slow = MemoryBroker::new("slow", "publish_deadline = \"1s\"", ", latency = \"500ms\"");
    let root = format!(
        "{}[brokers.hub]\nkind = \"script\"\npublish_deadline = \"1s\"\n[delivery]\nlease = \"{LEASE}s\"\n\
         [[routes]]\ntopic = \"blocks\"\nbroker = \"hub\"\n[[routes]]\ntopic = \"*\"\nbroker = \"slow\"\n",
        slow.section
    );
    let start = |replica| Relay::with_brokers(&script.registry(), replica, &root, &[&tenant]);
    // The lane is the first's by right, so that the second waits for nothing but the end of its lease.
    let replicas = ["renewed-a", "renewed-b"];
    let owner = share(&["renewed"], &replicas)["renewed"];
    let other = replicas.into_iter().find(|replica| *replica != owner).unwrap();
    let first = start(owner);
    until("the first has the lane", async || tenant.owner().await.as_deref() == Some(owner)).await;
    // In turn, so that one is out whenever a renewal is due.
    tenant.insert_many("slow", 100, 1).await;
    until("one is out", async || slow.store.in_flight() > 0).await;
    let second = start(other);
    let lane = async || -> (f64, f64, i64) {
        let lane = "SELECT extract(epoch FROM until - clock_timestamp())::float8, extract(epoch FROM until)::float8, epoch \
                      FROM outrider.lane";
        sqlx::query_as(lane).fetch_one(&tenant.pool).await.unwrap()
    };
    gate.shut();
    let (_, ends, epoch) = lane().await;
    let blocks = tenant.insert("blocks", None, b"x").await;
    // Given up at its deadline, well inside the lease, and then tried again.
    until("the plugin's second try is confirmed", async || tenant.event(blocks).await.0 == "sent").await;
    let sent = slow.seqs().len();
    until("the lease of then is over", async || {
        let (left, until, owned) = lane().await;
        assert!(left > LEFT && owned == epoch, "{left} s are left of ownership {owned}, which was {epoch}");
        until - left > ends + 0.5
    })
    .await;
    assert!(slow.seqs().len() >= sent + 3, "the others went out meanwhile");
    gate.open();

    second.stop(STOP).await;
    first.stop(STOP).await;
    for lost in
        ["outrider_lanes_lost_total", "outrider_events_in_doubt_total", "outrider_events_fenced_total"]
    {
        assert_eq!(metric(lost, &[("tenant", "renewed")]), 0.0, "{lost}");
    }
    let mut seqs = slow.seqs();
    seqs.dedup();
    assert_eq!(seqs, (seqs[0]..).take(seqs.len()).collect::<Vec<i64>>(), "in order");
}
