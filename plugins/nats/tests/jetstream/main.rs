//! What only JetStream has: acknowledgements that get lost, streams that are missing or full, limits, permissions.
//! Against private servers; the ids are those of the failure cases that a test reproduces.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod deaf_proxy;
mod duplicates;
mod keys;
mod limits;
mod outages;
mod server;
mod streams;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use outrider_broker::{
    Broker, Cause, ConnectOptions, Connection, ErrorClass, Message, Outcome, Params, Plugin, Refusal, Scope,
};
use outrider_nats::Nats;
use serde_json::{Value, json};
use uuid::Uuid;

/// For what a healthy server answers at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// What "at once" may take on a busy machine.
const PROMPT: Duration = Duration::from_secs(5);

fn broker(params: Value) -> Arc<dyn Broker> {
    let Value::Object(params) = params else { panic!("parameters are a table") };
    Nats.parse(&Params::from_iter(params)).unwrap()
}

fn options() -> ConnectOptions {
    ConnectOptions { client_name: "outrider/test".to_owned(), timeout: PATIENCE, publish_deadline: PATIENCE }
}

async fn connect(url: &str) -> Arc<dyn Connection> {
    connect_with(json!({ "url": url })).await
}

async fn connect_with(params: Value) -> Arc<dyn Connection> {
    broker(params).connect(options()).await.unwrap()
}

/// Why a connection with these parameters can't be made.
async fn no_connection(params: Value) -> Cause {
    match broker(params).connect(options()).await {
        Ok(_) => panic!("connected"),
        Err(error) => error.0,
    }
}

fn message(subject: &str, seq: i64) -> Message {
    Message {
        id: Uuid::now_v7(),
        seq,
        destination: Arc::new(BTreeMap::from([("subject".to_owned(), subject.to_owned())])),
        key: None,
        kind: Arc::from("test.event.v1"),
        content_type: Arc::from("text/plain"),
        occurred_at: SystemTime::now(),
        headers: vec![(Arc::from("ce_type"), "test.event.v1".to_owned())],
        payload: Bytes::from(format!("payload {seq}")),
        redelivery: false,
    }
}

fn messages(subject: &str, count: i64) -> Vec<Message> {
    (0..count).map(|seq| message(subject, seq)).collect()
}

async fn publish(connection: &dyn Connection, batch: &[Message]) -> Vec<Outcome> {
    connection.publish(batch.to_vec(), Instant::now() + PATIENCE).await
}

async fn publish_one(connection: &dyn Connection, message: &Message) -> Outcome {
    publish(connection, std::slice::from_ref(message)).await.remove(0)
}

fn assert_confirmed(outcomes: &[Outcome]) {
    for outcome in outcomes {
        assert!(matches!(outcome, Outcome::Confirmed(_)), "{outcome:?}");
    }
}

fn assert_cause(cause: &Cause, scope: Scope, class: ErrorClass) {
    assert_eq!((cause.scope, cause.class), (scope, class), "{cause}");
}

#[track_caller]
fn assert_retry(outcome: &Outcome, scope: Scope, class: ErrorClass) -> &Cause {
    let Outcome::Retry(cause) = outcome else { panic!("{outcome:?}") };
    assert_cause(cause, scope, class);
    cause
}

#[track_caller]
fn assert_too_large(outcome: &Outcome) -> &str {
    let Outcome::Refused(Refusal { cause, permanent: true }) = outcome else { panic!("{outcome:?}") };
    assert_cause(cause, Scope::Event, ErrorClass::TooLarge);
    &cause.text
}

/// Waits until the condition holds.
async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
