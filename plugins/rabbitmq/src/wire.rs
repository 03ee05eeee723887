//! One message as AMQP carries it, or the reason why it can't. Pure.
//!
//! Everything is checked here that would otherwise end the channel, with its neighbours' confirms, or the
//! whole connection. The payload is neither looked into nor copied.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use outrider_broker::{Cause, ErrorClass, Message, Outcome, Refusal};
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::classify;

/// Longest exchange, routing key, type, content type or header name, in bytes: the protocol has one byte for
/// the length. More would garble the frame and cost the connection.
pub(crate) const MAX_SHORT_STRING_BYTES: usize = 255;

/// RabbitMQ takes these two headers for lists of further routing keys, and closes the channel over text in them.
const ROUTING_HEADERS: &[&str] = &["CC", "BCC"];

/// Says who published, to people who look into a queue.
const APP_ID: &str = "outrider";

const PERSISTENT: u8 = 2;

/// Bytes of a frame that are left free: 8 for its type, channel, length and end mark, the rest for headers that the
/// broker adds on the way to a consumer (`x-delivery-count`, `x-death`), whose client would end its connection over
/// a frame that is too large.
const FRAME_RESERVE_BYTES: usize = 8 + 1024;

/// Sizes in bytes that a message has to keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Largest payload, if known.
    pub(crate) payload: Option<usize>,
    /// Largest frame; a message's properties and headers have to fit into one.
    pub(crate) frame: usize,
}

/// A message that is ready for `basic.publish`.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) id: Uuid,
    pub(crate) exchange: ShortString,
    pub(crate) routing_key: ShortString,
    pub(crate) properties: BasicProperties,
    pub(crate) payload: Bytes,
}

impl Envelope {
    /// The error is always [`Outcome::Refused`], for good.
    pub(crate) fn new(message: &Message, persistent: bool, limits: Limits) -> Result<Self, Outcome> {
        if let Some(limit) = limits.payload
            && message.payload.len() > limit
        {
            return Err(classify::too_large(message.payload.len(), limit));
        }
        let part = |name: &str| message.destination.get(name).map_or("", String::as_str);
        let exchange = short("exchange", part("exchange"))?;
        let routing_key = short("routing key", part("routing_key"))?;
        let kind = short("type", &message.kind)?;
        let content_type = short("content type", &message.content_type)?;

        // What is always there: class, weight, body size, flags, time, delivery mode, id, the headers' length.
        let mut bytes = 2 + 2 + 8 + 2 + 8 + 1 + (1 + Hyphenated::LENGTH) + 4;
        bytes +=
            [APP_ID, &message.kind, &message.content_type].map(|text| 1 + text.len()).iter().sum::<usize>();
        let mut headers = FieldTable::default();
        for (name, value) in &message.headers {
            if ROUTING_HEADERS.contains(&&**name) {
                let text = format!(
                    "RabbitMQ takes the header `{name}` for a list of routing keys: give the header another name"
                );
                return Err(invalid(text));
            }
            bytes += 1 + name.len() + 1 + 4 + value.len();
            headers.insert(
                short("a header's name", name)?,
                AMQPValue::LongString(LongString::from(value.as_str())),
            );
        }
        let room = limits.frame.saturating_sub(FRAME_RESERVE_BYTES);
        if bytes > room {
            let text = format!(
                "headers and properties are {bytes} bytes and the limit {room}, so that they fit into one frame: send \
                 fewer headers, or raise the broker's `frame_max`"
            );
            let cause = Cause::event(ErrorClass::TooLarge, text);
            return Err(Outcome::Refused(Refusal { cause, permanent: true }));
        }

        let mut properties = BasicProperties::default()
            .with_message_id(message.id.to_string().into())
            .with_app_id(APP_ID.into())
            .with_type(kind)
            .with_content_type(content_type)
            .with_headers(headers);
        // The protocol's time is in whole seconds and has no place for one before 1970.
        if let Ok(since) = message.occurred_at.duration_since(UNIX_EPOCH) {
            properties = properties.with_timestamp(since.as_secs());
        }
        if persistent {
            properties = properties.with_delivery_mode(PERSISTENT);
        }
        Ok(Envelope { id: message.id, exchange, routing_key, properties, payload: message.payload.clone() })
    }
}

fn short(what: &str, value: &str) -> Result<ShortString, Outcome> {
    ShortString::try_new(value).map_err(|_| {
        invalid(format!(
            "{what} is {} bytes long; AMQP allows {MAX_SHORT_STRING_BYTES}: shorten it",
            value.len()
        ))
    })
}

fn invalid(text: String) -> Outcome {
    Outcome::Refused(Refusal { cause: Cause::event(ErrorClass::Invalid, text), permanent: true })
}

#[cfg(test)]
mod tests;
