//! Messages as outrider builds them, with everything in them that protocols tend to damage.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use outrider_broker::{Destination, Message};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// Stands in for every secret: a password, a header's value. Must never turn up in a text of the plugin.
/// Letters and digits only, so that an encoded form reads the same.
pub const MARKER: &str = "m4rk3rThatMustNotBeShown";

const TENANT: &str = "testkit";
const TOPIC: &str = "testkit.things";
const KIND: &str = "testkit.thing-happened.v1";

/// Payloads by turns: text, all byte values, empty, a lone zero byte, not UTF-8.
fn payload(seq: i64) -> (Bytes, &'static str) {
    match seq % 5 {
        0 => (
            Bytes::from(format!("{{\"seq\": {seq},  \"big\": 12345678901234567890.10}}")),
            "application/json",
        ),
        1 => (Bytes::from_iter(0..=255_u8), "application/octet-stream"),
        2 => (Bytes::new(), "application/octet-stream"),
        3 => (Bytes::from_static(&[0]), "application/octet-stream"),
        _ => (Bytes::from_static(&[0xff, 0xfe, b'\r', b'\n', 0x80, b'"']), "application/octet-stream"),
    }
}

/// A message with a new id. `to` is complete, and its templates are filled in here.
pub(crate) fn message(to: &BTreeMap<String, String>, seq: i64, key: Option<&str>) -> Message {
    let id = Uuid::now_v7();
    let (payload, content_type) = payload(seq);
    let occurred_at = SystemTime::now();
    let time = OffsetDateTime::from(occurred_at).format(&Rfc3339).expect("the present has a four-digit year");
    let mut headers = vec![
        ("ce_specversion", "1.0".to_owned()),
        ("ce_id", id.to_string()),
        ("ce_source", format!("/{TENANT}")),
        ("ce_type", KIND.to_owned()),
        ("ce_time", time),
        ("ce_sequence", seq.to_string()),
        ("x-note", "Grüße, 世界 🚀".to_owned()),
        ("X-Mixed-Case", "a: b; c=\"d\"".to_owned()),
        ("x-empty", String::new()),
        ("x-secret", MARKER.to_owned()),
    ];
    headers.extend(key.map(|key| ("ce_subject", key.to_owned())));
    Message {
        id,
        seq,
        destination: fill(to, key),
        key: key.map(Arc::from),
        kind: Arc::from(KIND),
        content_type: Arc::from(content_type),
        occurred_at,
        headers: headers.into_iter().map(|(name, value)| (Arc::from(name), value)).collect(),
        payload,
        redelivery: false,
    }
}

/// Fills in what a route's templates may name.
fn fill(to: &BTreeMap<String, String>, key: Option<&str>) -> Destination {
    let filled = |template: &String| {
        template
            .replace("{tenant}", TENANT)
            .replace("{topic}", TOPIC)
            .replace("{type}", KIND)
            .replace("{key}", key.unwrap_or(""))
    };
    Arc::new(to.iter().map(|(part, template)| (part.clone(), filled(template))).collect())
}
