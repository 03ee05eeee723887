//! What a broker receives for an event. Built by outrider, read by plugins; must not know a broker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use uuid::Uuid;

/// Where a message goes, as the plugin named the parts: `{"topic": "orders"}` for Kafka,
/// `{"exchange": "billing", "routing_key": "eu"}` for RabbitMQ, `{"subject": "orders.eu"}` for NATS.
///
/// It is the route's `to` table, completed by [`crate::Broker::destination`] and with the event's
/// values filled in. Shared, since most events of a batch have the same one.
pub type Destination = Arc<BTreeMap<String, String>>;

/// Names of outrider's own headers in the CloudEvents shape. An application's own header of one of these
/// names is overruled there, so that the id a consumer's inbox checks is always the event's.
pub const OUTRIDER_HEADERS: &[&str] =
    &["ce_id", "ce_type", "ce_source", "ce_time", "ce_specversion", "ce_sequence", "ce_subject"];

/// One message, ready to be sent.
///
/// A plugin sends `headers` verbatim and in order, `payload` byte for byte, and additionally sets
/// what its protocol has a place for: the id (AMQP `message_id`, `Nats-Msg-Id`), the content type,
/// the time, the type, the key (Kafka). It never changes the payload and never logs it.
#[derive(Clone)]
pub struct Message {
    /// The event's id, unique across tenants; the same over all attempts.
    pub id: Uuid,
    /// The event's place in its tenant's outbox.
    pub seq: i64,
    pub destination: Destination,
    /// Ordering key. `None` means that the event has no order.
    pub key: Option<Arc<str>>,
    /// Contract name, such as `orders.order-created.v1`.
    pub kind: Arc<str>,
    pub content_type: Arc<str>,
    pub occurred_at: SystemTime,
    pub headers: Vec<(Arc<str>, String)>,
    pub payload: Bytes,
    /// True when an earlier attempt may have reached the broker. A broker that reports a duplicate
    /// for a message that was never tried before has met an id that is not unique.
    pub redelivery: bool,
}

impl Message {
    /// Bytes that count against a broker's size limit, before the protocol's own framing:
    /// payload, header names and values, and the key.
    pub fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.payload.len() + headers + self.key.as_ref().map_or(0, |key| key.len())
    }
}

/// Shows everything but the payload, the headers' values and the key: they are the application's data.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.id)
            .field("seq", &self.seq)
            .field("destination", &self.destination)
            .field("kind", &self.kind)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}
