//! What tests, the demo and the benchmarks share: consumers of the three brokers, a judge of what they saw, and
//! a proxy for network faults. Knows outrider's contract from the outside only: must not use its library.
//!
//! | module | what it is |
//! |---|---|
//! | [`database`] | a database of its own for each test, from a migrated template |
//! | [`daemon`] | the `outrider` program as a process: start, kill, end |
//! | [`consume`] | topics, queues and streams: make them, read them from the beginning |
//! | [`verify`] | committed against seen: lost, doubled, out of order, rolled back. Pure |
//! | [`hosts`] | host names that lead elsewhere while a program runs |
//! | [`proxy`] | a TCP proxy that can cut, delay, refuse and fall silent |

pub mod consume;
pub mod daemon;
pub mod database;
pub mod hosts;
pub mod verify;

/// Network faults; the broker plugins' conformance suite uses the same.
pub mod proxy {
    pub use outrider_broker_testkit::proxy::{Mode, Proxy};
}
