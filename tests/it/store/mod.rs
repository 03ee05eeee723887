//! The store's statements against real PostgreSQL 15 and 18: the contract of each, and the failure cases it is to survive.

mod blocked;
mod claims;
mod connection;
mod doctor;
mod fixture;
mod held;
mod hints;
mod lanes;
mod migrations;
mod own_rows;
mod plans;
mod retention;
mod rights;
mod settles;
mod writer;
