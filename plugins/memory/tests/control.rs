//! What a test can tell a store, and what then happens.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use outrider_broker::{
    Cause, ConnectOptions, Connection, ErrorClass, Message, Outcome, Plugin, Refusal, Scope,
};
use outrider_memory::{Behaviour, Memory, Store};
use serde_json::json;
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(10);

async fn connect(store: &str, capacity: usize) -> Arc<dyn Connection> {
    let params = json!({"store": store, "keep": true, "capacity": capacity});
    let broker = Memory.parse(params.as_object().expect("a table")).expect("good parameters");
    let options = ConnectOptions { client_name: "test".to_owned(), timeout: SOON, publish_deadline: SOON };
    broker.connect(options).await.expect("the store is up")
}

fn message(seq: i64, name: &str) -> Message {
    Message {
        id: Uuid::now_v7(),
        seq,
        destination: Arc::new(BTreeMap::from([("name".to_owned(), name.to_owned())])),
        key: None,
        kind: "kind".into(),
        content_type: "text/plain".into(),
        occurred_at: SystemTime::now(),
        headers: Vec::new(),
        payload: "payload".into(),
        redelivery: false,
    }
}

fn names(outcomes: &[Outcome]) -> Vec<&'static str> {
    outcomes.iter().map(Outcome::name).collect()
}

fn seqs(store: &Store) -> Vec<i64> {
    store.messages().iter().map(|message| message.seq).collect()
}

fn cause(class: ErrorClass) -> Cause {
    Cause::broker(class, "as told")
}

#[tokio::test]
async fn confirms_and_keeps() {
    let store = Store::named("keeps");
    let connection = connect("keeps", 2).await;
    let outcomes = connection
        .publish(vec![message(1, "a"), message(2, "a"), message(3, "a")], Instant::now() + SOON)
        .await;
    assert_eq!(names(&outcomes), ["confirmed", "confirmed", "retry"], "the third is over the capacity");
    assert_eq!(seqs(&store), [1, 2]);
    store.empty();
    assert_eq!(seqs(&store), [0; 0]);
}

#[tokio::test]
async fn stalls_one_destination_until_told_otherwise() {
    let store = Store::named("stalls");
    let connection = connect("stalls", 10).await;
    let rule = store.tell(|message| message.destination["name"] == "slow", Behaviour::Stall);
    let publishing = {
        let connection = Arc::clone(&connection);
        let batch = vec![message(1, "slow"), message(2, "fast"), message(3, "slow")];
        tokio::spawn(async move { connection.publish(batch, Instant::now() + SOON).await })
    };
    assert!(store.wait_until(Instant::now() + SOON, |store| seqs(store) == [2]).await);
    assert_eq!(store.in_flight(), 3, "a batch is in flight until all of it is answered");
    store.take_back(rule);
    assert_eq!(names(&publishing.await.expect("no panic")), ["confirmed"; 3]);
    assert_eq!(seqs(&store), [2, 1, 3]);
    assert_eq!((store.in_flight(), store.most_in_flight()), (0, 3));
}

#[tokio::test]
async fn a_stall_ends_as_unknown_at_the_deadline() {
    let store = Store::named("deadline");
    let connection = connect("deadline", 10).await;
    store.tell(|_| true, Behaviour::Stall);
    let deadline = Instant::now() + Duration::from_millis(100);
    let outcomes = connection.publish(vec![message(1, "a")], deadline).await;
    assert_eq!(names(&outcomes), ["unknown"]);
    assert!(Instant::now() >= deadline);
    assert_eq!(store.in_flight(), 0);
}

#[tokio::test]
async fn a_closed_connection_leaves_stalled_ones_unknown() {
    let store = Store::named("closes");
    let connection = connect("closes", 10).await;
    store.tell(|_| true, Behaviour::Stall);
    let publishing = {
        let connection = Arc::clone(&connection);
        tokio::spawn(
            async move { connection.publish(vec![message(1, "a")], Instant::now() + 6 * SOON).await },
        )
    };
    assert!(store.wait_until(Instant::now() + SOON, |store| store.in_flight() == 1).await);
    connection.close(Instant::now() + SOON).await;
    assert_eq!(names(&publishing.await.expect("no panic")), ["unknown"]);
    store.take_all_back();
    assert_eq!(seqs(&store), [0; 0], "nothing leaves after the close");
}

#[tokio::test]
async fn answers_as_told_and_so_often() {
    let store = Store::named("answers");
    let connection = connect("answers", 10).await;
    let refusal = Refusal { cause: Cause::event(ErrorClass::Invalid, "as told"), permanent: false };
    store.tell_times(2, |message| message.seq == 1, Behaviour::Answer(Outcome::Refused(refusal)));
    store.tell_times(
        1,
        |message| message.seq == 2,
        Behaviour::Lose(Outcome::Unknown(cause(ErrorClass::Timeout))),
    );
    let batch = vec![message(1, "a"), message(2, "a")];
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(names(&connection.publish(batch.clone(), Instant::now() + SOON).await));
    }
    assert_eq!(seen, [["refused", "unknown"], ["refused", "confirmed"], ["confirmed", "confirmed"]]);
    assert_eq!(seqs(&store), [2, 2, 1, 2], "a lost answer is a message that arrived");
}

#[tokio::test]
async fn panics_as_told_and_goes_on() {
    let store = Store::named("panics");
    let connection = connect("panics", 10).await;
    store.tell_times(1, |_| true, Behaviour::Panic);
    let publishing = {
        let connection = Arc::clone(&connection);
        tokio::spawn(async move { connection.publish(vec![message(1, "a")], Instant::now() + SOON).await })
    };
    assert!(publishing.await.expect_err("a panic").is_panic());
    assert_eq!(store.in_flight(), 0);
    let outcomes = connection.publish(vec![message(2, "a")], Instant::now() + SOON).await;
    assert_eq!(names(&outcomes), ["confirmed"]);
}

#[tokio::test]
async fn goes_down_and_comes_up() {
    let store = Store::named("down");
    let connection = connect("down", 10).await;
    store.go_down(cause(ErrorClass::Unreachable));
    assert!(!connection.alive());
    let outcomes = connection.publish(vec![message(1, "a")], Instant::now() + SOON).await;
    assert_eq!(outcomes, [Outcome::NotSent(cause(ErrorClass::Unreachable))]);
    assert_eq!(connection.probe(Instant::now() + SOON).await, Err(cause(ErrorClass::Unreachable)));
    store.come_up();
    assert!(!connection.alive(), "a connection that broke stays broken");
    assert!(connect("down", 10).await.alive());
    assert_eq!(store.connects(), 2);
    assert_eq!(outcomes[0].cause().map(|cause| cause.scope), Some(Scope::Broker));
}

#[tokio::test]
async fn latency_delays_the_answer() {
    let store = Store::named("latency");
    let params = json!({"store": "latency", "keep": true, "latency": "200ms"});
    let broker = Memory.parse(params.as_object().expect("a table")).expect("good parameters");
    let options = ConnectOptions { client_name: "test".to_owned(), timeout: SOON, publish_deadline: SOON };
    let connection = broker.connect(options).await.expect("the store is up");
    let begun = Instant::now();
    let outcomes = connection.publish(vec![message(1, "a")], begun + SOON).await;
    assert_eq!(names(&outcomes), ["confirmed"]);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    // A deadline before the answer: it arrived, and nobody can know.
    let short = Instant::now() + Duration::from_millis(50);
    assert_eq!(names(&connection.publish(vec![message(2, "a")], short).await), ["unknown"]);
    assert_eq!(seqs(&store), [1, 2]);
}
