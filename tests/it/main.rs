//! Behaviour tests: one file or folder a behaviour, on real servers.

#![allow(clippy::unwrap_used)] // a test stops where it fails, helpers of tests too

mod database;
mod store;
