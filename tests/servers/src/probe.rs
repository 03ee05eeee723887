//! Whether a server answers: one request in its own protocol over loopback, without a client library.
//!
//! Must not: wait for long, or tell one failure from another. A probe is asked again until its server is ready.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How long a probe waits for a connection, and then for each part of the answer. Loopback needs a fraction; a
/// server that takes longer is still starting.
const PATIENCE: Duration = Duration::from_millis(500);
/// No answer that a probe looks at is longer.
const MOST_BYTES: u64 = 64 * 1024;

/// Whether something listens on `port`.
pub(crate) fn listens(port: u16) -> bool {
    connect(port).is_some()
}

/// Whether the AMQP 0-9-1 listener on `port` greets a client: `Connection.Start`, a method frame on channel 0.
pub(crate) fn amqp_answers(port: u16) -> bool {
    exchange(port, b"AMQP\x00\x00\x09\x01", 3).is_some_and(|answer| answer == [1, 0, 0])
}

/// Whether a GET of `path` on `port` is answered with status 200. `headers` end with a line break each.
pub(crate) fn http_is_ok(port: u16, path: &str, headers: &str) -> bool {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{headers}\r\n");
    exchange(port, request.as_bytes(), 12).is_some_and(|answer| answer == b"HTTP/1.1 200")
}

/// Whether the Kafka broker on `port` names at least one broker, itself, and a controller in its metadata.
pub(crate) fn kafka_answers(port: u16) -> bool {
    metadata_exchange(port).is_some_and(|answer| metadata_is_usable(&answer).unwrap_or(false))
}

/// A Metadata request, version 1, for no topic. All numbers are big-endian; -1 stands for no client id.
fn metadata_exchange(port: u16) -> Option<Vec<u8>> {
    const METADATA: [u8; 2] = 3i16.to_be_bytes();
    const VERSION: [u8; 2] = 1i16.to_be_bytes();
    const CORRELATION: [u8; 4] = 1i32.to_be_bytes();
    const NO_CLIENT_ID: [u8; 2] = (-1i16).to_be_bytes();
    const NO_TOPICS: [u8; 4] = 0i32.to_be_bytes();
    let body = [&METADATA[..], &VERSION, &CORRELATION, &NO_CLIENT_ID, &NO_TOPICS].concat();
    let mut stream = connect(port)?;
    stream.write_all(&u32::try_from(body.len()).ok()?.to_be_bytes()).ok()?;
    stream.write_all(&body).ok()?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    read_exactly(&mut stream, u64::from(u32::from_be_bytes(length)))
}

/// Reads a Metadata response, version 1. `None` if it is not one.
fn metadata_is_usable(answer: &[u8]) -> Option<bool> {
    let mut rest = answer.get(4..)?;
    let brokers = take_i32(&mut rest)?;
    for _ in 0..brokers {
        take_i32(&mut rest)?; // node id
        take_string(&mut rest)?; // host
        take_i32(&mut rest)?; // port
        take_string(&mut rest)?; // rack
    }
    let controller = take_i32(&mut rest)?;
    Some(brokers > 0 && controller >= 0)
}

fn take_i32(rest: &mut &[u8]) -> Option<i32> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(i32::from_be_bytes(*head))
}

fn take_string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_first_chunk::<2>()?;
    // A length of -1 stands for null.
    let (text, tail) = tail.split_at_checked(usize::try_from(i16::from_be_bytes(*head)).unwrap_or(0))?;
    *rest = tail;
    Some(text)
}

fn exchange(port: u16, request: &[u8], answer_bytes: u64) -> Option<Vec<u8>> {
    let mut stream = connect(port)?;
    stream.write_all(request).ok()?;
    read_exactly(&mut stream, answer_bytes)
}

fn read_exactly(stream: &mut TcpStream, bytes: u64) -> Option<Vec<u8>> {
    let mut answer = Vec::new();
    stream.take(bytes.min(MOST_BYTES)).read_to_end(&mut answer).ok()?;
    (answer.len() as u64 == bytes).then_some(answer)
}

fn connect(port: u16) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(brokers: i32, controller: i32) -> Vec<u8> {
        let mut answer = [1i32.to_be_bytes(), brokers.to_be_bytes()].concat();
        for node in 0..brokers {
            answer.extend(node.to_be_bytes());
            answer.extend([&[0, 4], &b"host"[..]].concat());
            answer.extend(9092i32.to_be_bytes());
            answer.extend((-1i16).to_be_bytes());
        }
        answer.extend(controller.to_be_bytes());
        answer.extend(0i32.to_be_bytes());
        answer
    }

    #[test]
    fn metadata_is_usable_once_it_names_a_broker_and_a_controller() {
        assert_eq!(metadata_is_usable(&metadata(1, 1)), Some(true));
        assert_eq!(metadata_is_usable(&metadata(2, 0)), Some(true));
        assert_eq!(metadata_is_usable(&metadata(0, 1)), Some(false));
        assert_eq!(metadata_is_usable(&metadata(1, -1)), Some(false));
        assert_eq!(metadata_is_usable(&metadata(1, 1)[..20]), None, "cut off");
        assert_eq!(metadata_is_usable(b"HTTP"), None);
    }

    #[test]
    fn nothing_answers_on_a_free_port() {
        let port = crate::ports::free().unwrap();
        assert!(!listens(port));
        assert!(!kafka_answers(port));
        assert!(!amqp_answers(port));
        assert!(!http_is_ok(port, "/", ""));
    }
}
