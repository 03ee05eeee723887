//! outrider: an outbox relay. This file is the map.
//!
//! | module | what it holds | what it must not hold |
//! |---|---|---|
//! | [`outbox`] | the words and the rules of delivery | I/O, clocks, actix, SQL |
//! | [`config`] | text in, checked values out | anything that runs |
//! | [`store`] | every SQL statement; one tenant's database per `Store` | decisions |
//! | [`actors`] | supervisor, claimers, publishers, janitor | SQL text, broker clients |
//! | [`api`] | `/metrics`, `/healthz`, `/readyz` | decisions |
//! | [`telemetry`] | typed events that log and count | |
//! | [`brokers`] | the registry of plugins; the only file that names plugin crates | |
//! | [`cli`], [`exit`], [`run`] | the command line, exit codes, the assembly in order | |

pub mod brokers;
pub mod config;
pub mod outbox;
pub mod store;
