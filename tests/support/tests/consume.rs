//! Each consumer reads what was published by plain means, with everything that identifies it.

use std::time::{Duration, Instant};

use outrider_servers::address;
use outrider_test_support::consume::{self, Delivered, kafka, nats, rabbitmq};
use uuid::Uuid;

const SOON: Duration = Duration::from_secs(30);

fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", Uuid::now_v7().simple())
}

fn check(messages: &[Delivered], place: &str, id: Uuid) {
    assert_eq!(messages.len(), 2);
    for (message, seq) in messages.iter().zip([1, 2]) {
        assert_eq!(message.place, place);
        assert_eq!(message.id().expect("an id"), id);
        assert_eq!(message.seq().expect("a sequence"), seq);
        assert_eq!(message.key.as_deref(), Some("key-1"));
        assert_eq!(&message.payload[..], [0, 0xff]);
    }
}

#[tokio::test]
async fn kafka_from_the_beginning() {
    use rdkafka::message::{Header, OwnedHeaders};
    use rdkafka::producer::{FutureProducer, FutureRecord};

    let (bootstrap, topic, id) = (address::kafka(), unique("consume"), Uuid::now_v7());
    kafka::create_topics(&bootstrap, &[&topic], 3).await.expect("a topic");
    let producer: FutureProducer =
        rdkafka::ClientConfig::new().set("bootstrap.servers", &bootstrap).create().expect("a producer");
    for seq in ["1", "2"] {
        let headers = OwnedHeaders::new()
            .insert(Header { key: "ce_id", value: Some(&id.to_string()) })
            .insert(Header { key: "ce_sequence", value: Some(seq) });
        let record = FutureRecord::to(&topic).key("key-1").payload(&[0, 0xff]).headers(headers);
        producer.send(record, SOON).await.expect("delivered");
    }
    let mut consumer = kafka::Consumer::open(&bootstrap, &[&topic]).await.expect("a consumer");
    let messages = consume::read(&mut consumer, 2, Instant::now() + SOON).await.expect("messages");
    check(&messages, &topic, id);
    assert!(messages[0].position.as_deref().is_some_and(|position| position.ends_with("/0")));
    kafka::delete_topics(&bootstrap, &[&topic]).await.expect("deleted");
}

#[tokio::test]
async fn rabbitmq_until_acknowledged() {
    use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
    use lapin::types::{AMQPValue, FieldTable};
    use lapin::{BasicProperties, Connection, ConnectionProperties};

    let (url, name, id) = (address::rabbitmq(), unique("consume"), Uuid::now_v7());
    rabbitmq::declare(&url, &name, &name, "#").await.expect("a queue");
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("a connection");
    let channel = connection.create_channel().await.expect("a channel");
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    for seq in ["1", "2"] {
        let mut headers = FieldTable::default();
        headers.insert("ce_sequence".into(), AMQPValue::LongString(seq.into()));
        headers.insert("ce_subject".into(), AMQPValue::LongString("key-1".into()));
        let properties =
            BasicProperties::default().with_message_id(id.to_string().into()).with_headers(headers);
        let options = BasicPublishOptions::default();
        let confirm =
            channel.basic_publish(name.as_str().into(), "a.b".into(), options, &[0, 0xff], properties);
        confirm.await.expect("published").await.expect("confirmed");
    }

    let mut first = rabbitmq::Consumer::open(&url, &name).await.expect("a consumer");
    let deadline = Instant::now() + SOON;
    consume::Consume::next(&mut first, deadline).await.expect("read").expect("a message");
    drop(first); // not done: it goes back
    let mut second = rabbitmq::Consumer::open(&url, &name).await.expect("a consumer");
    check(&consume::read(&mut second, 2, Instant::now() + SOON).await.expect("messages"), "a.b", id);
    drop(second);
    let mut third = rabbitmq::Consumer::open(&url, &name).await.expect("a consumer");
    let none = consume::read(&mut third, 1, Instant::now() + Duration::from_millis(500)).await.expect("read");
    assert!(none.is_empty(), "what was done is gone");
    rabbitmq::delete(&url, &name, &name).await.expect("deleted");
}

#[tokio::test]
async fn nats_from_the_beginning() {
    let (url, name, id) = (address::nats(), unique("consume"), Uuid::now_v7());
    let subject = format!("{name}.orders");
    nats::create_stream(&url, &name, &[&format!("{name}.>")], Duration::from_secs(60))
        .await
        .expect("a stream");
    let context = async_nats::jetstream::new(async_nats::connect(&url).await.expect("a connection"));
    for seq in ["1", "2"] {
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("ce_id", id.to_string().as_str());
        headers.insert("ce_sequence", seq);
        headers.insert("ce_subject", "key-1");
        let ack = context.publish_with_headers(subject.clone(), headers, vec![0, 0xff].into()).await;
        ack.expect("published").await.expect("acknowledged");
    }
    let mut consumer = nats::Consumer::open(&url, &name).await.expect("a consumer");
    let messages = consume::read(&mut consumer, 2, Instant::now() + SOON).await.expect("messages");
    check(&messages, &subject, id);
    assert_eq!(messages[1].position.as_deref(), Some("2"));
    nats::delete_stream(&url, &name).await.expect("deleted");
}
