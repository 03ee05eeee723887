//! Messages that no queue takes: returned by the broker, and acked all the same.

use lapin::ExchangeKind;
use lapin::options::ExchangeDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use outrider_broker::{ErrorClass, Message, Outcome, Scope};
use serde_json::json;
use uuid::Uuid;

use crate::rig::{Server, broker, confirmed, connect, ids, message, publish, unique};

fn unroutable(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Retry(cause)
        if cause.class == ErrorClass::Unroutable && cause.scope == Scope::Destination)
}

/// C39
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_routed_nowhere_is_not_sent() {
    let server = Server::new().await;
    let connection = connect(&*broker(json!({}))).await;
    let queue = server.quorum_queue().await;

    let outcomes = publish(&*connection, &[message("", &unique("no-such-queue")), message("", &queue)]).await;
    assert!(unroutable(&outcomes[0]) && confirmed(&outcomes[1]), "{outcomes:?}");
    let text = outcomes[0].cause().unwrap().to_string();
    assert!(text.contains("declare it") && text.contains("312"), "{text}");

    // A binding that goes away between two messages. (The first one keeps the exchange in being.)
    let exchange = server.exchange(ExchangeKind::Direct).await;
    server.bind(&queue, &exchange, "other").await;
    server.bind(&queue, &exchange, "bound").await;
    assert!(confirmed(&publish(&*connection, &[message(&exchange, "bound")]).await[0]));
    let (name, key) = (queue.as_str().into(), "bound".into());
    server.channel.queue_unbind(name, exchange.as_str().into(), key, FieldTable::default()).await.unwrap();
    let outcomes = publish(&*connection, &[message(&exchange, "bound")]).await;
    assert!(unroutable(&outcomes[0]), "{outcomes:?}");
    assert!(connection.alive());
}

/// C39: an alternate exchange routes it after all, and the broker does not return it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alternate_exchange_counts_as_routed() {
    let server = Server::new().await;
    let connection = connect(&*broker(json!({}))).await;
    let queue = server.quorum_queue().await;
    let alternate = server.exchange(ExchangeKind::Fanout).await;
    server.bind(&queue, &alternate, "").await;
    let exchange = unique("outrider-test");
    let mut arguments = FieldTable::default();
    arguments.insert("alternate-exchange".into(), AMQPValue::LongString(alternate.as_str().into()));
    let options = ExchangeDeclareOptions::default();
    server
        .channel
        .exchange_declare(exchange.as_str().into(), ExchangeKind::Direct, options, arguments)
        .await
        .unwrap();

    let one = message(&exchange, "bound-nowhere");
    let outcomes = publish(&*connection, std::slice::from_ref(&one)).await;
    server.delete_exchange(&exchange).await;
    assert!(confirmed(&outcomes[0]), "{outcomes:?}");
    assert_eq!(server.ids(&queue).await, ids([&one]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_may_have_unroutable_events_refused() {
    let connection = connect(&*broker(json!({"unroutable": "refuse"}))).await;
    let outcomes = publish(&*connection, &[message("", &unique("no-such-queue"))]).await;
    let Outcome::Refused(refusal) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(!refusal.permanent && refusal.cause.scope == Scope::Event, "{refusal:?}");
    assert_eq!(refusal.cause.class, ErrorClass::Unroutable);
}

/// C40: 200 in flight on one channel, routable and unroutable at random, many rounds.
async fn exactly_the_unroutable_fail(persistent: bool, queue_type: &str, rounds: usize) {
    let server = Server::new().await;
    let connection = connect(&*broker(json!({"persistent": persistent}))).await;
    let queue = server.queue(&[("x-queue-type", AMQPValue::LongString(queue_type.into()))]).await;
    let nowhere = unique("no-such-queue");
    for round in 0..rounds {
        // From one in ten to nine in ten unroutable, by turns.
        let share = [26, 77, 128, 179, 230][round % 5];
        let batch: Vec<Message> = (0..200)
            .map(|_| match Uuid::new_v4().as_bytes()[0] < share {
                true => message("", &nowhere),
                false => message("", &queue),
            })
            .collect();
        let outcomes = publish(&*connection, &batch).await;
        for (one, outcome) in batch.iter().zip(&outcomes) {
            let routable = one.destination["routing_key"] == queue;
            let right = if routable { confirmed(outcome) } else { unroutable(outcome) };
            assert!(right, "round {round}, routable: {routable}, {outcome:?}");
        }
        let routable = batch.iter().filter(|one| one.destination["routing_key"] == queue);
        assert_eq!(server.ids(&queue).await, ids(routable), "round {round}");
    }
}

/// The worst case: acks for many messages at once, before and after those of the unroutable ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returns_are_matched_on_a_transient_classic_queue() {
    exactly_the_unroutable_fail(false, "classic", 40).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returns_are_matched_on_a_quorum_queue() {
    exactly_the_unroutable_fail(true, "quorum", 20).await;
}

/// C46
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_is_retried_and_its_neighbour_has_copies() {
    let server = Server::new().await;
    let connection = connect(&*broker(json!({}))).await;
    let exchange = server.exchange(ExchangeKind::Fanout).await;
    let limited = [
        ("x-max-length", AMQPValue::LongInt(5)),
        ("x-overflow", AMQPValue::LongString("reject-publish".into())),
    ];
    let (full, open) = (server.queue(&limited).await, server.queue(&[]).await);
    server.bind(&full, &exchange, "").await;
    server.bind(&open, &exchange, "").await;

    let batch: Vec<Message> = (0..20).map(|_| message(&exchange, "any")).collect();
    let outcomes = publish(&*connection, &batch).await;
    let mut left = Vec::new();
    for (one, outcome) in batch.iter().zip(&outcomes) {
        match outcome {
            Outcome::Confirmed(_) => {}
            Outcome::Retry(cause) => {
                assert_eq!((cause.scope, cause.class), (Scope::Destination, ErrorClass::Unavailable));
                assert!(cause.text.contains("reject-publish"), "{cause}");
                left.push(one.clone());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!left.is_empty(), "a queue of 5 took 20 messages");
    assert_eq!(server.ids(&open).await, ids(&batch), "the open queue has a copy of each");
    let taken = server.ids(&full).await;
    assert_eq!(taken.len() + left.len(), 20);

    // Drained, it takes the rest; the copies have the ids of the first ones.
    while !left.is_empty() {
        let outcomes = publish(&*connection, &left).await;
        let before = left.len();
        let mut sent = outcomes.iter().map(confirmed);
        left.retain(|_| !sent.next().unwrap());
        assert!(left.len() < before, "{outcomes:?}");
        server.drain(&full).await;
    }
    let copies = server.ids(&open).await;
    assert!(copies.iter().all(|id| ids(&batch).contains(id)));
}
