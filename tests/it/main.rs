//! The whole program against real servers: one file a behaviour.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod addresses;
mod admin;
mod backpressure;
mod cli;
mod cli_database;
mod cli_fixture;
mod config;
mod config_broken;
mod config_example;
mod config_fixture;
mod config_secrets;
mod contract;
mod database;
mod delivery;
mod demoted;
mod fleet;
mod idle;
mod layers;
mod order;
mod outage;
mod outage_database;
mod outcomes;
mod own_rows;
mod pace;
mod pooled;
mod recorder;
mod relay;
mod renewal;
mod script;
mod secrets;
mod shutdown;
mod snapshot;
mod store;
mod stuck;
mod supervise;
mod unknown;
