//! The tables of a tenant's database: numbered files under `migrations/`, forward only, each in a transaction of its own.
//!
//! `plan`, `apply`, `sql` and `status` are all there is. Nothing here runs by itself: a daemon only looks.

mod error;
mod run;

use std::fmt::Write;

use uuid::Uuid;

pub use self::error::MigrateError;
pub use self::run::{Report, apply, plan, status};
use super::schema::Schema;

/// One file under `migrations/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its number, from 1 without a gap.
    pub version: i32,
    /// The rest of its file's name.
    pub name: &'static str,
    source: &'static str,
}

/// A migration that a schema says it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) version: i32,
    pub(super) name: String,
    pub(super) checksum: String,
}

/// How a schema stands to this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// Nothing was applied.
    Missing,
    /// Some are missing; `version` is the newest that it has.
    Behind {
        version: i32,
        latest: i32,
    },
    Current,
    /// It has a migration that this program does not know.
    Newer {
        version: i32,
        known: i32,
    },
    /// A file was changed after it was applied, or the schema was made by something else.
    Changed {
        version: i32,
        name: String,
    },
}

macro_rules! migrations {
    ($($version:literal $name:literal;)+) => {
        /// All migrations, oldest first.
        pub const MIGRATIONS: &[Migration] = &[$(Migration {
            version: $version,
            name: $name,
            source: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/000", $version, "_", $name, ".sql")),
        },)+];
    };
}

migrations! {
    1 "outbox";
    2 "delivery";
    3 "ownership";
    4 "events";
    5 "publish";
    6 "inbox";
    7 "rights";
    8 "blocked_keys";
}

impl Migration {
    /// What tells that a file was changed: SHA-1 in the form of a UUIDv5, over the text before a schema's name is put in.
    pub fn checksum(&self) -> String {
        let text = self.source.replace("\r\n", "\n");
        Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes()).simple().to_string()
    }

    /// Its text for one schema.
    pub fn sql(&self, schema: &Schema) -> String {
        schema.place_in(self.source)
    }

    /// Why it is there, from the comment on its top.
    pub fn purpose(&self) -> &'static str {
        self.source.lines().next().unwrap_or_default().trim_start_matches("-- ")
    }

    /// What records that it was applied.
    fn record(&self, schema: &Schema) -> String {
        format!(
            "INSERT INTO {}.migration (version, name, checksum) VALUES ({}, '{}', '{}');\n",
            schema.quoted(),
            self.version,
            self.name,
            self.checksum()
        )
    }
}

/// All of it as one script, for teams that migrate with a tool of their own. The script has no BEGIN and COMMIT: run it in
/// one transaction, or let the tool do that. It leaves the same records, so that `outrider migrate` then finds nothing to do.
pub fn sql(schema: &Schema) -> String {
    let mut script = String::new();
    for migration in MIGRATIONS {
        writeln!(script, "-- {:04}_{}", migration.version, migration.name)
            .expect("writing to a String cannot fail");
        script.push_str(&migration.sql(schema));
        script.push_str(&migration.record(schema));
        script.push('\n');
    }
    script
}

/// Compares what a schema has with what this program knows.
pub(super) fn state_of(applied: &[Applied]) -> SchemaState {
    let latest = MIGRATIONS.last().map_or(0, |m| m.version);
    let Some(version) = applied.iter().map(|a| a.version).max() else { return SchemaState::Missing };
    if version > latest {
        return SchemaState::Newer { version, known: latest };
    }
    for migration in MIGRATIONS {
        let found = applied.iter().find(|a| a.version == migration.version);
        if let Some(found) = found
            && (found.checksum != migration.checksum() || found.name != migration.name)
        {
            return SchemaState::Changed { version: found.version, name: found.name.clone() };
        }
    }
    match pending(applied).is_empty() {
        true => SchemaState::Current,
        false => SchemaState::Behind { version, latest },
    }
}

fn pending(applied: &[Applied]) -> Vec<&'static Migration> {
    MIGRATIONS.iter().filter(|m| applied.iter().all(|a| a.version != m.version)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn applied(migrations: &[Migration]) -> Vec<Applied> {
        let applied =
            |m: &Migration| Applied { version: m.version, name: m.name.into(), checksum: m.checksum() };
        migrations.iter().map(applied).collect()
    }

    #[test]
    fn every_file_is_listed_in_order() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
        let found = std::fs::read_dir(folder).unwrap();
        let found: BTreeSet<String> = found.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        let listed = MIGRATIONS.iter().map(|m| format!("{:04}_{}.sql", m.version, m.name)).collect();
        assert_eq!(found, listed);
        let versions: Vec<i32> = MIGRATIONS.iter().map(|m| m.version).collect();
        assert_eq!(versions, (1..=MIGRATIONS.len() as i32).collect::<Vec<_>>());
    }

    #[test]
    fn every_file_says_why_what_it_locks_and_how_long() {
        for migration in MIGRATIONS {
            let top: String = migration.source.lines().take_while(|l| l.starts_with("--")).collect();
            assert!(top.contains("Lock:") && top.contains("Time:"), "{}", migration.name);
            assert!(migration.purpose().ends_with('.'), "{}: a whole sentence", migration.name);
        }
    }

    #[test]
    fn a_schema_is_compared_with_what_is_known() {
        let all = applied(MIGRATIONS);
        let latest = all.len() as i32;
        assert_eq!(state_of(&[]), SchemaState::Missing);
        assert_eq!(state_of(&all), SchemaState::Current);
        assert_eq!(state_of(&all[..2]), SchemaState::Behind { version: 2, latest });
        let mut newer = all.clone();
        newer.push(Applied { version: latest + 5, name: "x".into(), checksum: "y".into() });
        assert_eq!(state_of(&newer), SchemaState::Newer { version: latest + 5, known: latest });
        let mut changed = all;
        changed[1].checksum = "0".into();
        assert_eq!(state_of(&changed), SchemaState::Changed { version: 2, name: "delivery".into() });
    }

    #[test]
    fn the_script_names_no_other_schema() {
        let script = sql(&Schema::new("Other \"one\"").unwrap());
        for leftover in ["outrider.", "SCHEMA outrider", "'outrider'"] {
            assert!(!script.contains(leftover), "{leftover}");
        }
        assert_eq!(script.matches("INSERT INTO \"Other \"\"one\"\"\".migration").count(), MIGRATIONS.len());
    }
}
