//! Parameters and destinations: pure, complete in what they refuse, silent about values.

use std::collections::BTreeMap;

use outrider_broker::{Fault, Params};
use serde_json::{Value, json};

use crate::MARKER;
use crate::failure::{Failure, ensure};
use crate::scene::Scene;

const UNKNOWN: [&str; 2] = ["no_such_key", "nor_this_one"];

pub(crate) async fn parse(scene: &Scene<'_>) -> Result<(), Failure> {
    let plugin = scene.harness.plugin();
    ensure!(!plugin.kind().is_empty(), "`kind` is empty");

    // A thread without a runtime: parsing that starts I/O panics there.
    let params = scene.harness.params();
    let outside = std::thread::scope(|threads| threads.spawn(|| plugin.parse(&params).is_ok()).join());
    ensure!(matches!(outside, Ok(true)), "working parameters are not accepted on a thread without a runtime");

    if let Some(params) = scene.harness.params_at(([127, 0, 0, 1], 1).into()) {
        let broker = scene.broker_with(params)?;
        ensure!(!format!("{broker:?}").contains(MARKER), "the broker's `Debug` shows a password");
    }

    // Every known key with an impossible value, and two unknown keys: all of them have to be listed at once.
    let mut wrong: Params = params.keys().map(|key| (key.clone(), json!([[MARKER]]))).collect();
    for key in UNKNOWN {
        wrong.insert(key.to_owned(), Value::from(MARKER));
    }
    let faults = match plugin.parse(&wrong) {
        Ok(_) => return Err(Failure::new("unknown parameters and impossible values were accepted")),
        Err(faults) => faults,
    };
    for key in wrong.keys() {
        ensure!(names(&faults, key), "no fault names `{key}`: {:?}", keys(&faults));
    }
    complete(&faults)?;

    // An unknown key alone is a fault, too.
    let mut extra = params.clone();
    extra.insert(UNKNOWN[0].to_owned(), Value::from(1));
    match plugin.parse(&extra) {
        Ok(_) => Err(Failure::new("an unknown parameter was accepted")),
        Err(faults) => {
            ensure!(keys(&faults) == [UNKNOWN[0]], "faults {:?} for one unknown parameter", keys(&faults));
            Ok(())
        }
    }
}

pub(crate) async fn destination(scene: &Scene<'_>) -> Result<(), Failure> {
    let broker = scene.broker()?;
    let place = scene.missing_place()?;
    for (part, value) in &place.to {
        ensure!(place.full.get(part) == Some(value), "`{part}` of a destination was dropped or changed");
    }
    let again = broker.destination(&place.full);
    ensure!(again.as_ref() == Ok(&place.full), "completing a complete destination gives {again:?}");

    let mut unknown = place.to.clone();
    for key in UNKNOWN {
        unknown.insert(key.to_owned(), "x".to_owned());
    }
    match broker.destination(&unknown) {
        Ok(_) => return Err(Failure::new("a destination with unknown keys was accepted")),
        Err(faults) => {
            for key in UNKNOWN {
                ensure!(names(&faults, key), "no fault names the unknown key `{key}`: {:?}", keys(&faults));
            }
            complete(&faults)?;
        }
    }

    // Either there are defaults for everything, or it says what is needed.
    match broker.destination(&BTreeMap::new()) {
        Ok(full) => {
            let again = broker.destination(&full);
            ensure!(again.as_ref() == Ok(&full), "a default destination, given as it is, becomes {again:?}");
        }
        Err(faults) => complete(&faults)?,
    }
    Ok(())
}

/// A fault for a table may name a key inside it.
fn names(faults: &[Fault], key: &str) -> bool {
    faults.iter().any(|fault| fault.key == key || fault.key.starts_with(&format!("{key}.")))
}

fn keys(faults: &[Fault]) -> Vec<&str> {
    faults.iter().map(|fault| fault.key.as_str()).collect()
}

fn complete(faults: &[Fault]) -> Result<(), Failure> {
    ensure!(!faults.is_empty(), "refused without a fault");
    for fault in faults {
        ensure!(!fault.key.is_empty() && !fault.rule.is_empty(), "a fault has no key or no rule");
        ensure!(!fault.rule.contains(MARKER), "the fault of `{}` shows the value", fault.key);
    }
    Ok(())
}
