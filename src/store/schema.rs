//! The schema that a tenant's tables are in: a checked name, and SQL text with that name in it.
//!
//! The SQL files say `outrider`; this puts another name in its place. It must not let a name through that could end a
//! quoted identifier, a literal or a function's body.

use std::fmt;
use std::str::FromStr;

/// Longest name in bytes; PostgreSQL would cut a longer one silently.
const MAX_BYTES: usize = 63;

/// A valid schema name. Default: `outrider`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Schema(String);

/// Why a name cannot be the schema of a tenant's tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaNameError {
    #[error("use an empty schema name: leave it out to get `outrider`")]
    Empty,
    #[error("use schema `{0}`: a name has at most 63 bytes")]
    TooLong(String),
    #[error("use schema `{0}`: control characters and any of ' $ % \\ are not allowed in it")]
    Character(String),
    #[error("use schema `{0}`: give outrider a schema of its own, such as `outrider`")]
    Reserved(String),
}

impl Schema {
    /// Checks a name.
    ///
    /// # Errors
    /// Names that are empty, longer than 63 bytes, hold a control character or one of `'$%\`, and
    /// those that belong to PostgreSQL or to everybody (`pg_*`, `information_schema`, `public`).
    pub fn new(name: impl Into<String>) -> Result<Self, SchemaNameError> {
        let name = name.into();
        if name.is_empty() {
            Err(SchemaNameError::Empty)
        } else if name.len() > MAX_BYTES {
            Err(SchemaNameError::TooLong(name))
        } else if name.chars().any(|c| c.is_control() || "'$%\\".contains(c)) {
            Err(SchemaNameError::Character(name.escape_default().to_string()))
        } else if name.starts_with("pg_") || name == "information_schema" || name == "public" {
            Err(SchemaNameError::Reserved(name))
        } else {
            Ok(Self(name))
        }
    }

    /// The name as it is in the catalog.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The name as an identifier in SQL text.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.0.replace('"', "\"\""))
    }

    /// SQL text that was written for schema `outrider`, for this one: as a qualifier, after the
    /// word SCHEMA, and as a literal.
    pub(super) fn place_in(&self, text: &str) -> String {
        let quoted = self.quoted();
        text.replace("outrider.", &format!("{quoted}."))
            .replace("SCHEMA outrider", &format!("SCHEMA {quoted}"))
            .replace("'outrider'", &format!("'{}'", self.0))
    }

    /// A number for advisory locks that are to concern this schema of this database and nothing else.
    pub(super) fn advisory_key(&self, purpose: &str) -> i64 {
        let id = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, format!("{purpose}\0{}", self.0).as_bytes());
        i64::from_be_bytes(id.as_bytes()[..8].try_into().expect("a uuid has 16 bytes"))
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self("outrider".to_owned())
    }
}

impl FromStr for Schema {
    type Err = SchemaNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({:?})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_their_quotes_are_refused() {
        for name in
            ["", "a'b", "a$b", "a%b", "a\\b", "a\nb", "a\0b", "pg_temp", "information_schema", "public"]
        {
            assert!(Schema::new(name).is_err(), "{name:?}");
        }
        assert!(Schema::new("x".repeat(64)).is_err());
        assert!(Schema::new("é".repeat(32)).is_err(), "bytes count, not characters");
        for name in ["outrider", "Out rider-1", "a\"b", "schéma", "select", "x.y"] {
            assert_eq!(Schema::new(name).unwrap().name(), name);
        }
    }

    #[test]
    fn the_name_takes_its_place_everywhere() {
        let schema = Schema::new("a\"b").unwrap();
        let text =
            "CREATE SCHEMA outrider; SELECT outrider.f('outrider.t'::regclass, 'outrider') -- outrider_app";
        assert_eq!(
            schema.place_in(text),
            "CREATE SCHEMA \"a\"\"b\"; SELECT \"a\"\"b\".f('\"a\"\"b\".t'::regclass, 'a\"b') -- outrider_app"
        );
    }

    #[test]
    fn advisory_keys_differ_by_purpose_and_schema() {
        let (one, two) = (Schema::default(), Schema::new("other").unwrap());
        assert_ne!(one.advisory_key("migrate"), two.advisory_key("migrate"));
        assert_ne!(one.advisory_key("migrate"), one.advisory_key("retention"));
        assert_eq!(one.advisory_key("migrate"), Schema::default().advisory_key("migrate"));
    }
}
