//! Connections that break, or fall silent without breaking.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outrider_broker::{Broker, Connection, ErrorClass, Message, Outcome, Scope};
use outrider_broker_testkit::proxy::{Mode, Proxy};
use serde_json::json;

use crate::rig::{
    Server, broker_at, confirmed, ids, message, options, publish, server_address, sized, until, url,
};

const DEADLINE: Duration = Duration::from_secs(1);

/// A broker behind a proxy.
async fn behind() -> (Proxy, Arc<dyn Broker>) {
    let proxy = Proxy::start(server_address()).await.expect("a loopback port");
    let through = url(|uri| {
        uri.authority.host = proxy.address().ip().to_string();
        uri.authority.port = proxy.address().port();
    });
    (proxy, broker_at(&through, json!({"heartbeat": "30s"})))
}

async fn connect(broker: &dyn Broker) -> Arc<dyn Connection> {
    broker.connect(options(DEADLINE)).await.expect("the test server takes connections")
}

/// C47: half open. The deadline holds, and the loss is noticed long before two heartbeats.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_noticed() {
    let server = Server::new().await;
    let queue = server.quorum_queue().await;
    let (proxy, broker) = behind().await;
    let connection = connect(&*broker).await;
    assert!(confirmed(&publish(&*connection, &[message("", &queue)]).await[0]));
    server.drain(&queue).await;

    proxy.set(Mode::BlackHole);
    let batch: Vec<Message> = (0..10).map(|_| message("", &queue)).collect();
    let deadline = Instant::now() + DEADLINE;
    let outcomes = connection.publish(batch.clone(), deadline).await;
    assert!(Instant::now() < deadline + Duration::from_millis(500), "late by {:?}", deadline.elapsed());
    for outcome in &outcomes {
        let Outcome::Unknown(cause) = outcome else { panic!("{outcome:?}") };
        assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Timeout), "{cause}");
    }
    until(3 * DEADLINE, "a dead connection says so", || !connection.alive()).await;

    // One reconnect, and every message is there under its own id.
    proxy.set(Mode::Pass);
    let connection = connect(&*broker).await;
    assert!(publish(&*connection, &batch).await.iter().all(confirmed));
    let mut arrived = server.ids(&queue).await;
    arrived.dedup();
    assert_eq!(arrived, ids(&batch));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_of_a_silent_server_ends_the_connection() {
    let (proxy, broker) = behind().await;
    let connection = connect(&*broker).await;
    connection.probe(Instant::now() + DEADLINE).await.expect("a live server answers");
    proxy.set(Mode::BlackHole);
    let deadline = Instant::now() + DEADLINE;
    let cause = connection.probe(deadline).await.expect_err("a silent server can't answer");
    assert!(Instant::now() < deadline + Duration::from_millis(500));
    assert_eq!(cause.class, ErrorClass::Timeout, "{cause}");
    assert!(!connection.alive());
}

/// A cut is noticed at once, and what was in flight is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_leaves_the_batch_unknown() {
    let server = Server::new().await;
    let queue = server.quorum_queue().await;
    let (proxy, broker) = behind().await;
    let connection = broker.connect(options(Duration::from_secs(30))).await.unwrap();
    assert!(confirmed(&publish(&*connection, &[message("", &queue)]).await[0]));

    proxy.set(Mode::BlackHole);
    let batch: Vec<Message> = (0..50).map(|_| message("", &queue)).collect();
    let begun = Instant::now();
    let publishing = tokio::spawn({
        let (connection, batch) = (Arc::clone(&connection), batch.clone());
        async move { connection.publish(batch, Instant::now() + Duration::from_secs(30)).await }
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    proxy.cut();
    let outcomes = publishing.await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    for outcome in &outcomes {
        let (Outcome::Unknown(cause) | Outcome::NotSent(cause)) = outcome else { panic!("{outcome:?}") };
        assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Unreachable), "{cause}");
    }
    assert!(outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unknown(_))));
    assert!(!connection.alive());
}

/// More than the sockets hold, so that frames are still with the client when time runs out: they must not
/// leave later, when the server reads again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_written_in_time_never_leaves() {
    let server = Server::new().await;
    let queue = server.quorum_queue().await;
    let (proxy, broker) = behind().await;
    let connection = connect(&*broker).await;
    assert!(confirmed(&publish(&*connection, &[message("", &queue)]).await[0]));
    server.drain(&queue).await;

    proxy.set(Mode::BlackHole);
    let batch: Vec<Message> = (0..40).map(|_| sized("", &queue, 1 << 20)).collect();
    let deadline = Instant::now() + DEADLINE;
    let outcomes = connection.publish(batch.clone(), deadline).await;
    assert!(Instant::now() < deadline + Duration::from_millis(500), "late by {:?}", deadline.elapsed());
    assert!(!connection.alive(), "a connection that holds frames back has to end");
    let not_sent: Vec<&Message> = batch
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| matches!(outcome, Outcome::NotSent(_)))
        .map(|(one, _)| one)
        .collect();
    assert!(!not_sent.is_empty(), "40 MiB in socket buffers?");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::NotSent(_) | Outcome::Unknown(_))));

    // What was called unknown may turn up, what was called not sent must not.
    proxy.set(Mode::Pass);
    let fresh = connect(&*broker).await;
    let last = message("", &queue);
    assert!(confirmed(&publish(&*fresh, std::slice::from_ref(&last)).await[0]));
    let arrived = server.ids(&queue).await;
    assert!(arrived.contains(&last.id.to_string()));
    for one in not_sent {
        assert!(!arrived.contains(&one.id.to_string()), "{one:?} left after it was called not sent");
    }
}
