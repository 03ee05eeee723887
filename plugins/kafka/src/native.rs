//! The three calls of librdkafka that its Rust wrapper does not offer. All of this crate's `unsafe`, and nothing else.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::raw::c_char;
use std::ptr;
use std::time::Duration;

use rdkafka::bindings::{
    rd_kafka_fatal_error, rd_kafka_message_status, rd_kafka_metadata, rd_kafka_metadata_destroy,
    rd_kafka_msg_status_t,
};
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::BorrowedMessage;

use crate::classify::Persistence;

/// What the client knows about a message that it reports on: whether its bytes may be in the broker's log.
pub(crate) fn persistence(message: &BorrowedMessage<'_>) -> Persistence {
    // SAFETY: the pointer comes from a delivery report that `message` keeps alive, and the call only reads it.
    match unsafe { rd_kafka_message_status(message.ptr()) } {
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED => Persistence::No,
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_POSSIBLY_PERSISTED => Persistence::Perhaps,
        rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_PERSISTED => Persistence::Yes,
    }
}

/// Asks any broker for the metadata of the topics this client has used (of all topics, before it used any)
/// and waits for the answer. Blocks for up to `timeout`.
pub(crate) fn sign_of_life<C: ClientContext>(
    client: &Client<C>,
    timeout: Duration,
) -> Result<(), RDKafkaErrorCode> {
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let mut metadata = ptr::null();
    // SAFETY: the client outlives the call; no topic is a permitted argument; `metadata` is written on success.
    let error =
        unsafe { rd_kafka_metadata(client.native_ptr(), 0, ptr::null_mut(), &raw mut metadata, timeout) };
    if !metadata.is_null() {
        // SAFETY: the call handed over what it allocated, and nothing keeps the pointer.
        unsafe { rd_kafka_metadata_destroy(metadata) };
    }
    match RDKafkaErrorCode::from(error) {
        RDKafkaErrorCode::NoError => Ok(()),
        code => Err(code),
    }
}

/// What ended this client for good, if anything did. The error callback is told as well, but with the code of
/// what went wrong and without saying that it is the end.
pub(crate) fn fatal_error<C: ClientContext>(client: &Client<C>) -> Option<String> {
    let mut text = [0 as c_char; 512];
    // SAFETY: the client outlives the call, which writes at most the given length, with a NUL at its end.
    let error = unsafe { rd_kafka_fatal_error(client.native_ptr(), text.as_mut_ptr(), text.len()) };
    if RDKafkaErrorCode::from(error) == RDKafkaErrorCode::NoError {
        return None;
    }
    // SAFETY: there was an error, so the text was written.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Some(text.to_string_lossy().into_owned())
}
