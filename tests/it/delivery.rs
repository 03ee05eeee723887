//! What is delivered, and when it counts as sent. What messages carry is in `messages`, what transactions that commit
//! late or side by side do in `visibility`, and what is never taken for success in `failures`.

mod failures;
mod messages;
mod visibility;

use std::time::Duration;

use outrider_broker::{Cause, ErrorClass, Outcome};
use outrider_memory::Behaviour;
use sqlx::Connection;

use crate::recorder::metric;
use crate::relay::{MemoryBroker, Relay, Tenant, insert, until};

const STOP: Duration = Duration::from_secs(10);

/// Handed over, and no word came back; the broker as a whole is not to blame.
fn no_word() -> Outcome {
    Outcome::Unknown(Cause::event(ErrorClass::Timeout, "no word came back"))
}

// Contract: an event whose transaction committed is delivered; one whose transaction rolled back never is.
#[tokio::test]
async fn what_committed_is_delivered_and_what_rolled_back_never_is() {
    let tenant = Tenant::new("rollbacks").await;
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    let mut committed = Vec::new();
    for _ in 0..5 {
        let mut lost = tenant.database.connect().await.unwrap();
        sqlx::query("BEGIN").execute(&mut lost).await.unwrap();
        insert(&mut lost, "orders", Some("k"), b"its session died").await;
        lost.close_hard().await.unwrap();

        let mut undone = tenant.pool.begin().await.unwrap();
        insert(&mut undone, "orders", Some("k"), b"undone").await;
        undone.rollback().await.unwrap();

        let mut kept = tenant.pool.begin().await.unwrap();
        committed.push(insert(&mut kept, "orders", Some("k"), b"kept").await);
        let mut savepoint = kept.begin().await.unwrap();
        insert(&mut savepoint, "orders", Some("k"), b"undone to a savepoint").await;
        savepoint.rollback().await.unwrap();
        let mut savepoint = kept.begin().await.unwrap();
        committed.push(insert(&mut savepoint, "orders", Some("k"), b"kept in a savepoint").await);
        savepoint.commit().await.unwrap();
        kept.commit().await.unwrap();
    }
    until("what committed is delivered", async || broker.seqs().len() >= committed.len()).await;
    tenant.drained().await;
    assert_eq!(broker.seqs(), committed);
    assert_eq!(tenant.receipts().await, committed);
    assert_eq!(tenant.states().await, [("sent".to_owned(), 10)]);
    relay.stop(STOP).await;
}

// Contract: `sent` is written only after the broker confirmed; that the client took it is no confirm.
#[tokio::test]
async fn an_event_is_sent_only_once_the_broker_has_confirmed_it() {
    let tenant = Tenant::new("unconfirmed").await;
    let broker = MemoryBroker::new("hub", "", "");
    let stalled = broker.store.tell(|_| true, Behaviour::Stall);
    let seq = tenant.insert("orders", Some("k"), b"payload").await;
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    until("it is handed over", async || broker.store.in_flight() == 1).await;
    assert_eq!(tenant.event(seq).await, ("leased".to_owned(), 0, 0, None));
    assert!(tenant.receipts().await.is_empty());
    broker.store.take_back(stalled);
    tenant.drained().await;
    assert_eq!(tenant.event(seq).await.0, "sent");
    assert_eq!(tenant.receipts().await, [seq]);
    relay.stop(STOP).await;
}

// Contract: a duplicate comes about when the confirm never came, and carries the id and the `seq` of the first copy.
#[tokio::test]
async fn an_event_whose_confirm_is_lost_comes_again_with_its_id_and_seq() {
    let tenant = Tenant::new("duplicates").await;
    let broker = MemoryBroker::new("hub", "", "");
    let lost = broker.store.tell(|_| true, Behaviour::Lose(no_word()));
    let seq = tenant.insert("orders", Some("k"), b"payload").await;
    let delivery = "backoff = { base = \"50ms\", max = \"100ms\" }";
    let relay = Relay::start(&broker.root(delivery), &[&tenant]);
    until("it came three times", async || broker.store.messages().len() >= 3).await;
    let (state, attempts, refusals, error) = tenant.event(seq).await;
    assert_ne!(state, "sent", "the broker has it, and nobody knows");
    assert!(attempts >= 2 && refusals == 0, "{attempts} attempts, {refusals} refusals");
    assert_eq!(error.as_deref(), Some("no word came back"));
    assert!(tenant.receipts().await.is_empty());
    broker.store.take_back(lost);
    tenant.drained().await;
    let copies = broker.store.messages();
    assert!(copies.iter().all(|copy| copy.id == copies[0].id && copy.seq == seq));
    assert!(copies.iter().all(|copy| copy.headers == copies[0].headers && copy.payload == copies[0].payload));
    assert!(!copies[0].redelivery && copies[1..].iter().all(|copy| copy.redelivery));
    assert_eq!(tenant.receipts().await, [seq]);
    relay.stop(STOP).await;
}

// Bad input: an event whose topic has no route is held and counted, never dropped.
#[tokio::test]
async fn an_event_without_a_route_waits_for_one() {
    let tenant = Tenant::new("unrouted").await;
    let broker = MemoryBroker::new("hub", "", "");
    let root = format!("{}[[routes]]\ntopic = \"orders\"\nbroker = \"hub\"\n", broker.section);
    let relay = Relay::start(&root, &[&tenant]);
    let held = tenant.insert("billing", Some("k"), b"held").await;
    let unrouted = || metric("outrider_unrouted_topics", &[("tenant", "unrouted")]);
    until("it is counted", async || unrouted() == 1.0).await;
    let routed = tenant.insert("orders", Some("k"), b"routed").await;
    until("the other topic flows", async || tenant.event(routed).await.0 == "sent").await;
    assert_eq!(tenant.event(held).await, ("pending".to_owned(), 0, 0, None));
    relay.stop(STOP).await;
    assert_eq!(unrouted(), 0.0, "a relay without the lane counts nothing");

    let relay = Relay::start(&broker.root(""), &[&tenant]);
    tenant.drained().await;
    assert_eq!(broker.seqs(), [routed, held]);
    assert_eq!(unrouted(), 0.0);
    relay.stop(STOP).await;
}

// Contract: an event with `available_at` in the future is not sent before it and takes no part in its key's order.
#[tokio::test]
async fn an_event_for_later_waits_and_holds_nobody_up() {
    let tenant = Tenant::new("scheduled").await;
    let broker = MemoryBroker::new("hub", "", "");
    let insert = "INSERT INTO outrider.outbox (topic, key, type, payload, available_at)
                  VALUES ('orders', 'k', 'test', '', clock_timestamp() + $1::interval) RETURNING seq";
    let scheduled = async |after: &str| -> i64 {
        sqlx::query_scalar(insert).bind(after).fetch_one(&tenant.pool).await.unwrap()
    };
    // Long enough for the others to be seen sent before it.
    let later = scheduled("6 seconds").await;
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    let past = scheduled("-1 hour").await;
    let now = tenant.insert("orders", Some("k"), b"").await;
    until("the others of its key are sent", async || tenant.receipts().await.starts_with(&[past, now])).await;
    tenant.drained().await;
    assert_eq!(broker.seqs(), [past, now, later]);
    let waited: bool = sqlx::query_scalar(
        "SELECT r.settled_at >= o.available_at FROM outrider.outbox o, outrider.receipt r
          WHERE o.seq = $1 AND o.seq = ANY (r.seqs)",
    )
    .bind(later)
    .fetch_one(&tenant.pool)
    .await
    .unwrap();
    assert!(waited, "it was sent before its time");
    relay.stop(STOP).await;
}

// C65. Contract: no transaction is open and no row lock is held while a broker is being waited for.
#[tokio::test]
async fn nothing_is_locked_while_a_broker_is_waited_for() {
    let tenant = Tenant::new("lockless").await;
    let broker = MemoryBroker::new("hub", "publish_deadline = \"8s\"", "");
    broker.store.tell(|_| true, Behaviour::Stall);
    tenant.insert_many("orders", 20, 20).await;
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    until("all are handed over", async || broker.store.in_flight() == 20).await;
    // The absence of a lock over a stated time is the claim: for a second, while the broker says nothing.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        // A transaction of a publish would be as old as the publish; the relay's own statements take milliseconds.
        let open: Vec<(String, String)> = sqlx::query_as(
            "SELECT coalesce(state, ''), coalesce(query, '') FROM pg_stat_activity
              WHERE datname = current_database() AND application_name LIKE 'outrider/%'
                AND (state LIKE 'idle in transaction%' OR clock_timestamp() - xact_start > interval '900 ms')",
        )
        .fetch_all(&tenant.pool)
        .await
        .unwrap();
        assert_eq!(open, [], "a session of the relay is in a transaction");
        // Whoever wants the rows in flight gets them at once.
        let mut other = tenant.pool.begin().await.unwrap();
        for table in ["outbox", "delivery", "claim"] {
            let lock = format!("SELECT FROM outrider.{table} FOR UPDATE NOWAIT");
            let locked = sqlx::query(sqlx::AssertSqlSafe(lock)).execute(&mut *other).await;
            assert!(locked.unwrap().rows_affected() > 0, "{table} has what is in flight");
        }
        other.rollback().await.unwrap();
    }
    assert_eq!(broker.store.in_flight(), 20, "the broker was waited for all the time");
    broker.store.take_all_back();
    tenant.drained().await;
    relay.stop(STOP).await;
}
