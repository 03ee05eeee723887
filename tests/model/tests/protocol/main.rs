//! Checks every history of the model, up to the bounds that each test names.
//!
//! `cargo test -p outrider-model -- --nocapture` prints how many states each check has and, for each guard that is left
//! out, what goes wrong then. `-- --ignored` runs the checks that take minutes.

mod check;
mod guards;
mod promises;
mod sights;
