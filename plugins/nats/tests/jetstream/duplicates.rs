//! The stream's window of message ids.

use super::server::{Server, stored, stream};
use super::*;

/// C56: inside the window a second copy is acknowledged and not stored; after it, it is stored again; another id
/// is another message.
#[tokio::test(flavor = "multi_thread")]
async fn duplicates_are_told_and_count_as_sent() {
    let Some(server) = Server::start("") else { return };
    let jetstream = server.jetstream().await;
    let window = Duration::from_secs(5);
    let config = async_nats::jetstream::stream::Config { duplicate_window: window, ..stream("orders") };
    jetstream.create_stream(config).await.unwrap();
    let connection = connect(&server.url()).await;

    let mut first = message("orders", 1);
    let first_copy = Instant::now();
    let receipt = |outcome: Outcome| match outcome {
        Outcome::Confirmed(receipt) => receipt,
        other => panic!("{other:?}"),
    };
    let stored_first = receipt(publish_one(&*connection, &first).await);
    assert_eq!((stored_first.position.as_deref(), stored_first.duplicate), (Some("1"), false));
    let again = receipt(publish_one(&*connection, &first).await);
    assert!(first_copy.elapsed() < window, "the machine was too slow for this test");
    assert_eq!((again.position.as_deref(), again.duplicate), (Some("1"), true));
    assert_eq!(stored(&jetstream, "orders").await, 1);

    let replay = Message { id: Uuid::now_v7(), ..first.clone() };
    assert!(!receipt(publish_one(&*connection, &replay).await).duplicate);
    assert_eq!(stored(&jetstream, "orders").await, 2);

    first.redelivery = true;
    eventually("the window is over", async || !receipt(publish_one(&*connection, &first).await).duplicate)
        .await;
    assert_eq!(stored(&jetstream, "orders").await, 3);
}
