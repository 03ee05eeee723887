//! From an event to the message a broker gets: headers by shape, the payload untouched.
//!
//! Pure. Must not know a broker, look into a payload, or put a header's value or a key into an error text.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use outrider_broker::{Cause, Destination, ErrorClass, Message, OUTRIDER_HEADERS, Refusal};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

use super::Event;

/// How an event becomes a message: which headers outrider adds to the application's own.
///
/// Every shape carries the event's id and its `seq`. The payload is the same in all of them, and so is the
/// key, which a broker that has a place for it gets besides the headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Shape {
    /// CloudEvents 1.0 in binary mode. `ce_id` is the event's id, `ce_source` is `/outrider/TENANT`, `ce_type`
    /// the event's type (its topic, where the type is empty), `ce_time` when it occurred, `ce_sequence` its
    /// `seq` and `ce_subject` its key. Left out: `ce_subject` if there is no key, or an empty one, or one with
    /// control characters; `ce_time` outside the years 0 to 9999.
    #[default]
    CloudEvents,
    /// What Debezium's outbox event router makes of a row by default: the event's id as header `id`. The
    /// `seq` is in `outrider-sequence`.
    Debezium,
    /// `outrider-id` and `outrider-sequence`, nothing else.
    Plain,
}

impl Shape {
    /// Names that belong to outrider in this shape. An application's header of such a name, in whatever case,
    /// is left out, so that the id a consumer's inbox checks is always the event's.
    fn reserved(self) -> &'static [&'static str] {
        match self {
            Shape::CloudEvents => OUTRIDER_HEADERS,
            Shape::Debezium => &["id", "outrider-sequence"],
            Shape::Plain => &["outrider-id", "outrider-sequence"],
        }
    }
}

/// Makes the message of an event. Refuses, for good, an event whose payload row is gone or whose headers (or
/// type, where the shape makes a header of it) no message can carry.
///
/// The `headers` column must be a JSON object of strings, numbers and booleans. Numbers leave as they are
/// written; `null`, for one header or for all, means that there is none.
pub fn compose(
    tenant: &str,
    event: &Event,
    shape: Shape,
    destination: Destination,
) -> Result<Message, Refusal> {
    let body = event.body.as_ref().ok_or_else(|| invalid("the payload row is gone; discard the event"))?;
    let kind = if body.kind.is_empty() { &event.topic } else { &body.kind };
    let application = body.headers.as_deref().map(RawHeaders::parse).transpose()?.unwrap_or_default();

    let mut headers = Vec::with_capacity(shape.reserved().len() + application.0.len());
    let mut own = |name: &str, value: String| headers.push((shared(name), value));
    let (id, seq) = (body.id.to_string(), event.seq.to_string());
    match shape {
        Shape::CloudEvents => {
            if kind.contains(char::is_control) {
                return Err(invalid(
                    "the event's type holds a control character, which `ce_type` cannot carry",
                ));
            }
            own("ce_specversion", "1.0".to_owned());
            own("ce_id", id);
            own("ce_source", source(tenant));
            own("ce_type", kind.as_ref().to_owned());
            if let Some(time) = rfc3339(body.occurred_at) {
                own("ce_time", time);
            }
            own("ce_sequence", seq);
            if let Some(key) = &event.key
                && !key.is_empty()
                && !key.contains(char::is_control)
            {
                own("ce_subject", key.as_ref().to_owned());
            }
        }
        Shape::Debezium => {
            own("id", id);
            own("outrider-sequence", seq);
        }
        Shape::Plain => {
            own("outrider-id", id);
            own("outrider-sequence", seq);
        }
    }
    for (Name(name), value) in application.0 {
        let overruled = shape.reserved().iter().any(|reserved| reserved.eq_ignore_ascii_case(&name));
        if let Some(value) = header(&name, value)?
            && !overruled
        {
            headers.push((name, value));
        }
    }
    Ok(Message {
        id: body.id,
        seq: event.seq,
        destination,
        key: event.key.clone(),
        kind: kind.clone(),
        content_type: body.content_type.clone(),
        occurred_at: SystemTime::from(body.occurred_at),
        headers,
        payload: body.payload.clone(),
        redelivery: event.attempts > 0,
    })
}

fn invalid(text: impl Into<String>) -> Refusal {
    Refusal { cause: Cause::event(ErrorClass::Invalid, text), permanent: true }
}

/// The application's headers as they are written, names unescaped. Later ones of the same name are kept too:
/// jsonb has none, and which one of a json column counts is the consumer's rule.
#[derive(Default)]
struct RawHeaders<'a>(Vec<(Name, &'a RawValue)>);

impl<'a> RawHeaders<'a> {
    fn parse(text: &'a str) -> Result<Self, Refusal> {
        // The parser's own words may quote a value.
        serde_json::from_str::<Option<Self>>(text).map(Option::unwrap_or_default).map_err(|_| {
            invalid("`headers` is not a JSON object; write an object of strings, numbers and booleans")
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawHeaders<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = RawHeaders<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut headers = Vec::new();
                while let Some(header) = map.next_entry()? {
                    headers.push(header);
                }
                Ok(RawHeaders(headers))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// A header's name.
struct Name(Arc<str>);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(Name(shared(name)))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// The name without an allocation of its own, if it is one that most messages have.
fn shared(name: &str) -> Arc<str> {
    static COMMON: LazyLock<Vec<Arc<str>>> = LazyLock::new(|| {
        let others = ["id", "outrider-id", "outrider-sequence", "traceparent", "tracestate"];
        OUTRIDER_HEADERS.iter().chain(&others).map(|name| Arc::from(*name)).collect()
    });
    COMMON.iter().find(|common| common.as_ref() == name).cloned().unwrap_or_else(|| name.into())
}

/// One header's value as text; `None` for `null`.
fn header(name: &str, value: &RawValue) -> Result<Option<String>, Refusal> {
    if name.is_empty() {
        return Err(invalid("a header has an empty name"));
    }
    if name.contains(char::is_control) {
        return Err(invalid(format!("the name of header `{}` holds a control character", shown(name))));
    }
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(json)
                .map_err(|_| invalid(format!("header `{}` is not valid Unicode", shown(name))))?;
            if text.contains(char::is_control) {
                return Err(invalid(format!("header `{}` holds a control character", shown(name))));
            }
            Ok(Some(text))
        }
        Some(b'{' | b'[') | None => {
            Err(invalid(format!("header `{}` is not a string, number or boolean", shown(name))))
        }
        Some(b'n') => Ok(None),
        Some(_) => Ok(Some(json.to_owned())),
    }
}

/// A header's name fit for an error text, which is stored in a column that knows no NUL.
fn shown(name: &str) -> String {
    /// Longest name that is worth reading, in characters.
    const MOST: usize = 80;
    let mut shown: String = name.chars().take(MOST).flat_map(char::escape_debug).collect();
    if name.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// `/outrider/TENANT` as a URI reference: what may not stand in a path segment is percent-encoded.
fn source(tenant: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut source = String::with_capacity("/outrider/".len() + tenant.len());
    source.push_str("/outrider/");
    for byte in tenant.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            source.push(char::from(byte));
        } else {
            source.extend([
                '%',
                char::from(HEX[usize::from(byte >> 4)]),
                char::from(HEX[usize::from(byte & 15)]),
            ]);
        }
    }
    source
}

fn rfc3339(time: OffsetDateTime) -> Option<String> {
    time.checked_to_offset(UtcOffset::UTC).unwrap_or(time).format(&Rfc3339).ok()
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
