//! Sizes at their limits: what AMQP can just carry arrives, and one byte more is refused before the wire.

use std::sync::Arc;

use outrider_broker::{ErrorClass, Message, Outcome};
use serde_json::json;

use crate::rig::{Server, broker, confirmed, connect, ids, message, publish, unique};

/// C44: 255 bytes everywhere. (256 bytes are in the conformance suite, as what is invalid.)
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_strings_of_255_bytes_arrive() {
    let server = Server::new().await;
    let connection = connect(&*broker(json!({}))).await;
    let name = unique("outrider-test");
    let queue = format!("{name}-{}", "q".repeat(254 - name.len()));
    assert_eq!(queue.len(), 255);
    server.declare_queue(&queue, &[]).await;
    let mut one = message("", &queue);
    // 85 characters of three bytes
    one.kind = Arc::from("世".repeat(85));
    one.content_type = Arc::from("c".repeat(255));
    one.headers.push((Arc::from("h".repeat(255)), "value".to_owned()));
    let outcomes = publish(&*connection, std::slice::from_ref(&one)).await;
    assert!(confirmed(&outcomes[0]), "{outcomes:?}");
    let [(properties, payload)] = &server.drain(&queue).await[..] else { panic!("one message") };
    assert_eq!(properties.kind().as_ref().unwrap().as_str(), &*one.kind);
    assert_eq!(properties.content_type().as_ref().unwrap().as_str(), &*one.content_type);
    assert!(properties.headers().as_ref().unwrap().inner().keys().any(|key| key.as_str().len() == 255));
    assert_eq!(payload, &one.payload[..]);
    server.delete_queue(&queue).await;
}

/// Properties travel in one frame. The largest that fit arrive, also at a consumer's, and the connection stays up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_fill_a_frame() {
    let server = Server::new().await;
    let connection = connect(&*broker(json!({}))).await;
    let queue = server.quorum_queue().await;
    let with_header = |bytes: usize| {
        let headers = vec![(Arc::from("x-long"), "v".repeat(bytes))];
        Message { headers, ..message("", &queue) }
    };
    // The refusal says how large the whole is, and so how much fits.
    let frame = 131_072;
    let outcomes = publish(&*connection, &[with_header(frame)]).await;
    let Outcome::Refused(refusal) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(refusal.permanent && refusal.cause.class == ErrorClass::TooLarge, "{refusal:?}");
    let numbers: Vec<usize> = refusal
        .cause
        .text
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect();
    let fits = frame - (numbers[0] - numbers[1]);

    let batch = [with_header(fits), with_header(fits + 1), message("", &queue)];
    let outcomes = publish(&*connection, &batch).await;
    assert!(confirmed(&outcomes[0]) && confirmed(&outcomes[2]), "{:?}", &outcomes);
    assert!(matches!(&outcomes[1], Outcome::Refused(refusal) if refusal.permanent), "{:?}", outcomes[1]);
    assert_eq!(server.ids(&queue).await, ids([&batch[0], &batch[2]]));
    assert!(connection.alive());
}

/// What a consumer sees besides the payload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn properties_say_what_the_event_is() {
    let server = Server::new().await;
    let queue = server.queue(&[]).await;
    for (persistent, mode) in [(true, Some(2)), (false, None)] {
        let connection = connect(&*broker(json!({"persistent": persistent}))).await;
        let one = message("", &queue);
        assert!(confirmed(&publish(&*connection, std::slice::from_ref(&one)).await[0]));
        let [(properties, _)] = &server.drain(&queue).await[..] else { panic!("one message") };
        assert_eq!(properties.delivery_mode().unwrap_or(1), mode.unwrap_or(1));
        assert_eq!(properties.app_id().as_ref().unwrap().as_str(), "outrider");
        let seconds = one.occurred_at.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(*properties.timestamp(), Some(seconds));
    }
}
