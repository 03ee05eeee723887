//! Vocabulary and rules of delivery. Pure: no I/O, no clock, no actix, no SQL.

pub mod event;
pub mod flow;
pub mod lease;
pub mod message;
pub mod pace;
pub mod retry;
pub mod route;
pub mod settle;
pub mod share;

pub use event::{Event, OnDead};
pub use message::Shape;
pub use route::{Route, RouteTable};
