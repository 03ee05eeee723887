//! The rules of a flow: each in a scenario of its own, and all of them in thousands of random histories that
//! run against a small model of the database.

mod broker;
mod database;
mod dice;
mod history;
mod owner;
mod scenario;
mod world;
mod writers;
