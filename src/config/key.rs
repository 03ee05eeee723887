//! A key's path from the root of the config. Must not know what any key means, but for which ones may hold
//! a secret.

use std::fmt;

/// Keys from the root down; an element of an array by its number, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyPath(Vec<String>);

impl KeyPath {
    pub(super) fn new(keys: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        KeyPath(keys.into_iter().map(|key| key.as_ref().to_owned()).collect())
    }

    #[must_use]
    pub(super) fn key(&self, key: impl Into<String>) -> Self {
        let mut path = self.clone();
        path.0.push(key.into());
        path
    }

    #[must_use]
    pub(super) fn index(&self, index: usize) -> Self {
        self.key(index.to_string())
    }

    pub(super) fn keys(&self) -> &[String] {
        &self.0
    }

    pub(super) fn starts_with(&self, start: &KeyPath) -> bool {
        self.0.starts_with(&start.0)
    }

    /// The name, if this is `tenants.NAME` or below.
    pub(super) fn tenant(&self) -> Option<&str> {
        match self.0.as_slice() {
            [section, name, ..] if section == "tenants" => Some(name),
            _ => None,
        }
    }

    /// The path as a tenant's own file has it: without `tenants.NAME`.
    pub(super) fn inside_tenant(&self) -> KeyPath {
        KeyPath(self.0.get(2..).unwrap_or_default().to_vec())
    }

    /// True if the value may be a secret: a database URL or a broker's parameter.
    pub(super) fn is_secret(&self) -> bool {
        match self.0.as_slice() {
            [section, _, inner, ..] if section == "brokers" => inner == "params",
            [section, _, inner, key, ..] if section == "tenants" => inner == "database" && key == "url",
            _ => false,
        }
    }
}

/// `brokers.kafka-eu.params."bootstrap.servers"`, `routes[0].topic`.
impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, key) in self.0.iter().enumerate() {
            if place > 0 && !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit()) {
                write!(f, "[{key}]")?;
                continue;
            }
            if place > 0 {
                f.write_str(".")?;
            }
            let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            if !key.is_empty() && key.bytes().all(bare) { f.write_str(key)? } else { write!(f, "{key:?}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_like_toml() {
        let params = KeyPath::new(["brokers", "kafka-eu", "params"]).key("bootstrap.servers");
        assert_eq!(params.to_string(), "brokers.kafka-eu.params.\"bootstrap.servers\"");
        assert_eq!(KeyPath::new(["routes"]).index(0).key("topic").to_string(), "routes[0].topic");
        assert_eq!(KeyPath::new(["tenants", "acme", "delivery"]).inside_tenant().to_string(), "delivery");
    }

    #[test]
    fn secrets_are_known_by_their_place() {
        for (path, expected) in [
            ("brokers.rabbit.params.url", true),
            ("brokers.rabbit.params", true),
            ("brokers.params.kind", false),
            ("tenants.acme.database.url", true),
            ("tenants.acme.database.schema", false),
            ("admin.listen", false),
        ] {
            assert_eq!(KeyPath::new(path.split('.')).is_secret(), expected, "{path}");
        }
    }
}
