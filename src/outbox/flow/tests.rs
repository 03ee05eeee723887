//! The rules of a flow: each in a scenario of its own, and all of them in thousands of random histories that
//! run against a small model of the database.

mod broker;
mod claiming;
mod database;
mod dice;
mod handing_over;
mod history;
mod owner;
mod scene;
mod world;
mod writers;
