//! What can go wrong between the store and a database, by what the caller has to do about it.
//!
//! Texts fit after "failed to". They name the step, the SQLSTATE and the server's message, never its detail (which can
//! quote data), never a password.

use std::time::Duration;

use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// Longest piece of a server's message that is shown, in characters.
const MAX_MESSAGE: usize = 300;

/// A statement that was not done, or of which nobody knows.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing was sent: no connection to the server, or it does not take one now.
    #[error("connect to the database at `{address}`: {reason}")]
    Unreachable { address: String, reason: String },

    /// Nothing was sent: the server refused the user or the password, or has no entry for them.
    #[error(
        "log in to the database at `{address}` as `{user}`: {message} (SQLSTATE {code}); check user, password and pg_hba.conf"
    )]
    Credentials { address: String, user: String, code: String, message: String },

    /// Nothing was sent: the server has no such database.
    #[error("connect to the database at `{address}`: there is no database `{database}`")]
    NoDatabase { address: String, database: String },

    /// Nothing was sent: the server has no connection left for us.
    #[error(
        "connect to the database at `{address}`: it has no connection left; raise max_connections or lower the number of clients"
    )]
    TooManyConnections { address: String },

    /// The statement may or may not have been done; the connection is gone.
    #[error("{step}: the answer was lost: {reason}")]
    LostReply { step: &'static str, reason: String },

    /// Not done: somebody else held a lock, also after it was sent again a few times.
    #[error("{step}: somebody else holds a lock (SQLSTATE {code}); it is tried again")]
    Busy { step: &'static str, code: String },

    /// Not done: it ran longer than `statement_timeout`, or somebody cancelled it.
    #[error(
        "{step}: the statement was cancelled after at most {limit:?}; look for what slows the database down"
    )]
    Timeout { step: &'static str, limit: Duration },

    /// Not done: the server is a standby or read-only. The connection was dropped, the next one may reach the primary.
    #[error("{step}: the server is read-only; a failover may be under way")]
    ReadOnly { step: &'static str },

    /// Not done: the role lacks a right.
    #[error(
        "{step}: {message} (SQLSTATE 42501); grant the role `outrider_relay`, or run `SELECT {schema}.grant_rights()` as the owner"
    )]
    Denied { step: &'static str, schema: String, message: String },

    /// Not done: a schema, table, column or function is missing.
    #[error("{step}: {message}; run `outrider migrate` for schema `{schema}`")]
    NotMigrated { step: &'static str, schema: String, message: String },

    /// Done, but the answer could not be read: a value that does not fit its type.
    #[error("{step}: the answer could not be read: {reason}")]
    Decode { step: &'static str, reason: String },

    /// Not done: any other error of the server.
    #[error("{step}: {message} (SQLSTATE {code})")]
    Other { step: &'static str, code: String, message: String },
}

impl StoreError {
    /// True when the statement may have been done. The owner of a lane then renews it under a new
    /// owner before it does anything else.
    pub fn outcome_unknown(&self) -> bool {
        matches!(self, Self::LostReply { .. } | Self::Decode { .. })
    }

    /// True when nothing will get better until somebody changes the schema or the rights.
    pub fn is_schema(&self) -> bool {
        matches!(self, Self::NotMigrated { .. } | Self::Denied { .. })
    }

    /// True when there was no connection, so that nothing was sent.
    pub fn is_connect(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Credentials { .. }
                | Self::NoDatabase { .. }
                | Self::TooManyConnections { .. }
        )
    }
}

/// What the connection has to do with an error, beside handing it on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aftermath {
    /// The connection is good.
    Keep,
    /// The connection is good, and the unchanged statement may be sent again.
    SendAgain,
    /// The connection's view of the server is stale; a new one may send the statement again.
    ReconnectAndSendAgain,
    /// The connection is not to be used again.
    Drop,
}

/// Sorts an error that a statement came back with.
pub(super) fn of_statement(
    step: &'static str,
    schema: &str,
    limit: Duration,
    error: sqlx::Error,
) -> (StoreError, Aftermath) {
    let database = match error {
        sqlx::Error::Database(database) => database,
        // The arguments could not be encoded: nothing was sent.
        sqlx::Error::Encode(cause) => {
            return (
                StoreError::Other { step, code: "client".into(), message: short(&cause.to_string()) },
                Aftermath::Keep,
            );
        }
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            return (StoreError::Decode { step, reason: short(&error.to_string()) }, Aftermath::Drop);
        }
        other => {
            return (StoreError::LostReply { step, reason: short(&other.to_string()) }, Aftermath::Drop);
        }
    };
    let code = database.code().unwrap_or_default().into_owned();
    let message = short(database.message());
    // FATAL and PANIC end the session; whether the statement was done before is not certain.
    let ended = database
        .try_downcast_ref::<PgDatabaseError>()
        .is_none_or(|e| matches!(e.severity(), PgSeverity::Fatal | PgSeverity::Panic));
    if ended {
        let reason = format!("{message} (SQLSTATE {code})");
        return (StoreError::LostReply { step, reason }, Aftermath::Drop);
    }
    let schema = schema.to_owned();
    match code.as_str() {
        "55P03" | "40P01" | "40001" => (StoreError::Busy { step, code }, Aftermath::SendAgain),
        // A prepared statement is gone or no longer fits: a pooler, or a migration under way.
        "26000" | "0A000" | "08P01" => {
            (StoreError::Other { step, code, message }, Aftermath::ReconnectAndSendAgain)
        }
        "57014" => (StoreError::Timeout { step, limit }, Aftermath::Keep),
        "25006" => (StoreError::ReadOnly { step }, Aftermath::Drop),
        "42501" => (StoreError::Denied { step, schema, message }, Aftermath::Keep),
        "3F000" | "42P01" | "42703" | "42883" => {
            (StoreError::NotMigrated { step, schema, message }, Aftermath::Keep)
        }
        // Anything unforeseen: a fresh connection costs little and cannot be in an odd state.
        _ => (StoreError::Other { step, code, message }, Aftermath::Drop),
    }
}

/// Sorts an error that connecting came back with.
pub(super) fn of_connect(address: &str, user: &str, database: &str, error: sqlx::Error) -> StoreError {
    let address = address.to_owned();
    let refusal = match error {
        sqlx::Error::Database(refusal) => refusal,
        other => return StoreError::Unreachable { address, reason: short(&other.to_string()) },
    };
    let code = refusal.code().unwrap_or_default().into_owned();
    let message = short(refusal.message());
    match code.as_str() {
        "28P01" | "28000" => StoreError::Credentials { address, user: user.to_owned(), code, message },
        "3D000" => StoreError::NoDatabase { address, database: database.to_owned() },
        "53300" => StoreError::TooManyConnections { address },
        _ => StoreError::Unreachable { address, reason: format!("{message} (SQLSTATE {code})") },
    }
}

/// A message without control characters, cut to a length that fits a log line.
fn short(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_MESSAGE).collect()
}
