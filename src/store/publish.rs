//! Inserting one event the way an application does; for trying things out.

use time::OffsetDateTime;
use uuid::Uuid;

use super::row::Columns;
use super::{Store, StoreError};

/// An event that does not exist yet.
#[derive(Clone, Default)]
pub struct NewEvent<'a> {
    pub topic: &'a str,
    /// Ordering key; `None` has no order.
    pub key: Option<&'a str>,
    /// Contract name. Default: the topic.
    pub kind: Option<&'a str>,
    pub payload: &'a [u8],
    /// JSON text, an object of strings.
    pub headers: Option<&'a str>,
    /// Not sent before. Default: at once.
    pub available_at: Option<OffsetDateTime>,
    /// Wait for an earlier transaction of the same topic and key.
    pub serialize_key: bool,
}

impl std::fmt::Debug for NewEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEvent")
            .field("topic", &self.topic)
            .field("kind", &self.kind)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Inserts an event and returns its id.
    ///
    /// # Errors
    /// See [`StoreError`]. After a lost reply the event may exist; a second call makes a second one.
    pub async fn publish(&mut self, event: &NewEvent<'_>) -> Result<Uuid, StoreError> {
        let statement = &self.statements.publish;
        let row = self
            .link
            .row(statement, |q| {
                q.bind(event.topic)
                    .bind(event.key)
                    .bind(event.kind)
                    .bind(event.payload)
                    .bind(event.headers)
                    .bind(event.available_at)
                    .bind(event.serialize_key)
            })
            .await?;
        Columns::new(statement, &row).get("publish")
    }
}
