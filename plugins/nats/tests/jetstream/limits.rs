//! C53: sizes. Headers count, and one message too many costs its neighbours nothing.

use super::server::{Server, stored, stream};
use super::*;

const LIMIT: usize = 64 * 1024;

/// A message whose payload and headers are `size` bytes together on the wire.
async fn of_size(connection: &dyn Connection, size: usize) -> Message {
    let mut message = message("orders", 7);
    // The text of a refusal says what a payload of the limit comes to.
    message.payload = vec![b'x'; LIMIT].into();
    let outcome = publish_one(connection, &message).await;
    let whole = numbers(assert_too_large(&outcome))[0];
    message.payload = vec![b'x'; size - (whole - LIMIT)].into();
    message
}

fn numbers(text: &str) -> Vec<usize> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_count_and_neighbours_get_through() {
    let Some(server) = Server::start(&format!("max_payload: {LIMIT}")) else { return };
    let jetstream = server.jetstream().await;
    jetstream.create_stream(stream("orders")).await.unwrap();
    let connection = connect(&server.url()).await;

    let mut batch = messages("orders", 9);
    batch[4].payload = vec![b'x'; LIMIT - 10].into();
    batch[4].headers.push((Arc::from("x-note"), "n".repeat(200)));
    let mut outcomes = publish(&*connection, &batch).await;
    let refused = outcomes.remove(4);
    assert_eq!(numbers(assert_too_large(&refused))[1], LIMIT);
    assert_confirmed(&outcomes);

    // The very limit is not over it, for us and for the server.
    let fits = of_size(&*connection, LIMIT).await;
    assert_confirmed(&publish(&*connection, &[fits]).await);
    let over = of_size(&*connection, LIMIT + 1).await;
    assert_eq!(numbers(assert_too_large(&publish_one(&*connection, &over).await)), [LIMIT + 1, LIMIT]);
    assert_eq!(stored(&jetstream, "orders").await, 9);
    assert!(connection.alive());
}

/// The server closes the connection over a message that its lowered limit forbids. The next connection knows the
/// new limit, so it happens once.
#[tokio::test(flavor = "multi_thread")]
async fn a_lowered_limit_is_learned() {
    let Some(mut server) = Server::start(&format!("max_payload: {LIMIT}")) else { return };
    server.jetstream().await.create_stream(stream("orders")).await.unwrap();
    let connection = connect(&server.url()).await;
    let mut large = message("orders", 1);
    large.payload = vec![b'x'; LIMIT / 2].into();

    server.reload(&format!("max_payload: {}", LIMIT / 4));
    // Each copy is acknowledged until the server has read its config.
    let mut last = None;
    eventually("the server has the new limit", async || {
        last = Some(publish_one(&*connection, &large).await);
        !matches!(last, Some(Outcome::Confirmed(_)))
    })
    .await;
    assert!(matches!(last, Some(Outcome::Unknown(_))), "{last:?}");
    assert!(!connection.alive());

    let connection = connect(&server.url()).await;
    let outcome = publish_one(&*connection, &large).await;
    assert_eq!(numbers(assert_too_large(&outcome))[1], LIMIT / 4);
    assert_confirmed(&publish(&*connection, &messages("orders", 3)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streams_own_limit_refuses_for_good() {
    let Some(server) = Server::start("") else { return };
    let config = async_nats::jetstream::stream::Config { max_message_size: 1000, ..stream("orders") };
    server.jetstream().await.create_stream(config).await.unwrap();
    let connection = connect(&server.url()).await;
    let mut batch = messages("orders", 3);
    batch[1].payload = vec![b'x'; 2000].into();
    let mut outcomes = publish(&*connection, &batch).await;
    let refused = outcomes.remove(1);
    assert!(assert_too_large(&refused).contains("max_msg_size"));
    assert_confirmed(&outcomes);
}
