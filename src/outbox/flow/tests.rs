//! The rules of a flow, held against a small model of the database.
