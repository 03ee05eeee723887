//! Actors: the only place, with the admin port, where something waits. They call the rules and the store; they decide
//! nothing that a pure function can decide.
//!
//! ```text
//!            Supervisor        spawns, restarts, drains
//!      ┌─────────┼──────────┐
//!   Claimer  Publisher   Janitor
//!      └─PublishBatch─►│       addresses point downhill: nothing below holds one of something above
//!      ◄─PublishReport─┘       (the report is the reply)
//! ```

pub mod board;
pub mod claimer;
pub mod exit;
pub mod fleet;
pub mod janitor;
pub mod messages;
pub mod outlet;
pub mod permits;
pub mod publisher;
mod reasons;
pub mod signals;
pub mod supervisor;
