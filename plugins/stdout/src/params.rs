//! The `params` table, which is empty. Pure.

use outrider_broker::{Fault, Params};

pub(crate) fn check(params: &Params) -> Result<(), Vec<Fault>> {
    let faults: Vec<Fault> =
        params.keys().map(|key| Fault::new(key, "is not a parameter; `stdout` has none")).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}
