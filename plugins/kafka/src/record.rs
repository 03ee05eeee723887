//! From a message to a Kafka record: what Kafka cannot carry is refused here, before the client sees it. Pure.
//!
//! The key is the record's key, byte for byte. A message without a key has a null key: the partitioner picks
//! any partition. An empty key is a key like any other: with the default partitioner it hashes as in Java's
//! producer, so that all of its records share a partition and their order holds.

use std::time::UNIX_EPOCH;

use outrider_broker::{Cause, ErrorClass, Message, Refusal};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use crate::batch::Ticket;
use crate::topic;

/// Most bytes that a record's own framing takes: six lengths and counts of up to 5 bytes with the offset, a
/// time of up to 10, and the attributes. Counted as librdkafka counts, so that it never refuses what passed
/// here.
const FRAMING: usize = 5 * 5 + 10 + 1;

/// The topic a message goes to. Empty, and so refused, should the route have none.
pub(crate) fn topic(message: &Message) -> &str {
    message.destination.get(topic::TOPIC).map_or("", String::as_str)
}

/// Bytes of the record before compression: what counts against `message.max.bytes`.
pub(crate) fn size(message: &Message) -> usize {
    let lengths: usize =
        message.headers.iter().map(|(name, value)| varint(name.len()) + varint(value.len())).sum();
    message.size() + lengths + FRAMING
}

/// Refuses what cannot be a record.
pub(crate) fn check(message: &Message, message_max_bytes: usize) -> Result<(), Refusal> {
    let refuse = |class, text| Err(Refusal { cause: Cause::event(class, text), permanent: true });
    let topic = topic(message);
    if let Err(rule) = topic::check(topic) {
        let shown: String = topic.chars().take(80).flat_map(char::escape_debug).collect();
        return refuse(ErrorClass::Invalid, format!("topic name `{shown}` {rule}: correct the route"));
    }
    let size = size(message);
    if size > message_max_bytes {
        let text = format!(
            "record of {size} bytes (payload {}) is over the limit of {message_max_bytes} bytes: make the event \
             smaller, or raise `message.max.bytes` here and on the topic",
            message.payload.len()
        );
        return refuse(ErrorClass::TooLarge, text);
    }
    Ok(())
}

/// The record, pointing at the message's bytes; the client copies them once when it takes it.
pub(crate) fn build(message: &Message, ticket: Box<Ticket>) -> BaseRecord<'_, str, [u8], Box<Ticket>> {
    let mut record = BaseRecord::with_opaque_to(topic(message), ticket)
        .payload(&message.payload[..])
        .timestamp(timestamp(message));
    if let Some(key) = &message.key {
        record = record.key(&**key);
    }
    if !message.headers.is_empty() {
        let mut headers = OwnedHeaders::new_with_capacity(message.headers.len());
        for (name, value) in &message.headers {
            headers = headers.insert(Header { key: name, value: Some(value.as_str()) });
        }
        record = record.headers(headers);
    }
    record
}

/// Milliseconds since 1970. Kafka has no earlier time, and 0 means "now" to the client: both become 1.
fn timestamp(message: &Message) -> i64 {
    let since = message.occurred_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX).max(1)
}

/// Bytes of a length in a record: zigzag, seven bits a byte.
fn varint(length: usize) -> usize {
    let bits = usize::BITS - (length << 1).leading_zeros();
    bits.div_ceil(7).max(1) as usize
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
