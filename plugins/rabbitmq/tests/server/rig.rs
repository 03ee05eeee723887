//! What the tests share: brokers and connections of the plugin, messages, and the consumer's side of the server.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, ConnectionProperties, ExchangeKind};
use outrider_broker::{Broker, ConnectOptions, Connection, Message, Outcome, Plugin};
use outrider_rabbitmq::RabbitMqPlugin;
use serde_json::{Value, json};
use uuid::Uuid;

/// Time for one batch, by far more than the server needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn uri() -> AMQPUri {
    outrider_servers::address::rabbitmq().parse().expect("the test server's URL is an AMQP URL")
}

/// The server's URL, changed.
pub(crate) fn url(change: impl FnOnce(&mut AMQPUri)) -> String {
    let mut uri = uri();
    change(&mut uri);
    uri.to_string()
}

pub(crate) fn server_address() -> SocketAddr {
    let authority = uri().authority;
    let mut addresses = std::net::ToSocketAddrs::to_socket_addrs(&(authority.host, authority.port))
        .expect("the server's address");
    addresses.next().expect("the server has an address")
}

pub(crate) fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", Uuid::new_v4().simple())
}

/// A broker of the plugin with `extra` parameters.
pub(crate) fn broker_at(url: &str, extra: Value) -> Arc<dyn Broker> {
    let mut params = extra.as_object().cloned().expect("parameters are an object");
    params.insert("url".to_owned(), json!(url));
    RabbitMqPlugin.parse(&params).expect("good parameters")
}

pub(crate) fn broker(extra: Value) -> Arc<dyn Broker> {
    broker_at(&url(|_| {}), extra)
}

pub(crate) fn options(publish_deadline: Duration) -> ConnectOptions {
    ConnectOptions { client_name: "outrider/test".to_owned(), timeout: PATIENCE, publish_deadline }
}

pub(crate) async fn connect(broker: &dyn Broker) -> Arc<dyn Connection> {
    broker.connect(options(PATIENCE)).await.expect("the test server takes connections")
}

pub(crate) fn message(exchange: &str, routing_key: &str) -> Message {
    let destination: BTreeMap<String, String> = [("exchange", exchange), ("routing_key", routing_key)]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into();
    Message {
        id: Uuid::now_v7(),
        seq: 1,
        destination: Arc::new(destination),
        key: None,
        kind: Arc::from("test.thing-happened.v1"),
        content_type: Arc::from("application/octet-stream"),
        occurred_at: SystemTime::now(),
        headers: Vec::new(),
        payload: Bytes::from_static(b"payload"),
        redelivery: false,
    }
}

pub(crate) fn sized(exchange: &str, routing_key: &str, bytes: usize) -> Message {
    Message { payload: vec![7; bytes].into(), ..message(exchange, routing_key) }
}

/// Publishes with time enough. One outcome for each message.
pub(crate) async fn publish(connection: &dyn Connection, batch: &[Message]) -> Vec<Outcome> {
    let outcomes = connection.publish(batch.to_vec(), Instant::now() + PATIENCE).await;
    assert_eq!(outcomes.len(), batch.len());
    outcomes
}

pub(crate) fn confirmed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Confirmed(_))
}

/// Waits until `holds`, up to `limit`.
pub(crate) async fn until(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The consumer's side.
pub(crate) struct Server {
    // Ends the channel when dropped.
    _connection: lapin::Connection,
    pub(crate) channel: Channel,
}

impl Server {
    pub(crate) async fn new() -> Self {
        Server::at(&url(|_| {})).await
    }

    pub(crate) async fn at(url: &str) -> Self {
        let connection =
            lapin::Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
        let channel = connection.create_channel().await.expect("channel");
        Server { _connection: connection, channel }
    }

    /// A queue of a new name that goes away by itself when it is not used any more.
    pub(crate) async fn queue(&self, arguments: &[(&str, AMQPValue)]) -> String {
        let name = unique("outrider-test");
        self.declare_queue(&name, arguments).await;
        name
    }

    pub(crate) async fn declare_queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        table.insert("x-expires".into(), AMQPValue::LongInt(600_000));
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        self.channel.queue_declare(name.into(), options, table).await.expect("declare a queue");
    }

    pub(crate) async fn quorum_queue(&self) -> String {
        self.queue(&[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await
    }

    /// An exchange of a new name that goes away with its last binding.
    pub(crate) async fn exchange(&self, kind: ExchangeKind) -> String {
        let name = unique("outrider-test");
        self.declare_exchange(&name, kind).await;
        name
    }

    pub(crate) async fn declare_exchange(&self, name: &str, kind: ExchangeKind) {
        let options = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
        self.channel
            .exchange_declare(name.into(), kind, options, FieldTable::default())
            .await
            .expect("declare an exchange");
    }

    pub(crate) async fn delete_exchange(&self, name: &str) {
        self.channel.exchange_delete(name.into(), ExchangeDeleteOptions::default()).await.expect("delete");
    }

    pub(crate) async fn delete_queue(&self, name: &str) {
        self.channel.queue_delete(name.into(), QueueDeleteOptions::default()).await.expect("delete");
    }

    pub(crate) async fn bind(&self, queue: &str, exchange: &str, routing_key: &str) {
        let (queue, exchange, routing_key) = (queue.into(), exchange.into(), routing_key.into());
        let bound = self.channel.queue_bind(
            queue,
            exchange,
            routing_key,
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bound.await.expect("bind");
    }

    /// Takes everything out of a queue: properties and payloads.
    pub(crate) async fn drain(&self, queue: &str) -> Vec<(BasicProperties, Vec<u8>)> {
        let mut taken = Vec::new();
        while let Some(got) =
            self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.expect("get")
        {
            taken.push((got.delivery.properties, got.delivery.data));
        }
        taken
    }

    /// Takes everything out of a queue: message ids, sorted.
    pub(crate) async fn ids(&self, queue: &str) -> Vec<String> {
        let taken = self.drain(queue).await;
        let mut ids: Vec<String> = taken
            .iter()
            .map(|(properties, _)| properties.message_id().as_ref().expect("a message id").to_string())
            .collect();
        ids.sort();
        ids
    }
}

/// Ids of messages, sorted.
pub(crate) fn ids<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    let mut ids: Vec<String> = messages.into_iter().map(|message| message.id.to_string()).collect();
    ids.sort();
    ids
}

/// Sends a JSON body to the management API and expects success.
pub(crate) fn manage(method: &str, path: &str, body: &Value) {
    let base = outrider_servers::address::rabbitmq_management();
    let rest = base.strip_prefix("http://").expect("the management API is plain HTTP");
    let (credentials, server) = rest.split_once('@').expect("the management URL has credentials");
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Basic {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        base64(credentials.as_bytes()),
        body.len()
    );
    let mut stream = TcpStream::connect(server).expect("the management API listens");
    stream.write_all(request.as_bytes()).expect("write the request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read the answer");
    assert!(answer.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = chunk.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for place in 0..4 {
            match place <= chunk.len() {
                true => text.push(char::from(ALPHABET[(number >> (18 - 6 * place) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}
