//! From the merged values to [`RawConfig`], with a fault for every key that is unknown or of a wrong type.
//!
//! serde stops at the first error. So each error is noted, its value taken out of the tree, and the rest
//! read again, until nothing is left to complain of.

use figment::error::Kind;
use figment::value::{Dict, Value};
use serde::Deserialize;

use super::key::KeyPath;
use super::raw::RawConfig;
use super::report::Report;

/// Faults after which the rest is not looked at: a file with more is not a config of outrider.
const MAX_FAULTS: usize = 100;

pub(super) fn extract(report: &mut Report<'_>) -> RawConfig {
    let mut tree = report.sources().tree.clone();
    for _ in 0..MAX_FAULTS {
        let error = match RawConfig::deserialize(&tree) {
            Ok(raw) => return raw,
            Err(error) => error,
        };
        let path = KeyPath::new(error.path);
        let seen = !report.is_sound(&path);
        note(report, &path, error.kind);
        if seen || !take_out(&mut tree, path.keys()) {
            break;
        }
    }
    // Whatever is missing now must not be reported as missing.
    for section in RawConfig::KEYS {
        report.mark_unsound(&KeyPath::new([*section]));
    }
    RawConfig::default()
}

fn note(report: &mut Report<'_>, path: &KeyPath, kind: Kind) {
    match kind {
        Kind::UnknownField(name, known) => {
            // Nothing is known of the value either, not even that it is no secret.
            report.fault_with_value(path, None, "is not a key of outrider", nearest(&name, known));
        }
        Kind::InvalidType(_, expected) | Kind::InvalidValue(_, expected) => {
            let expected = match expected.as_str() {
                "a map" => "a table",
                "a sequence" => "an array of tables; write `[[routes]]` above each",
                other => other,
            };
            let (rule, remedy) = expected.split_once("; ").unwrap_or((expected, ""));
            report.fault(path, format!("must be {rule}"), remedy);
        }
        _ => report.fault(path, "can't be read as what this key holds", ""),
    }
}

/// Removes the value at a path; an element of an array is emptied, so that the others keep their numbers.
fn take_out(tree: &mut Value, path: &[String]) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    let mut value = tree;
    for key in above {
        let inner = match value {
            Value::Dict(_, dict) => dict.get_mut(key),
            Value::Array(_, array) => key.parse::<usize>().ok().and_then(|index| array.get_mut(index)),
            _ => None,
        };
        let Some(inner) = inner else { return false };
        value = inner;
    }
    match value {
        Value::Dict(_, dict) => dict.remove(last).is_some(),
        Value::Array(_, array) => {
            let element = last.parse::<usize>().ok().and_then(|index| array.get_mut(index));
            element.map(|element| *element = Value::from(Dict::new())).is_some()
        }
        _ => false,
    }
}

/// A help text: the known key that the unknown one was probably meant to be, else all of them.
fn nearest(name: &str, known: &[&str]) -> String {
    let best = known.iter().map(|key| (distance(name, key), key)).min();
    match best {
        Some((edits, key)) if edits <= 2 || key.contains(name) => format!("did you mean `{key}`?"),
        _ => format!(
            "known here: {}",
            known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Levenshtein distance in bytes; of long names only the start is compared.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (&a.as_bytes()[..a.len().min(64)], b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_offered() {
        let known = ["max_refusals", "lease", "poll"];
        assert_eq!(nearest("leas", &known), "did you mean `lease`?");
        assert_eq!(nearest("max_refusal", &known), "did you mean `max_refusals`?");
        assert_eq!(nearest("elephant", &known), "known here: `max_refusals`, `lease`, `poll`");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
