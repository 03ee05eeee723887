//! The event as the relay sees it: one row of a tenant's outbox, claimed and not settled yet.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

/// A claimed event.
#[derive(Clone)]
pub struct Event {
    /// Place in the tenant's outbox; order within a topic and key.
    pub seq: i64,
    pub topic: Arc<str>,
    /// Ordering key; `None` has no order.
    pub key: Option<Arc<str>>,
    /// Publishes that may have reached a broker without being settled as sent.
    pub attempts: u32,
    /// Publishes that a broker refused since the last requeue.
    pub refusals: u32,
    /// What the application stored. `None`: the payload row is gone, and the event can only go dead.
    pub body: Option<Body>,
}

/// What the application wrote into the outbox row.
#[derive(Clone)]
pub struct Body {
    pub id: Uuid,
    /// Contract name, such as `orders.order-created.v1`.
    pub kind: Arc<str>,
    pub content_type: Arc<str>,
    /// The `headers` column as its own JSON text; nothing has looked inside yet.
    pub headers: Option<String>,
    pub occurred_at: OffsetDateTime,
    /// Byte for byte as stored.
    pub payload: Bytes,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("seq", &self.seq)
            .field("topic", &self.topic)
            .field("attempts", &self.attempts)
            .field("refusals", &self.refusals)
            .field("body", &self.body)
            .finish_non_exhaustive()
    }
}

/// What a dead event does to the later events of its topic and key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDead {
    /// They wait until an operator requeues or discards it.
    #[default]
    Block,
    /// They go on without it.
    Skip,
}
