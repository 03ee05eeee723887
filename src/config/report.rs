//! Collects faults and warnings while a config is checked, each with its place and value.

use std::collections::BTreeSet;

use figment::value::{Num, Value};

use super::fault::{ConfigErrors, Fault, Warning};
use super::key::KeyPath;
use super::source::Sources;

/// Characters of a value that are shown.
const SHOWN_CHARS: usize = 80;

/// The faults found so far.
pub(super) struct Report<'a> {
    sources: &'a Sources,
    faults: Vec<Fault>,
    warnings: Vec<Warning>,
    /// Keys that have a fault already, so that no second one is reported for what follows from it.
    unsound: BTreeSet<KeyPath>,
}

impl<'a> Report<'a> {
    pub(super) fn new(sources: &'a Sources, faults: Vec<Fault>) -> Self {
        Report { sources, faults, warnings: Vec::new(), unsound: sources.unread.iter().cloned().collect() }
    }

    pub(super) fn sources(&self) -> &'a Sources {
        self.sources
    }

    /// True unless the key, or a table that it is in, has a fault: then its value is not known.
    pub(super) fn is_sound(&self, path: &KeyPath) -> bool {
        !self.unsound.iter().any(|unsound| path.starts_with(unsound))
    }

    /// Adds a fault, unless the key has one already. The value is shown if it can't be a secret.
    pub(super) fn fault(&mut self, path: &KeyPath, rule: impl Into<String>, remedy: impl Into<String>) {
        let value = self.shown_value(path);
        self.fault_with_value(path, value, rule, remedy);
    }

    /// Likewise, for a value that is a default or that is not to be shown (`None`).
    pub(super) fn fault_with_value(
        &mut self,
        path: &KeyPath,
        value: Option<String>,
        rule: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if self.is_sound(path) {
            let fault = self.place(path, value, rule.into(), remedy.into());
            self.faults.push(fault);
            self.unsound.insert(path.clone());
        }
    }

    /// Says that nothing is known of a key, without a fault.
    pub(super) fn mark_unsound(&mut self, path: &KeyPath) {
        self.unsound.insert(path.clone());
    }

    pub(super) fn warn(&mut self, path: &KeyPath, rule: impl Into<String>, remedy: impl Into<String>) {
        let value = self.shown_value(path);
        let fault = self.place(path, value, rule.into(), remedy.into());
        self.warnings.push(Warning(fault));
    }

    /// The warnings, or the faults if there are any.
    pub(super) fn finish(mut self) -> Result<Vec<Warning>, ConfigErrors> {
        if self.faults.is_empty() {
            return Ok(self.warnings);
        }
        self.faults.sort_by(|a, b| (&a.place, &a.key).cmp(&(&b.place, &b.key)));
        Err(ConfigErrors { faults: self.faults, warnings: self.warnings })
    }

    fn place(&self, path: &KeyPath, value: Option<String>, rule: String, remedy: String) -> Fault {
        let (place, key) = self.sources.origin(path);
        Fault { place, key: key.to_string(), value, rule, remedy }
    }

    fn shown_value(&self, path: &KeyPath) -> Option<String> {
        if path.is_secret() { None } else { self.sources.value(path).and_then(shown) }
    }
}

/// A single value as TOML would write it; nothing for tables and arrays, which may hold anything.
fn shown(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(_, text) => format!("{text:?}"),
        Value::Char(_, c) => format!("{:?}", c.to_string()),
        Value::Bool(_, truth) => truth.to_string(),
        Value::Num(_, number) => number_text(*number),
        Value::Empty(..) | Value::Dict(..) | Value::Array(..) => return None,
    };
    if text.chars().count() <= SHOWN_CHARS {
        return Some(text);
    }
    Some(text.chars().take(SHOWN_CHARS).chain(['…']).collect())
}

fn number_text(number: Num) -> String {
    if let Some(number) = number.to_u128() {
        number.to_string()
    } else if let Some(number) = number.to_i128() {
        number.to_string()
    } else {
        number.to_f64().map_or_else(|| "?".to_owned(), |number| number.to_string())
    }
}
