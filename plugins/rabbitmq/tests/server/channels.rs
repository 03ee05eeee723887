//! Messages over which the broker closes the channel, with the confirms of their neighbours.

use std::time::Instant;

use lapin::ExchangeKind;
use outrider_broker::{ErrorClass, Message, Outcome, Scope};
use serde_json::json;

use crate::rig::{
    PATIENCE, Server, broker, broker_at, confirmed, connect, ids, manage, message, publish, unique, url,
};

/// A user who may publish to exchanges whose name has no `forbidden` in it. Returns the URL.
fn restricted_user() -> String {
    let user = unique("outrider-test");
    manage("PUT", &format!("/api/users/{user}"), &json!({"password": "pw", "tags": ""}));
    let permissions = json!({"configure": "^$", "write": "^(?!.*forbidden)", "read": ".*"});
    manage("PUT", &format!("/api/permissions/%2F/{user}"), &permissions);
    url(|uri| {
        uri.authority.userinfo.username = user;
        uri.authority.userinfo.password = "pw".to_owned();
    })
}

/// C41: row 5 names a missing exchange, row 9 one without write permission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_exchanges_harm_no_neighbour() {
    let server = Server::new().await;
    let queue = server.quorum_queue().await;
    let exchange = server.exchange(ExchangeKind::Direct).await;
    server.bind(&queue, &exchange, "k").await;
    let forbidden = unique("forbidden");
    server.declare_exchange(&forbidden, ExchangeKind::Direct).await;
    server.bind(&queue, &forbidden, "k").await;
    let missing = unique("missing");

    let connection = connect(&*broker_at(&restricted_user(), json!({}))).await;
    let mut batch: Vec<Message> = (0..20).map(|_| message(&exchange, "k")).collect();
    batch[5] = message(&missing, "k");
    batch[9] = message(&forbidden, "k");
    let outcomes = publish(&*connection, &batch).await;

    for (index, class, code) in
        [(5, ErrorClass::UnknownDestination, "404"), (9, ErrorClass::Authorization, "403")]
    {
        let Outcome::Retry(cause) = &outcomes[index] else { panic!("row {index}: {:?}", outcomes[index]) };
        assert_eq!((cause.scope, cause.class), (Scope::Destination, class), "{cause}");
        assert!(cause.text.contains(code), "{cause}");
    }
    let good: Vec<&Message> =
        batch.iter().enumerate().filter(|(index, _)| ![5, 9].contains(index)).map(|(_, one)| one).collect();
    assert_eq!(outcomes.iter().filter(|outcome| confirmed(outcome)).count(), 18, "{outcomes:?}");
    assert_eq!(server.ids(&queue).await, ids(good), "each of the 18 once");
    assert!(connection.alive());

    // The remedy of the text helps without a new connection.
    server.declare_exchange(&missing, ExchangeKind::Direct).await;
    server.bind(&queue, &missing, "k").await;
    assert!(confirmed(&publish(&*connection, &batch[5..6]).await[0]));
}

/// Many rows for one missing exchange: one asks the broker, none is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_exchange_leaves_nothing_unknown() {
    let server = Server::new().await;
    let queue = server.quorum_queue().await;
    let connection = connect(&*broker(json!({}))).await;
    let missing = unique("missing");
    let batch: Vec<Message> = (0..40)
        .map(|index| if index % 2 == 0 { message(&missing, "k") } else { message("", &queue) })
        .collect();
    let outcomes = publish(&*connection, &batch).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        let right = match (index, outcome) {
            (0, Outcome::Retry(cause)) => cause.class == ErrorClass::UnknownDestination,
            (_, Outcome::NotSent(cause)) if index % 2 == 0 => {
                cause.class == ErrorClass::UnknownDestination && cause.scope == Scope::Destination
            }
            (_, outcome) => index % 2 == 1 && confirmed(outcome),
        };
        assert!(right, "row {index}: {outcome:?}");
    }
}

/// Publishes until nothing is left to retry; returns the outcomes of the messages that never get through.
async fn settle_down(
    connection: &dyn outrider_broker::Connection,
    batch: &[Message],
) -> Vec<(Message, Outcome)> {
    let mut left = batch.to_vec();
    let mut last = Vec::new();
    for _ in 0..3 {
        let outcomes = publish(connection, &left).await;
        last = left.into_iter().zip(outcomes).filter(|(_, outcome)| !confirmed(outcome)).collect();
        left = last.iter().map(|(one, _)| one.clone()).collect();
    }
    last
}

/// C41: the exchange disappears after it has been used, so that nothing could be known beforehand. What lost
/// its confirm is unknown, nobody hangs, and the next attempt sorts it out.
async fn an_exchange_disappears(name: &str) {
    let server = Server::new().await;
    let queue = server.quorum_queue().await;
    let connection = connect(&*broker(json!({}))).await;
    server.declare_exchange(name, ExchangeKind::Direct).await;
    server.bind(&queue, name, "k").await;
    let first = [message(name, "k"), message("", &queue)];
    assert!(publish(&*connection, &first).await.iter().all(confirmed));
    server.drain(&queue).await;
    server.delete_exchange(name).await;

    let mut batch: Vec<Message> = (0..20).map(|_| message("", &queue)).collect();
    batch[5] = message(name, "k");
    let begun = Instant::now();
    let outcomes = publish(&*connection, &batch).await;
    assert!(begun.elapsed() < PATIENCE / 2, "lost confirms have to be noticed, not waited for");
    for (index, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Outcome::Confirmed(_) => assert_ne!(index, 5),
            Outcome::Unknown(cause) if index == 5 => assert!(cause.text.contains("404"), "{cause}"),
            Outcome::Unknown(cause) | Outcome::NotSent(cause) => {
                assert_eq!(cause.scope, Scope::Event, "{cause}")
            }
            other => panic!("row {index}: {other:?}"),
        }
    }
    assert!(connection.alive());

    let left = settle_down(&*connection, &batch).await;
    let [(culprit, Outcome::Retry(cause))] = left.as_slice() else { panic!("{left:?}") };
    assert_eq!(culprit.id, batch[5].id);
    assert_eq!(cause.class, ErrorClass::UnknownDestination, "{cause}");
    let mut arrived = server.ids(&queue).await;
    arrived.dedup();
    assert_eq!(arrived, ids(batch.iter().filter(|one| one.id != culprit.id)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_disappears_and_the_reply_names_it() {
    an_exchange_disappears(&unique("outrider-test")).await;
}

/// The broker cuts its reply off after 255 bytes, and so the name: each suspect then travels alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exchange_disappears_and_the_reply_names_nobody() {
    let name = unique("outrider-test");
    an_exchange_disappears(&format!("{name}-{}", "x".repeat(250 - name.len()))).await;
}
