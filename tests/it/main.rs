//! The whole program against real servers: one file a behaviour. Tests begin in the order of their names: give a file
//! whose tests last a minute a name that comes early, or everybody waits for it in the end.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod addresses;
mod admin;
mod backpressure;
mod broker_outage;
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
mod database_outage;
mod delivery;
mod demoted;
mod fleet;
mod health;
mod idle;
mod layers;
mod order;
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
mod supervise;
mod unknown;
