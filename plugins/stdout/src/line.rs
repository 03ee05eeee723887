//! A message as a JSON line. Pure.

use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrider_broker::Message;
use serde::ser::{Serialize, SerializeMap, Serializer};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Appends the line with its line break.
pub(crate) fn append(message: &Message, lines: &mut Vec<u8>) -> serde_json::Result<()> {
    let before = lines.len();
    if let Err(error) = serde_json::to_writer(&mut *lines, &Line(message)) {
        lines.truncate(before);
        return Err(error);
    }
    lines.push(b'\n');
    Ok(())
}

struct Line<'a>(&'a Message);

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.0;
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("destination", &*message.destination)?;
        line.serialize_entry("id", &message.id.to_string())?;
        line.serialize_entry("seq", &message.seq)?;
        line.serialize_entry("key", &message.key)?;
        line.serialize_entry("type", &message.kind)?;
        line.serialize_entry("content_type", &message.content_type)?;
        line.serialize_entry("occurred_at", &occurred_at(message.occurred_at))?;
        line.serialize_entry("headers", &Headers(message))?;
        match std::str::from_utf8(&message.payload) {
            Ok(text) => line.serialize_entry("payload", text)?,
            Err(_) => line.serialize_entry("payload_base64", &STANDARD.encode(&message.payload))?,
        }
        line.end()
    }
}

/// In their order, as an object: easier to read and to query than pairs.
struct Headers<'a>(&'a Message);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.headers.iter().map(|(name, value)| (&**name, value)))
    }
}

/// `None` for a year that the format can't write.
fn occurred_at(time: SystemTime) -> Option<String> {
    OffsetDateTime::from(time).format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn message(payload: &'static [u8]) -> Message {
        Message {
            id: Uuid::nil(),
            seq: 7,
            destination: Arc::new(BTreeMap::from([("name".to_owned(), "orders".to_owned())])),
            key: Some("42".into()),
            kind: "orders.order-created.v1".into(),
            content_type: "application/json".into(),
            occurred_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
            headers: vec![("b".into(), "1\n".to_owned()), ("a".into(), String::new())],
            payload: payload.into(),
            redelivery: false,
        }
    }

    fn line(payload: &'static [u8]) -> String {
        let mut lines = Vec::new();
        append(&message(payload), &mut lines).expect("serialises");
        String::from_utf8(lines).expect("JSON is UTF-8")
    }

    #[test]
    fn is_one_line_of_json() {
        let line = line(b"{\"big\": 1.10,\r\n\"x\": 1}");
        assert_eq!(line.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&line).expect("JSON");
        let expected = json!({
            "destination": {"name": "orders"},
            "id": "00000000-0000-0000-0000-000000000000",
            "seq": 7,
            "key": "42",
            "type": "orders.order-created.v1",
            "content_type": "application/json",
            "occurred_at": "1970-01-01T00:00:01Z",
            "headers": {"b": "1\n", "a": ""},
            "payload": "{\"big\": 1.10,\r\n\"x\": 1}",
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn keeps_bytes() {
        let value: Value = serde_json::from_str(&line(&[0xff, 0x00])).expect("JSON");
        assert_eq!((&value["payload_base64"], value.get("payload")), (&json!("/wA="), None));
        let value: Value = serde_json::from_str(&line(&[0x00])).expect("JSON");
        assert_eq!(value["payload"], json!("\0"));
    }
}
