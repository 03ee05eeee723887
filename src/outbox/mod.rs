//! Vocabulary and rules of delivery. Pure: no I/O, no clock, no actix, no SQL.

pub mod event;
pub mod route;

pub use event::{Event, OnDead};
pub use route::{Route, RouteTable};
