//! What is wrong with a config, or doubtful: where, which key, which value, which rule, what to do.
//!
//! A fault never holds a secret: whoever makes one leaves the value out where it may be one.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A file, and the line in it (from 1) where that is known.
    File { path: PathBuf, line: Option<usize> },
    /// An environment variable.
    Variable(String),
}

impl Place {
    /// A whole file or directory.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Place::File { path: path.into(), line: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { path, line: Some(line) } => write!(f, "{}:{line}", path.display()),
            Place::File { path, line: None } => write!(f, "{}", path.display()),
            Place::Variable(name) => write!(f, "${name}"),
        }
    }
}

/// One thing that is wrong ([`ConfigErrors`]) or doubtful ([`Warning`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    pub place: Place,
    /// Key path inside that place, such as `brokers.kafka-eu.publish_deadline`; empty for a whole file.
    pub key: String,
    /// The value as it was written. `None` if there is none, or if it may be a secret.
    pub value: Option<String>,
    /// What must hold, or what is the matter.
    pub rule: String,
    /// What to do. Empty where the rule says it already.
    pub remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place)?;
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        if let Some(value) = &self.value {
            write!(f, " = {value}")?;
        }
        for line in self.rule.lines() {
            write!(f, "\n    {line}")?;
        }
        if !self.remedy.is_empty() {
            write!(f, "\n    help: {}", self.remedy)?;
        }
        Ok(())
    }
}

/// Something that works and is probably not what was meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Warning(pub Fault);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Every fault that a config has, in the order of places and keys. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigErrors {
    pub faults: Vec<Fault>,
    /// What was doubtful beside the faults.
    pub warnings: Vec<Warning>,
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.faults.len();
        write!(f, "read the config: {count} fault{}", if count == 1 { "" } else { "s" })?;
        for fault in &self.faults {
            write!(f, "\n\n{fault}")?;
        }
        Ok(())
    }
}
