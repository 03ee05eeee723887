//! Secrets by reference: `env:NAME` and `file:PATH`. Whatever is resolved here is never shown.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::source::read_text;

/// What stands for a value that is not shown.
pub(super) const MASKED: &str = "[masked]";

/// Bytes that a secret's file may have: room for a chain of certificates and its key.
const MAX_SECRET_BYTES: u64 = 256 << 10;

/// A text of the config, by how it gives its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference<'a> {
    Variable(&'a str),
    File(&'a str),
    Literal,
}

fn reference(text: &str) -> Reference<'_> {
    if let Some(name) = text.strip_prefix("env:") {
        Reference::Variable(name)
    } else if let Some(path) = text.strip_prefix("file:") {
        Reference::File(path)
    } else {
        Reference::Literal
    }
}

/// A reference that leads nowhere: what must hold, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unresolved {
    pub(super) rule: String,
    pub(super) remedy: String,
}

/// Where references lead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secrets<'a> {
    pub(super) environment: &'a Environment,
    /// Relative paths start here: the config's directory.
    pub(super) dir: &'a Path,
}

impl Secrets<'_> {
    /// The value that a text stands for: what it refers to, else itself. A file's last line break is no part
    /// of the value.
    pub(super) fn resolve(&self, text: &str) -> Result<String, Unresolved> {
        match reference(text) {
            Reference::Literal => Ok(text.to_owned()),
            Reference::Variable(name) => {
                let value = self.environment.var(name).unwrap_or_default();
                if value.is_empty() {
                    return Err(Unresolved {
                        rule: format!("refers to the environment variable `{name}`, which is not set"),
                        remedy: format!(
                            "set `{name}` for outrider, or refer to another with `env:` or `file:`"
                        ),
                    });
                }
                Ok(value.to_owned())
            }
            Reference::File(path) => {
                let path: PathBuf = self.dir.join(path);
                let unresolved = |what: String| Unresolved {
                    rule: format!("refers to the file `{}`, which {what}", path.display()),
                    remedy: "write the secret into that file, readable for outrider and nobody else".into(),
                };
                let text = read_text(&path, MAX_SECRET_BYTES)
                    .map_err(|error| unresolved(format!("could not be read: {error}")))?;
                let value = text.strip_suffix('\n').unwrap_or(&text);
                let value = value.strip_suffix('\r').unwrap_or(value);
                if value.is_empty() { Err(unresolved("is empty".into())) } else { Ok(value.to_owned()) }
            }
        }
    }
}

/// The text, if it only says where the value is.
pub(super) fn shown(text: &str) -> &str {
    if is_literal(text) { MASKED } else { text }
}

pub(super) fn is_literal(text: &str) -> bool {
    reference(text) == Reference::Literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_resolve_or_say_why_not() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "marker\r\n").unwrap();
        std::fs::write(dir.path().join("two"), "a\n\n").unwrap();
        std::fs::write(dir.path().join("empty"), "\n").unwrap();
        std::fs::write(dir.path().join("binary"), [0xff, 0xfe]).unwrap();
        let environment = [("SET", "value"), ("EMPTY", "")].map(|(name, value)| (name.into(), value.into()));
        let environment: Environment = environment.into_iter().collect();
        let secrets = Secrets { environment: &environment, dir: dir.path() };
        let absolute = format!("file:{}", dir.path().join("secret").display());
        for (text, expected) in [
            ("plain", Some("plain")),
            ("env:SET", Some("value")),
            ("env:EMPTY", None),
            ("env:UNSET", None),
            ("env:", None),
            ("file:secret", Some("marker")),
            (&absolute, Some("marker")),
            ("file:two", Some("a\n")),
            ("file:empty", None),
            ("file:missing", None),
            ("file:binary", None),
            ("file:", None),
        ] {
            assert_eq!(secrets.resolve(text).ok().as_deref(), expected, "{text}");
        }
        let unresolved = secrets.resolve("env:UNSET").unwrap_err();
        assert!(unresolved.rule.contains("`UNSET`"), "{unresolved:?}");
        assert!(secrets.resolve("file:missing").unwrap_err().rule.contains("missing"));
    }

    #[test]
    fn only_references_are_shown() {
        assert_eq!(shown("env:NAME"), "env:NAME");
        assert_eq!(shown("file:/run/secrets/x"), "file:/run/secrets/x");
        assert_eq!(shown("marker"), MASKED);
    }
}
