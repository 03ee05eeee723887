//! Streams that are missing, wrong, full, or do not answer.

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::StreamExt;

use super::server::{Server, stored, stream};
use super::*;

/// C51: no stream is no fault of the event; it is said at once, and it flows when the stream appears.
#[tokio::test(flavor = "multi_thread")]
async fn no_stream_takes_the_subject() {
    let Some(server) = Server::start("") else { return };
    let connection = connect(&server.url()).await;
    let begun = Instant::now();
    let outcome = publish_one(&*connection, &message("orders.new", 1)).await;
    let cause = assert_retry(&outcome, Scope::Destination, ErrorClass::UnknownDestination);
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    assert!(
        cause.text.contains("`orders.new`") && cause.text.contains("add the subject to a stream"),
        "{cause}"
    );

    server.jetstream().await.create_stream(stream("orders")).await.unwrap();
    assert_confirmed(&publish(&*connection, &messages("orders.new", 3)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_stream_than_the_route_says() {
    let Some(server) = Server::start("") else { return };
    server.jetstream().await.create_stream(stream("orders")).await.unwrap();
    let connection = connect(&server.url()).await;
    let with_stream = |name: &str| {
        let mut message = message("orders.new", 1);
        Arc::make_mut(&mut message.destination).insert("stream".to_owned(), name.to_owned());
        message
    };
    let outcome = publish_one(&*connection, &with_stream("billing")).await;
    assert_retry(&outcome, Scope::Destination, ErrorClass::UnknownDestination);
    assert_confirmed(&publish(&*connection, &[with_stream("orders")]).await);
}

/// C57: a full stream is trouble of the destination. What fits is confirmed, the rest flows when there is room.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_stream_that_discards_new_messages() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    let config = Config { max_messages: 10, discard: DiscardPolicy::New, ..stream("orders") };
    let full = jetstream.create_stream(config).await.unwrap();
    jetstream.create_stream(stream("billing")).await.unwrap();
    let connection = connect(&server.url()).await;

    let mut batch = messages("orders", 30);
    batch.push(message("billing", 1));
    let outcomes = publish(&*connection, &batch).await;
    assert_confirmed(&outcomes[..10]);
    for outcome in &outcomes[10..30] {
        assert_retry(outcome, Scope::Destination, ErrorClass::Unavailable);
    }
    assert_confirmed(&outcomes[30..]);
    assert_eq!(stored(&jetstream, "orders").await, 10);

    full.purge().await.unwrap();
    assert_confirmed(&publish(&*connection, &batch[10..20]).await);
    assert_eq!(stored(&jetstream, "orders").await, 10);
}

/// C57: the limit of one subject leaves the stream's others alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_subject() {
    let Some(server) = Server::start("") else { return };
    let config = Config {
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        discard_new_per_subject: true,
        ..stream("orders")
    };
    server.jetstream().await.create_stream(config).await.unwrap();
    let connection = connect(&server.url()).await;
    let batch = [message("orders.a", 1), message("orders.a", 2), message("orders.b", 3)];
    let outcomes = publish(&*connection, &batch).await;
    assert_confirmed(&[outcomes[0].clone(), outcomes[2].clone()]);
    assert_retry(&outcomes[1], Scope::Destination, ErrorClass::Unavailable);
}

/// C57.
#[tokio::test(flavor = "multi_thread")]
async fn a_sealed_stream() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    jetstream.create_stream(stream("orders")).await.unwrap();
    jetstream.update_stream(Config { sealed: true, ..stream("orders") }).await.unwrap();
    let connection = connect(&server.url()).await;
    let outcome = publish_one(&*connection, &message("orders", 1)).await;
    assert_retry(&outcome, Scope::Destination, ErrorClass::Unavailable);
}

/// Nobody can know what became of it, and as others are answered it is this stream's doing.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_acknowledges_nothing() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    jetstream.create_stream(Config { no_ack: true, ..stream("mute") }).await.unwrap();
    jetstream.create_stream(stream("orders")).await.unwrap();
    let connection = connect(&server.url()).await;
    let batch = [message("mute", 1), message("orders", 2)];
    let outcomes = connection.publish(batch.to_vec(), Instant::now() + Duration::from_secs(1)).await;
    let Outcome::Unknown(cause) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert_cause(cause, Scope::Destination, ErrorClass::Timeout);
    assert_confirmed(&outcomes[1..]);
}

/// A service on the subject answers, and its answer is no acknowledgement.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_not_jetstreams() {
    let Some(server) = Server::start("") else { return };
    let service = async_nats::connect(server.url()).await.unwrap();
    let mut requests = service.subscribe("orders").await.unwrap();
    service.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            service.publish(request.reply.unwrap(), "thanks".into()).await.unwrap();
        }
    });
    let connection = connect(&server.url()).await;
    let outcome = publish_one(&*connection, &message("orders", 1)).await;
    let Outcome::Unknown(cause) = &outcome else { panic!("{outcome:?}") };
    assert_cause(cause, Scope::Destination, ErrorClass::Other);
}

/// Messages that nobody acknowledges keep their own place on the connection and nobody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_mute_stream_does_not_hold_up_the_others() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    jetstream.create_stream(Config { no_ack: true, ..stream("mute") }).await.unwrap();
    jetstream.create_stream(stream("orders")).await.unwrap();
    let connection = connect_with(json!({ "url": server.url(), "max_ack_inflight": 10 })).await;
    let mut batch = messages("orders", 50);
    batch.insert(0, message("mute", 1));
    let until = Instant::now() + Duration::from_secs(5);
    let blocked = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.publish(batch, until).await }
    });
    eventually("the neighbours get through", async || stored(&jetstream, "orders").await == 50).await;
    assert_confirmed(&publish(&*connection, &messages("orders", 20)).await);
    assert!(Instant::now() < until, "the machine was too slow for this test");
    let outcomes = blocked.await.unwrap();
    assert!(matches!(outcomes[0], Outcome::Unknown(_)), "{:?}", outcomes[0]);
    assert_confirmed(&outcomes[1..]);
}

/// More messages in a batch than may be unconfirmed: they take turns, in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_larger_than_the_window() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    jetstream.create_stream(stream("orders")).await.unwrap();
    let connection = connect_with(json!({ "url": server.url(), "max_ack_inflight": 7 })).await;
    let outcomes = publish(&*connection, &messages("orders", 500)).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        let Outcome::Confirmed(receipt) = outcome else { panic!("{outcome:?}") };
        assert_eq!(receipt.position, Some((index + 1).to_string()));
    }
}
