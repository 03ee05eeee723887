//! A message as NATS carries it: subject, headers, payload; and what the protocol can't carry.
//!
//! Pure. Everything here is checked before the client sees it, for the client panics at a bad header and the
//! server closes the connection, with the neighbours' acknowledgements, over one message that is too large.
//! Must not put a header's value into a text.

use async_nats::header::{NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use async_nats::jetstream::message::PublishMessage;
use async_nats::{HeaderMap, Subject};
use outrider_broker::{Cause, ErrorClass, Message, Refusal};

use crate::classify::excerpt;
use crate::destination::{STREAM, SUBJECT, stream_fault, subject_fault};

/// Headers that begin so command the server: a rollup empties the stream, an expected sequence or a TTL changes
/// what becomes of the message. An application's header is data, so none of them is passed on.
const COMMANDS: &str = "Nats-";

const CONTENT_TYPE: &str = "Content-Type";

/// What is known of a message once its content is with the client.
#[derive(Debug)]
pub(crate) struct Envelope {
    pub(crate) subject: Subject,
    /// Bytes that count against the server's `max_payload`: headers and payload.
    pub(crate) size: usize,
}

/// Turns a message into an envelope and its content, or says why it can never be sent. `max_payload` is the server's present
/// limit in bytes.
pub(crate) fn seal(message: &Message, max_payload: usize) -> Result<(Envelope, PublishMessage), Refusal> {
    let part = |name: &str| message.destination.get(name).map(String::as_str);
    let subject = part(SUBJECT).unwrap_or_default();
    if let Some(rule) = subject_fault(subject) {
        return Err(invalid(format!("the subject, {} bytes long, {rule}", subject.len())));
    }
    let stream = part(STREAM);
    if let Some(rule) = stream.and_then(stream_fault) {
        return Err(invalid(format!("the expected stream {rule}")));
    }
    let headers = headers(message, stream)?;
    let size = wire_len(&headers) + message.payload.len();
    if size > max_payload {
        let text = format!(
            "payload and headers are {size} bytes, and the server's `max_payload` is {max_payload} bytes; \
             raise it, or store the data elsewhere and send a reference"
        );
        return Err(Refusal { cause: Cause::event(ErrorClass::TooLarge, text), permanent: true });
    }
    let content = PublishMessage::build().headers(headers).payload(message.payload.clone());
    Ok((Envelope { subject: Subject::from(subject), size }, content))
}

/// The message's headers as they are, the message id, and the content type unless a header says it.
///
/// The client keeps headers in a hash map, so only those of the same name keep their order.
fn headers(message: &Message, stream: Option<&str>) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    let mut content_type = Some(&*message.content_type);
    for (name, value) in &message.headers {
        if name.is_empty() || name.contains(|c: char| !c.is_ascii_graphic() || c == ':') {
            return Err(invalid(format!(
                "the header name `{}` must have printable ASCII characters and no `:`",
                excerpt(name)
            )));
        }
        if starts_with_ignoring_case(name, COMMANDS) {
            return Err(invalid(format!(
                "the header `{}` would command the server; names that begin with `Nats-` are reserved",
                excerpt(name)
            )));
        }
        if name.eq_ignore_ascii_case(CONTENT_TYPE) {
            content_type = None;
        }
        append(&mut headers, name, value)?;
    }
    if let Some(content_type) = content_type {
        append(&mut headers, CONTENT_TYPE, content_type)?;
    }
    headers.insert(NATS_MESSAGE_ID, message.id.to_string());
    if let Some(stream) = stream {
        headers.insert(NATS_EXPECTED_STREAM, stream);
    }
    Ok(headers)
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Refusal> {
    if value.contains(['\r', '\n', '\0']) {
        let text = format!("the value of header `{}` has a line break or a NUL character", excerpt(name));
        return Err(invalid(text));
    }
    headers.append(name, value);
    Ok(())
}

fn starts_with_ignoring_case(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

fn invalid(text: String) -> Refusal {
    Refusal { cause: Cause::event(ErrorClass::Invalid, text), permanent: true }
}

/// Bytes of the header block as the client writes it.
fn wire_len(headers: &HeaderMap) -> usize {
    let names_and_values: usize = headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
        .map(|(name, value)| AsRef::<str>::as_ref(name).len() + value.as_str().len() + ": \r\n".len())
        .sum();
    "NATS/1.0\r\n".len() + names_and_values + "\r\n".len()
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
