//! Vocabulary and rules of delivery. Pure: no I/O, no clock, no actix, no SQL.

pub mod event;

pub use event::{Event, OnDead};
