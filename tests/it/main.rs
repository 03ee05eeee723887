//! The whole program against real servers: one file a behaviour.

mod config;
mod config_broken;
mod config_fixture;
mod config_secrets;
