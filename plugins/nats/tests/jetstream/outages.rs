//! Servers that vanish, fall silent or never say what became of a message.

use std::collections::HashSet;

use super::deaf_proxy::DeafProxy;
use super::server::{Server, stored, stream};
use super::*;

async fn until_over(connection: &dyn Connection) {
    eventually("the connection says that it is over", async || !connection.alive()).await;
}

/// C50: what is published while the server is away stays here, and does not follow once it is back.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_handed_over_while_the_server_is_away() {
    let Some(mut server) = Server::start("") else { return };
    server.jetstream().await.create_stream(stream("orders")).await.unwrap();
    let connection = connect(&server.url()).await;
    assert_confirmed(&publish(&*connection, &messages("orders", 5)).await);

    server.kill();
    until_over(&*connection).await;
    let batch = messages("orders", 3);
    for outcome in publish(&*connection, &batch).await {
        let Outcome::NotSent(cause) = outcome else { panic!("{outcome:?}") };
        assert_cause(&cause, Scope::Broker, ErrorClass::Unreachable);
    }
    let cause = no_connection(json!({ "url": server.url() })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Unreachable);

    server.start_again();
    let connection = connect(&server.url()).await;
    assert_eq!(stored(&server.jetstream().await, "orders").await, 5);
    for outcome in publish(&*connection, &batch).await {
        assert!(matches!(outcome, Outcome::Confirmed(receipt) if !receipt.duplicate));
    }
    assert_eq!(stored(&server.jetstream().await, "orders").await, 8);
}

/// C50: 20 lost acknowledgements take one deadline and not twenty. C56: a second copy is a duplicate, and that
/// counts as sent.
#[tokio::test(flavor = "multi_thread")]
async fn lost_acknowledgements_are_unknown_at_the_deadline() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    jetstream.create_stream(stream("orders")).await.unwrap();
    let proxy = DeafProxy::start(server.address()).await;
    let connection = connect(&proxy.url()).await;

    proxy.swallow();
    let batch = messages("orders", 20);
    let begun = Instant::now();
    let outcomes = connection.publish(batch.clone(), begun + Duration::from_secs(2)).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    for outcome in outcomes {
        let Outcome::Unknown(cause) = outcome else { panic!("{outcome:?}") };
        assert_cause(&cause, Scope::Broker, ErrorClass::Timeout);
    }
    eventually("all of them arrived", async || stored(&jetstream, "orders").await == 20).await;

    let connection = connect(&server.url()).await;
    for (index, outcome) in publish(&*connection, &batch).await.into_iter().enumerate() {
        let Outcome::Confirmed(receipt) = outcome else { panic!("{outcome:?}") };
        assert!(receipt.duplicate);
        assert_eq!(receipt.position, Some((index + 1).to_string()));
    }
    assert_eq!(stored(&jetstream, "orders").await, 20);
}

/// C50: a connection that breaks between publish and acknowledgement: nobody waits for the deadline.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_connection_ends_the_wait() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    jetstream.create_stream(stream("orders")).await.unwrap();
    let proxy = DeafProxy::start(server.address()).await;
    let connection = connect(&proxy.url()).await;

    proxy.swallow();
    let begun = Instant::now();
    let publishing = tokio::spawn({
        let connection = Arc::clone(&connection);
        async move { connection.publish(messages("orders", 20), Instant::now() + 3 * PATIENCE).await }
    });
    eventually("all of them arrived", async || stored(&jetstream, "orders").await == 20).await;
    assert!(connection.alive());
    proxy.cut();
    for outcome in publishing.await.unwrap() {
        let Outcome::Unknown(cause) = outcome else { panic!("{outcome:?}") };
        assert_cause(&cause, Scope::Broker, ErrorClass::Unreachable);
    }
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    assert!(!connection.alive());
    assert!(connection.probe(Instant::now() + PATIENCE).await.is_err());
}

/// C50: more than the client and the socket hold. The call returns, what was not handed over never leaves, and
/// what was queued does not leave either once its connection is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_client_queue_is_bounded_by_the_deadline() {
    let Some(mut server) = Server::start("") else { return };
    server.jetstream().await.create_stream(stream("orders")).await.unwrap();
    let connection = connect_with(json!({ "url": server.url(), "max_ack_inflight": 3000 })).await;
    assert_confirmed(&publish(&*connection, &messages("orders", 1)).await);

    server.pause();
    let mut batch = messages("orders", 2000);
    batch.iter_mut().for_each(|message| message.payload = vec![b'x'; 50_000].into());
    let begun = Instant::now();
    let outcomes = connection.publish(batch.clone(), begun + Duration::from_secs(2)).await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let names: HashSet<&str> = outcomes.iter().map(Outcome::name).collect();
    assert_eq!(names, HashSet::from(["unknown", "not_sent"]));
    let handed_over = outcomes.iter().take_while(|outcome| outcome.name() == "unknown").count();
    assert!(
        outcomes[handed_over..].iter().all(|outcome| outcome.name() == "not_sent"),
        "in the batch's order"
    );

    server.kill();
    until_over(&*connection).await;
    connection.close(Instant::now() + PATIENCE).await;
    server.start_again();
    let connection = connect(&server.url()).await;
    assert_confirmed(&publish(&*connection, &messages("orders", 1)).await);
    // Killed before it read anything, so what is there came from the client's queue.
    assert_eq!(stored(&server.jetstream().await, "orders").await, 2);
}

/// A server that stops answering without closing anything is found out by its missing pongs.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_given_up() {
    let Some(server) = Server::start("") else { return };
    let connection = connect(&server.url()).await;
    server.pause();
    let deadline = Instant::now() + Duration::from_secs(1);
    let cause = connection.probe(deadline).await.unwrap_err();
    assert_cause(&cause, Scope::Broker, ErrorClass::Timeout);
    assert!(Instant::now() < deadline + PROMPT);
    let begun = Instant::now();
    while connection.alive() {
        assert!(begun.elapsed() < Duration::from_secs(30), "still alive");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.resume();
}
