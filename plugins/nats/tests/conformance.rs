//! The conformance suite against a real server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use async_nats::jetstream;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::jetstream::stream;
use futures_util::StreamExt;
use outrider_broker::{Message, Params, Plugin, async_trait};
use outrider_broker_testkit::{Features, Harness, MARKER, Received, To, exercise};
use outrider_nats::Nats;
use serde_json::json;
use uuid::Uuid;

struct Server {
    url: String,
}

impl Server {
    async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(&self.url).await.expect("the test server answers"))
    }
}

fn params(url: String) -> Params {
    Params::from_iter([("url".to_owned(), json!(url))])
}

/// Every destination has a stream of its own, named like its subject.
fn subject(to: &To) -> &str {
    &to["subject"]
}

#[async_trait]
impl Harness for Server {
    fn plugin(&self) -> &dyn Plugin {
        &Nats
    }

    fn features(&self) -> Features {
        Features { key: false, kind: false, header_order: false, ..Features::ALL }
    }

    fn params(&self) -> Params {
        params(self.url.clone())
    }

    fn new_destination(&self) -> To {
        BTreeMap::from([("subject".to_owned(), format!("conformance-{}", Uuid::now_v7()))])
    }

    async fn create(&self, to: &To) {
        let name = subject(to).to_owned();
        let config = stream::Config { subjects: vec![name.clone()], name, ..Default::default() };
        self.jetstream().await.create_stream(config).await.expect("a stream can be made");
    }

    async fn read(&self, to: &To, count: usize, deadline: Instant) -> Vec<Received> {
        let jetstream = self.jetstream().await;
        let mut stream = jetstream.get_stream(subject(to)).await.expect("the stream is there");
        let consumer = stream
            .create_consumer(pull::Config { ack_policy: AckPolicy::None, ..Default::default() })
            .await
            .expect("a consumer can be made");
        let mut messages = consumer.messages().await.expect("messages can be asked for");
        let mut received = Vec::new();
        // Everything that is there, which may be more than was asked for: what was confirmed is stored by now.
        let stored = stream.info().await.expect("the stream is there").state.messages as usize;
        while received.len() < stored.max(count) {
            match tokio::time::timeout_at(deadline.into(), messages.next()).await {
                Ok(Some(message)) => received.push(read(message.expect("a message can be read"))),
                Ok(None) | Err(_) => break,
            }
        }
        jetstream.delete_stream(subject(to)).await.expect("the stream can be removed");
        received
    }

    fn params_at(&self, address: SocketAddr) -> Option<Params> {
        Some(params(format!("nats://outrider:{MARKER}@{address}")))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        let address = self.url.strip_prefix("nats://").expect("a `nats://` url");
        Some(address.parse().expect("an IP address and a port"))
    }

    fn params_through(&self, address: SocketAddr) -> Option<Params> {
        Some(params(format!("nats://{address}")))
    }

    fn size_limit(&self) -> Option<usize> {
        Some(1024 * 1024)
    }

    fn invalid(&self) -> Vec<(&'static str, fn(&mut Message))> {
        vec![
            ("empty subject", |message| to(message, "")),
            ("white space in the subject", |message| to(message, "orders.new x.y")),
            ("command in the subject", |message| to(message, "orders 2\r\nhi\r\nPUB orders 2\r\n")),
            ("empty token", |message| to(message, "a..b")),
            ("token wildcard", |message| to(message, "a.*")),
            ("tail wildcard", |message| to(message, "a.>")),
            ("system subject", |message| to(message, "$SYS.x")),
            ("JetStream's API", |message| to(message, "$JS.API.STREAM.PURGE.x")),
            ("inbox", |message| to(message, "_INBOX.x")),
            ("subject of 2 kB", |message| to(message, &"a".repeat(2048))),
            ("no subject", |message| message.destination = Arc::default()),
            ("line break in a header", |message| header(message, "x-note", "a\r\nNats-Rollup: all")),
            ("NUL in a header", |message| header(message, "x-note", "a\0b")),
            ("white space in a header's name", |message| header(message, "x note", "a")),
            ("colon in a header's name", |message| header(message, "x:note", "a")),
            ("empty header name", |message| header(message, "", "a")),
            ("header that commands the server", |message| header(message, "nats-rollup", "all")),
            ("line break in the content type", |message| message.content_type = Arc::from("a/b\r\nc: d")),
        ]
    }
}

fn read(message: jetstream::Message) -> Received {
    let headers: Vec<(String, String)> = message
        .headers
        .iter()
        .flat_map(|headers| headers.iter())
        .flat_map(|(name, values)| values.iter().map(move |value| (name.to_string(), value.to_string())))
        .collect();
    let mut received = Received { headers, payload: message.payload.clone(), ..Received::default() };
    received.id = received.header("Nats-Msg-Id").map(str::to_owned);
    received.content_type = received.header("Content-Type").map(str::to_owned);
    received
}

fn to(message: &mut Message, subject: &str) {
    message.destination = Arc::new(BTreeMap::from([("subject".to_owned(), subject.to_owned())]));
}

fn header(message: &mut Message, name: &str, value: &str) {
    message.headers.push((Arc::from(name), value.to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance() {
    exercise(&Server { url: outrider_servers::address::nats() }).await;
}
