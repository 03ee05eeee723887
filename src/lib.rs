//! outrider: an outbox relay. This file is the map.
//!
//! | module | what it holds | what it must not hold |
//! |---|---|---|
//! | [`outbox`] | the words and the rules of delivery | I/O, clocks, actix, SQL |
//! | [`config`] | text in, checked values out | anything that runs |
//! | [`store`] | every SQL statement; one tenant's database per `Store` | decisions |
//! | [`actors`] | supervisor, claimers, publishers, janitor | SQL text, broker clients |
//! | [`api`] | `/metrics`, `/healthz`, `/readyz` | decisions |
//! | [`telemetry`] | facts as calls that log and count | payloads, keys, secrets |
//! | [`brokers`] | the registry of plugins; the only file that names plugin crates | |
//! | `failpoints` | places where the fault kit ends the process; empty without its feature | |
//! | [`run`] | the assembly of the daemon, in order | |

pub mod actors;
pub mod api;
pub mod brokers;
pub mod cli;
pub mod config;
pub mod exit;
mod failpoints;
pub mod outbox;
pub mod run;
pub mod store;
pub mod telemetry;
