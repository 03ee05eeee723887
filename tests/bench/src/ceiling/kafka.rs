//! librdkafka with the settings that the plugin fixes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use outrider_test_support::consume::Delivered;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

use super::{Confirms, PATIENCE, WINDOW};

/// While the window is full.
const PAUSE: Duration = Duration::from_micros(200);

/// Counts confirms, and failures apart.
#[derive(Clone)]
struct Count {
    confirms: Arc<Confirms>,
    failed: Arc<AtomicUsize>,
}

impl ClientContext for Count {}

impl ProducerContext for Count {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_ok() {
            self.confirms.add();
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(super) fn publish(
    bootstrap: &str,
    parameters: &[(String, String)],
    topic: &str,
    messages: &[Delivered],
    confirms: &Arc<Confirms>,
) -> Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).extend(parameters.iter().cloned());
    config.set("enable.idempotence", "true").set("acks", "all");
    let count = Count { confirms: Arc::clone(confirms), failed: Arc::default() };
    let producer: ThreadedProducer<Count> = config.create_with_context(count.clone())?;
    let ended = || count.confirms.count() + count.failed.load(Ordering::Relaxed);
    tokio::task::block_in_place(|| {
        for (number, message) in messages.iter().enumerate() {
            while number - ended() >= WINDOW {
                std::thread::sleep(PAUSE);
            }
            let mut headers = OwnedHeaders::new_with_capacity(message.headers.len());
            for (key, value) in &message.headers {
                headers = headers.insert(Header { key, value: Some(value) });
            }
            let mut record = BaseRecord::to(topic).payload(&message.payload[..]).headers(headers);
            if let Some(key) = &message.key {
                record = record.key(key);
            }
            while let Err((error, back)) = producer.send(record) {
                let KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) = error else { bail!(error) };
                record = back;
                std::thread::sleep(PAUSE);
            }
        }
        producer.flush(PATIENCE)?;
        Ok(())
    })
}
