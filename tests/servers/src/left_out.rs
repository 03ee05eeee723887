//! Tests that a machine can't run: named on standard error, past the harness, which hides what a test prints unless
//! it fails. Must not: leave out a test whose server could be had; what is missing there is a failure.

use std::fmt::Display;
use std::io::Write;

use anyhow::Result;

use crate::containers;

/// Says that the calling test is left out, and why.
pub fn tell(reason: impl Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "not tested: {test}: {reason}");
}

/// What a test needs on this machine itself, or `None` after [`tell`]: where the servers that tests share are
/// containers, it may be impossible to have.
///
/// # Panics
/// Where they are private servers.
pub fn unless<T>(found: Result<T>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(cause) if containers::in_use() => {
            tell(format_args!("failed to {cause:#}"));
            None
        }
        Err(cause) => panic!("failed to {cause:#}"),
    }
}
