//! Behaviour tests: one file or folder a behaviour, on real servers.

mod database;
mod store;
