//! Faults that a mock cluster makes: no broker, silence, a full queue, a fatal error, the end of a client.

use std::time::{Duration, Instant};

use outrider_broker::{ErrorClass, Outcome, Plugin, Scope};
use outrider_kafka::Kafka;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use serde_json::json;

use crate::support::{
    assert_all, connect, message, messages, options, params, publish, publish_until_confirmed, read, tally,
};

const TOPIC: &str = "orders";
const DEADLINE: Duration = Duration::from_secs(4);

fn cluster() -> MockCluster<'static, DefaultProducerContext> {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 2, 1).unwrap();
    cluster
}

/// C31: the queue takes 100, the batch has 1,000: back-pressure, and everything gets through.
#[tokio::test]
async fn a_batch_larger_than_the_clients_queue_gets_through() {
    let cluster = cluster();
    let small = [("queue.buffering.max.messages", json!(100)), ("queue.buffering.max.kbytes", json!(1024))];
    let connection = connect(&cluster.bootstrap_servers(), &small, DEADLINE).await;
    let outcomes = publish(&*connection, messages(TOPIC, 1000, 100), DEADLINE).await;
    assert_all(&outcomes, "confirmed");
    // By bytes: 1 MiB holds 10 of these.
    let outcomes = publish(&*connection, messages(TOPIC, 50, 100_000), DEADLINE).await;
    assert_all(&outcomes, "confirmed");
}

/// C31: a cold broker. What never got in, and what got in and never left, is not sent: no attempt is spent.
#[tokio::test]
async fn a_full_queue_and_no_broker_leaves_everything_not_sent() {
    let cluster = cluster();
    let small = [("queue.buffering.max.messages", json!(100))];
    let connection = connect(&cluster.bootstrap_servers(), &small, DEADLINE).await;
    cluster.broker_down(1).unwrap();
    let outcomes = publish(&*connection, messages(TOPIC, 1000, 100), DEADLINE).await;
    assert_all(&outcomes, "not_sent");
    for outcome in [&outcomes[0], &outcomes[999]] {
        let cause = outcome.cause().unwrap();
        assert_eq!(cause.scope, Scope::Broker, "{cause}");
        assert_eq!(cause.class, ErrorClass::Unreachable, "{cause}");
    }
    cluster.broker_up(1).unwrap();
    publish_until_confirmed(&*connection, messages(TOPIC, 1000, 100)).await;
    let read = read(&cluster.bootstrap_servers(), TOPIC, 1000, Instant::now() + DEADLINE).await;
    assert_eq!(read.len(), 1000, "nothing of the first batch left later");
}

/// The broker takes the bytes and does not answer in time: unknown, and the connection lives on.
#[tokio::test]
async fn what_was_handed_over_and_not_answered_is_unknown() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], DEADLINE).await;
    assert_all(&publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await, "confirmed");
    cluster.broker_round_trip_time(1, Duration::from_secs(20)).unwrap();
    let outcomes = publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await;
    assert_all(&outcomes, "unknown");
    // The client has given the connection up, and a new one is not answered either: these never leave.
    assert_all(&publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await, "not_sent");
    cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();
    publish_until_confirmed(&*connection, messages(TOPIC, 10, 10)).await;
    assert!(connection.alive());
}

/// Likewise with a deadline that is shorter than the client's own clock. What left is unknown, what another
/// batch had in the client is not lost, and the gap that is left does not end the client.
#[tokio::test]
async fn overdue_records_are_taken_back_from_the_client() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], Duration::from_secs(30)).await;
    assert_all(&publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await, "confirmed");
    cluster.broker_round_trip_time(1, Duration::from_secs(3)).unwrap();
    let (short, long) = tokio::join!(
        publish(&*connection, messages(TOPIC, 10, 10), Duration::from_secs(1)),
        publish(&*connection, messages(TOPIC, 10, 10), Duration::from_secs(20)),
    );
    assert_all(&short, "unknown");
    assert_eq!(short[0].cause().unwrap().class, ErrorClass::Timeout);
    assert_all(&long, "unknown");
    assert_eq!(long[0].cause().unwrap().scope, Scope::Event, "its own topic is not to blame");
    cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();
    publish_until_confirmed(&*connection, messages(TOPIC, 10, 10)).await;
    assert!(connection.alive());
}

/// C26: what was overdue does not leave later, although the client's own clock had not run out.
#[tokio::test]
async fn nothing_leaves_after_its_deadline() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], Duration::from_secs(30)).await;
    cluster.broker_down(1).unwrap();
    let late = publish(&*connection, messages(TOPIC, 10, 10), Duration::from_secs(1)).await;
    assert_all(&late, "not_sent");
    cluster.broker_up(1).unwrap();
    let next = vec![message(TOPIC, 77, Some("next"), "x")];
    publish_until_confirmed(&*connection, next).await;
    let read = read(&cluster.bootstrap_servers(), TOPIC, 1, Instant::now() + DEADLINE).await;
    assert_eq!(read.iter().map(|record| record.seq()).collect::<Vec<_>>(), [77]);
}

/// An answer that the client itself follows up is not seen outside.
#[tokio::test]
async fn passing_refusals_are_retried_inside_the_client() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], DEADLINE).await;
    let refusals = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 2];
    cluster.request_errors(RDKafkaApiKey::Produce, &refusals);
    assert_all(&publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await, "confirmed");
}

#[tokio::test]
async fn a_refused_topic_concerns_that_topic() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], DEADLINE).await;
    assert_all(&publish(&*connection, messages(TOPIC, 2, 10), DEADLINE).await, "confirmed");
    let forbidden = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 1];
    cluster.request_errors(RDKafkaApiKey::Produce, &forbidden);
    let outcomes = publish(&*connection, vec![message(TOPIC, 1, Some("k"), "x")], DEADLINE).await;
    let Outcome::Retry(cause) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert_eq!((cause.scope, cause.class), (Scope::Destination, ErrorClass::Authorization));
    assert!(cause.text.contains("WRITE"), "{cause}");
    publish_until_confirmed(&*connection, messages(TOPIC, 2, 10)).await;
}

/// C28: a fatal sequence error ends the connection, says so, and a new one works.
#[tokio::test]
async fn a_fatal_error_ends_the_connection_and_a_new_one_works() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], DEADLINE).await;
    assert_all(&publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await, "confirmed");
    let out_of_order = [RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER; 1];
    cluster.request_errors(RDKafkaApiKey::Produce, &out_of_order);
    let begun = Instant::now();
    let outcomes = publish(&*connection, vec![message(TOPIC, 1, Some("k"), "x")], DEADLINE).await;
    let Outcome::Unknown(cause) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::ClientFatal));
    assert!(begun.elapsed() < DEADLINE / 2, "known at once, not at the deadline");
    assert!(!connection.alive());

    let outcomes = publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await;
    assert_all(&outcomes, "not_sent");
    assert_eq!(outcomes[0].cause().unwrap().class, ErrorClass::ClientFatal);
    let probe = connection.probe(Instant::now() + DEADLINE).await;
    assert_eq!(probe.unwrap_err().class, ErrorClass::ClientFatal);
    connection.close(Instant::now() + DEADLINE).await;

    let connection = connect(&cluster.bootstrap_servers(), &[], DEADLINE).await;
    assert_all(&publish(&*connection, messages(TOPIC, 10, 10), DEADLINE).await, "confirmed");
}

/// C37: closing is bounded with the broker down and messages inside, and everybody who waits is answered.
#[tokio::test]
async fn close_is_bounded_with_the_broker_down() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], Duration::from_secs(30)).await;
    cluster.broker_down(1).unwrap();
    let publishing = tokio::spawn({
        let connection = connection.clone();
        async move { connection.publish(messages(TOPIC, 500, 100), Instant::now() + 5 * DEADLINE).await }
    });
    // Handed over: the probe fails, and by then the task above has run.
    assert!(connection.probe(Instant::now() + Duration::from_millis(500)).await.is_err());
    let begun = Instant::now();
    connection.close(Instant::now() + Duration::from_secs(1)).await;
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    let outcomes = tokio::time::timeout(DEADLINE, publishing).await.expect("nobody waits").unwrap();
    assert_all(&outcomes, "not_sent");
    assert_eq!(outcomes[0].cause().unwrap().class, ErrorClass::Local);
}

/// C37: closing gives what is on its way the time to be answered.
#[tokio::test]
async fn close_waits_for_what_is_on_its_way() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], DEADLINE).await;
    assert_all(&publish(&*connection, messages(TOPIC, 2, 10), DEADLINE).await, "confirmed");
    cluster.broker_round_trip_time(1, Duration::from_millis(700)).unwrap();
    let publishing = connection.publish(messages(TOPIC, 10, 10), Instant::now() + DEADLINE);
    let closing = async {
        tokio::task::yield_now().await;
        connection.close(Instant::now() + DEADLINE).await;
    };
    let (outcomes, ()) = tokio::join!(publishing, closing);
    assert_all(&outcomes, "confirmed");
}

/// The true reason, in time, when no broker answers.
#[tokio::test]
async fn connecting_to_nobody_says_so_in_time() {
    for (server, class) in
        [("127.0.0.1:1", ErrorClass::Unreachable), ("no-such-host.invalid:9092", ErrorClass::Unreachable)]
    {
        let broker = Kafka.parse(&params(server, &[])).unwrap();
        let mut options = options(DEADLINE);
        options.timeout = Duration::from_secs(2);
        let begun = Instant::now();
        let error = broker.connect(options).await.err().expect("there is nobody");
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        assert_eq!(error.0.class, class, "{error}");
        let host = server.split(':').next().unwrap();
        assert!(error.0.text.contains(host), "{error}");
    }
}

/// A down broker and a batch with a deadline: in time, not a guess, and the reason is in the text.
#[tokio::test]
async fn an_outage_is_told_in_time_and_with_its_reason() {
    let cluster = cluster();
    let connection = connect(&cluster.bootstrap_servers(), &[], DEADLINE).await;
    cluster.broker_down(1).unwrap();
    for _ in 0..2 {
        let outcomes = publish(&*connection, messages(TOPIC, 20, 10), Duration::from_secs(2)).await;
        assert_eq!(tally(&outcomes).keys().copied().collect::<Vec<_>>(), ["not_sent"]);
        let cause = outcomes[0].cause().unwrap();
        assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Unreachable), "{cause}");
        assert!(cause.text.contains("127.0.0.1"), "{cause}");
        assert!(connection.probe(Instant::now() + Duration::from_millis(300)).await.is_err());
    }
    assert!(connection.alive(), "it heals by itself");
    cluster.broker_up(1).unwrap();
    publish_until_confirmed(&*connection, messages(TOPIC, 20, 10)).await;
    connection.probe(Instant::now() + DEADLINE).await.unwrap();
}
