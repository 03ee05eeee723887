//! What can keep a schema from being migrated.

use std::time::Duration;

use crate::store::StoreError;

/// A migration that was not done. Whatever was applied before it stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    #[error(transparent)]
    Connect(#[from] StoreError),

    #[error(
        "migrate schema `{schema}`: it has version {version} and this program knows {known}; use a newer outrider"
    )]
    Newer { schema: String, version: i32, known: i32 },

    #[error(
        "migrate schema `{schema}`: migration {version} `{name}` is not the one that was applied there; use the outrider that applied it, and add changes as new migrations"
    )]
    Changed { schema: String, version: i32, name: String },

    #[error("migrate on PostgreSQL {found}: outrider needs 15 or newer")]
    ServerVersion { found: String },

    #[error(
        "migrate a database with encoding SQL_ASCII: make it with another encoding, such as UTF8, for texts could not be read back"
    )]
    Encoding,

    #[error(
        "migrate schema `{schema}`, migration {version} `{name}`: somebody held a lock for {waited:?}; nothing of it was done, run it again"
    )]
    Locked { schema: String, version: i32, name: &'static str, waited: Duration },

    #[error(
        "migrate schema `{schema}`, migration {version} `{name}`: {message} (SQLSTATE {code}); nothing of it was done"
    )]
    Statement { schema: String, version: i32, name: &'static str, code: String, message: String },

    #[error(
        "migrate schema `{schema}` through a transaction pooler: it needs a session; give this one command the server's own address, as OUTRIDER_TENANTS__NAME__DATABASE__URL, and OUTRIDER_TENANTS__NAME__DATABASE__POOLING=session"
    )]
    Pooled { schema: String },

    #[error("migrate schema `{schema}`: {message}")]
    Lost { schema: String, message: String },
}
