//! Who may connect, and what they may do.

use super::server::{Server, stream};
use super::*;

/// An operator, a user who may publish orders and nothing else, and one who hears no answers.
const USERS: &str = r#"
authorization {
  users = [
    { user: admin, password: admin }
    { user: "o/r:ders", password: "p@ss,w%rd"
      permissions { publish: ["orders.>"], subscribe: ["_INBOX.>", "private.>"] } }
    { user: deaf, password: deaf
      permissions { publish: [">"], subscribe: ["private.>"] } }
  ]
}
"#;

fn url_of(server: &Server, user: &str) -> String {
    format!("nats://{user}@{}", server.address())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_jetstream_is_told() {
    let Some(server) = Server::start_without_jetstream() else { return };
    let cause = no_connection(json!({ "url": server.url() })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Unavailable);
    assert!(cause.text.contains("JetStream"), "{cause}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_told() {
    let Some(server) = Server::start(USERS) else { return };
    for params in [
        json!({ "url": server.url() }),
        json!({ "url": url_of(&server, "admin:wrong-secret") }),
        json!({ "url": server.url(), "user": "admin", "password": "wrong-secret" }),
        json!({ "url": server.url(), "token": "wrong-secret" }),
    ] {
        let cause = no_connection(params).await;
        assert_cause(&cause, Scope::Broker, ErrorClass::Authentication);
        assert!(!cause.text.contains("wrong-secret"), "{cause}");
    }
    connect_with(json!({ "url": server.url(), "user": "admin", "password": "admin" })).await;
    connect_with(json!({ "url": url_of(&server, "admin:admin") })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_url() {
    let Some(server) = Server::start("authorization { token: \"s3cr%t\" }") else { return };
    connect_with(json!({ "url": url_of(&server, "s3cr%25t") })).await;
    connect_with(json!({ "url": server.url(), "token": "s3cr%t" })).await;
    let cause = no_connection(json!({ "url": url_of(&server, "other") })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Authentication);
}

/// The first server that answers serves, whichever of them are down.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_servers_is_enough() {
    let Some(server) = Server::start("") else { return };
    let closed = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    for url in [format!("nats://{closed}, {}", server.url()), format!("{}, nats://{closed}", server.url())] {
        connect(&url).await;
    }
}

/// A user who may only publish can be used: the question about the account is refused, which is an answer too.
/// A subject that is not allowed concerns its destination alone, and is told at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_only_publish() {
    let Some(server) = Server::start(USERS) else { return };
    let jetstream = server.jetstream_as("admin").await;
    jetstream.create_stream(stream("orders")).await.unwrap();
    jetstream.create_stream(stream("billing")).await.unwrap();

    let connection = connect(&url_of(&server, "o%2Fr%3Aders:p%40ss%2Cw%25rd")).await;
    connection.probe(Instant::now() + PATIENCE).await.unwrap();
    let begun = Instant::now();
    let mut batch = messages("orders.new", 9);
    batch.insert(4, message("billing.new", 9));
    batch.insert(6, message("billing.new", 10));
    let outcomes = publish(&*connection, &batch).await;
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    for (message, outcome) in batch.iter().zip(&outcomes) {
        if message.destination["subject"] == "billing.new" {
            let cause = assert_retry(outcome, Scope::Destination, ErrorClass::Authorization);
            assert!(cause.text.contains("`billing.new`"), "{cause}");
        } else {
            assert_confirmed(std::slice::from_ref(outcome));
        }
    }
    assert!(connection.alive());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_hears_no_answers() {
    let Some(server) = Server::start(USERS) else { return };
    let url = url_of(&server, "deaf:deaf");
    let cause = no_connection(json!({ "url": url })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Authorization);
    assert!(cause.text.contains("inbox_prefix"), "{cause}");

    let jetstream = server.jetstream_as("admin").await;
    jetstream.create_stream(stream("orders")).await.unwrap();
    let connection = connect_with(json!({ "url": url, "inbox_prefix": "private.inbox" })).await;
    assert_confirmed(&publish(&*connection, &messages("orders", 3)).await);
}

/// The server says nothing when it closes the connection; the next attempt tells why.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_is_removed() {
    let Some(mut server) = Server::start(USERS) else { return };
    let url = url_of(&server, "admin:admin");
    let connection = connect(&url).await;
    server.reload("authorization { users = [{ user: other, password: other }] }");
    eventually("the connection is over", async || !connection.alive()).await;
    assert!(connection.probe(Instant::now() + PATIENCE).await.is_err());
    let cause = no_connection(json!({ "url": url })).await;
    assert_cause(&cause, Scope::Broker, ErrorClass::Authentication);
}
