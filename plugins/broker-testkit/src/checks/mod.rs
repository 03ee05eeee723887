//! The checks, one a function. Each makes its own destinations and connections, so that none depends on another.

pub(crate) mod batch;
pub(crate) mod connect;
pub(crate) mod deadline;
pub(crate) mod neighbours;
pub(crate) mod parse;
