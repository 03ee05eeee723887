//! The process's environment as the config sees it: overrides, and what `env:` references name.
//!
//! Taken once and passed along, so that tests bring one of their own. Its `Debug` shows names only.

use std::collections::BTreeMap;
use std::fmt;

/// Variables and their values. Those that are not Unicode are left out.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    const PREFIX: &str = "OUTRIDER_";
    const SEPARATOR: &str = "__";

    /// The environment that this process was started with.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    pub fn var(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The variables that set a config key, each with the key's path: `OUTRIDER_SHUTDOWN__GRACE` sets
    /// `shutdown.grace`. Every key is in a section, so a variable without `__` is none of them; that keeps
    /// `OUTRIDER_CONFIG` out, and what Kubernetes sets for a service that is called `outrider`.
    ///
    /// Names are lower-cased. A key with a dot or an upper-case letter can't be reached; give it an `env:`
    /// reference in the file instead.
    pub(super) fn overrides(&self) -> impl Iterator<Item = Override<'_>> {
        self.0.iter().filter_map(|(variable, value)| {
            let path = variable.strip_prefix(Self::PREFIX)?;
            let path: Vec<String> = path.split(Self::SEPARATOR).map(str::to_lowercase).collect();
            let reachable = path.len() > 1 && path.iter().all(|key| !key.is_empty());
            reachable.then_some(Override { variable, path, value })
        })
    }
}

/// A variable that sets the value at a path.
pub(super) struct Override<'a> {
    pub(super) variable: &'a str,
    pub(super) path: Vec<String>,
    pub(super) value: &'a str,
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Environment(variables.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_with_a_section_override() {
        let environment: Environment = [
            ("OUTRIDER_CONFIG", "x"),
            ("OUTRIDER_PORT_9464_TCP", "tcp://10.0.0.1:9464"),
            ("OUTRIDER_TEST_POSTGRES_URL", "postgres://"),
            ("OUTRIDER_ADMIN__LISTEN", "0.0.0.0:9464"),
            ("OUTRIDER_BROKERS__KAFKA-EU__PARAMS__CLIENT_ID", "a"),
            ("OUTRIDER___X", "y"),
            ("OUTRIDER_A____B", "y"),
            ("PATH", "a__b"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into_iter()
        .collect();
        let paths: Vec<String> = environment.overrides().map(|found| found.path.join(".")).collect();
        assert_eq!(paths, ["admin.listen", "brokers.kafka-eu.params.client_id"]);
        assert!(!format!("{environment:?}").contains("postgres://"));
    }
}
