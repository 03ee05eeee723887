//! The suite that every plugin runs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use lapin::ExchangeKind;
use lapin::types::AMQPValue;
use outrider_broker::{Message, Params, Plugin};
use outrider_broker_testkit::{Features, Harness, MARKER, Received, To, exercise};
use outrider_rabbitmq::RabbitMqPlugin;
use serde_json::json;

use crate::rig::{Server, server_address, unique, url};

/// Small, for the suite sends one byte more.
const SIZE_LIMIT: usize = 1 << 20;

struct RabbitMq {
    server: Server,
}

impl RabbitMq {
    fn params_for(url: &str) -> Params {
        let params =
            json!({"url": url, "max_message_bytes": SIZE_LIMIT, "heartbeat": "5s", "unroutable": "wait"});
        params.as_object().cloned().expect("an object")
    }
}

#[async_trait]
impl Harness for RabbitMq {
    fn plugin(&self) -> &dyn Plugin {
        &RabbitMqPlugin
    }

    /// AMQP has no place for a key but the routing key, and a header table has no order.
    fn features(&self) -> Features {
        Features { key: false, header_order: false, removes_duplicates: false, ..Features::ALL }
    }

    fn params(&self) -> Params {
        Self::params_for(&url(|_| {}))
    }

    fn new_destination(&self) -> To {
        let name = unique("outrider-suite");
        [("exchange", name.clone()), ("routing_key", format!("{name}.queue"))]
            .map(|(key, value)| (key.to_owned(), value))
            .into()
    }

    async fn create(&self, to: &To) {
        let (exchange, queue) = (&to["exchange"], &to["routing_key"]);
        self.server.declare_exchange(exchange, ExchangeKind::Direct).await;
        self.server.declare_queue(queue, &[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await;
        self.server.bind(queue, exchange, queue).await;
    }

    async fn read(&self, to: &To, count: usize, deadline: Instant) -> Vec<Received> {
        let mut received = Vec::new();
        while received.len() < count && Instant::now() < deadline {
            for (properties, payload) in self.server.drain(&to["routing_key"]).await {
                let headers =
                    properties.headers().as_ref().map(|table| table.inner().clone()).unwrap_or_default();
                received.push(Received {
                    id: properties.message_id().as_ref().map(|id| id.to_string()),
                    key: None,
                    kind: properties.kind().as_ref().map(|kind| kind.to_string()),
                    content_type: properties.content_type().as_ref().map(|kind| kind.to_string()),
                    headers: headers
                        .into_iter()
                        .map(|(name, value)| (name.to_string(), text(&value)))
                        .collect(),
                    payload: payload.into(),
                });
            }
        }
        received
    }

    fn params_at(&self, address: SocketAddr) -> Option<Params> {
        Some(Self::params_for(&url(|uri| {
            uri.authority.host = address.ip().to_string();
            uri.authority.port = address.port();
            uri.authority.userinfo.password = MARKER.to_owned();
        })))
    }

    fn params_with_wrong_credentials(&self) -> Option<Params> {
        Some(Self::params_for(&url(|uri| uri.authority.userinfo.password = MARKER.to_owned())))
    }

    fn server_address(&self) -> Option<SocketAddr> {
        Some(server_address())
    }

    fn params_through(&self, address: SocketAddr) -> Option<Params> {
        Some(Self::params_for(&url(|uri| {
            uri.authority.host = address.ip().to_string();
            uri.authority.port = address.port();
        })))
    }

    fn size_limit(&self) -> Option<usize> {
        Some(SIZE_LIMIT)
    }

    /// C44, and what else would end the channel or the connection.
    fn invalid(&self) -> Vec<(&'static str, fn(&mut Message))> {
        fn redirect(message: &mut Message, part: &str, value: String) {
            let destination: &mut BTreeMap<_, _> = Arc::make_mut(&mut message.destination);
            destination.insert(part.to_owned(), value);
        }
        vec![
            ("routing key of 256 bytes", |message| redirect(message, "routing_key", "r".repeat(256))),
            ("routing key of 100 three-byte characters", |message| {
                redirect(message, "routing_key", "世".repeat(100));
            }),
            ("exchange of 256 bytes", |message| redirect(message, "exchange", "e".repeat(256))),
            ("type of 256 bytes", |message| message.kind = "t".repeat(256).into()),
            ("content type of 256 bytes", |message| message.content_type = "c".repeat(256).into()),
            ("header name of 256 bytes", |message| {
                message.headers.push(("h".repeat(256).into(), MARKER.to_owned()));
            }),
            ("headers over one frame", |message| {
                message.headers.push(("x-long".into(), "v".repeat(200_000)));
            }),
            ("header CC", |message| message.headers.push(("CC".into(), MARKER.to_owned()))),
            ("header BCC", |message| message.headers.push(("BCC".into(), MARKER.to_owned()))),
        ]
    }
}

/// The plugin sends text alone; a quorum queue adds `x-delivery-count`, a number.
fn text(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongLongInt(number) => number.to_string(),
        AMQPValue::LongString(text) => String::from_utf8(text.as_bytes().to_vec()).expect("UTF-8"),
        other => panic!("a header came back as {other:?} and not as text"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conformance() {
    exercise(&RabbitMq { server: Server::new().await }).await;
}
