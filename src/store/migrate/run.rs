//! Running migrations: one runner at a time, each file in its own transaction, never waiting long for a lock.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, Postgres};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use tokio::time::{Instant, sleep, timeout};

use super::{Applied, MIGRATIONS, MigrateError, Migration, SchemaState, pending, state_of};
use crate::store::error::of_connect;
use crate::store::options::StoreOptions;
use crate::store::schema::Schema;
use crate::store::sql::Statements;

/// How long one attempt waits for a lock. Whoever queues behind it waits as long, so it is short.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause before the next attempt, in which others get their locks.
const PAUSE: Duration = Duration::from_millis(500);

/// Roles that the rights are given to.
const ROLES: [&str; 2] = ["outrider_app", "outrider_relay"];

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Applied by this run, in order; empty when the schema was current.
    pub applied: Vec<&'static Migration>,
    /// What an administrator still has to do, as sentences.
    pub notes: Vec<String>,
}

/// How the schema stands. Changes nothing.
pub async fn status(connect: &PgConnectOptions, schema: &Schema) -> Result<SchemaState, MigrateError> {
    let mut connection = open(connect, schema).await?;
    let applied = applied(&mut connection, schema).await?;
    let _ = connection.close().await;
    Ok(state_of(&applied))
}

/// What [`apply`] would do. Changes nothing.
///
/// # Errors
/// As [`apply`], for what can be known beforehand.
pub async fn plan(
    connect: &PgConnectOptions,
    schema: &Schema,
) -> Result<Vec<&'static Migration>, MigrateError> {
    let mut connection = open(connect, schema).await?;
    let applied = applied(&mut connection, schema).await?;
    let _ = connection.close().await;
    refuse_strange(schema, &state_of(&applied))?;
    Ok(pending(&applied))
}

/// Applies what is missing. A second run at the same time waits its turn and then finds nothing to do.
///
/// Each migration waits at most 2 s for a lock, then lets others pass and tries again, until `patience` is over.
///
/// # Errors
/// A schema that is newer or different, a server that does not fit, a lock, or what the server said. Migrations before the
/// failed one stay applied.
pub async fn apply(
    connect: &PgConnectOptions,
    schema: &Schema,
    patience: Duration,
) -> Result<Report, MigrateError> {
    let mut connection = open(connect, schema).await?;
    check_server(&mut connection, schema).await?;
    let mut report = Report::default();
    for migration in MIGRATIONS {
        if apply_one(&mut connection, schema, migration, patience).await? {
            report.applied.push(migration);
        }
    }
    report.notes = notes(&mut connection, schema).await.map_err(|error| lost(schema, &error))?;
    let _ = connection.close().await;
    Ok(report)
}

/// Applies one, if it is missing. Returns whether it did.
async fn apply_one(
    connection: &mut PgConnection,
    schema: &Schema,
    migration: &'static Migration,
    patience: Duration,
) -> Result<bool, MigrateError> {
    let begun = Instant::now();
    loop {
        let error = match attempt(connection, schema, migration).await {
            Ok(done) => return done,
            Err(error) => error,
        };
        let Some(database) = error.as_database_error() else { return Err(lost(schema, &error)) };
        let code = database.code().unwrap_or_default().into_owned();
        let message = database.message().to_owned();
        // The transaction failed; without this the session stays in it.
        connection.execute("ROLLBACK").await.map_err(|error| lost(schema, &error))?;
        let (version, name) = (migration.version, migration.name);
        let schema_name = schema.name().to_owned();
        if !matches!(code.as_str(), "55P03" | "40P01") {
            return Err(MigrateError::Statement { schema: schema_name, version, name, code, message });
        }
        if begun.elapsed() + PAUSE >= patience {
            return Err(MigrateError::Locked { schema: schema_name, version, name, waited: begun.elapsed() });
        }
        sleep(PAUSE).await;
    }
}

/// One try in one transaction. The advisory lock lives as long as the transaction, so it is safe behind a pooler, and what
/// was applied is read after it is held.
async fn attempt(
    connection: &mut PgConnection,
    schema: &Schema,
    migration: &'static Migration,
) -> Result<Result<bool, MigrateError>, sqlx::Error> {
    connection.execute("BEGIN").await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)")
        .bind(schema.advisory_key("migrate"))
        .execute(&mut *connection)
        .await?;
    let applied = read_applied(connection, schema).await?;
    let verdict = refuse_strange(schema, &state_of(&applied));
    let missing = applied.iter().all(|a| a.version != migration.version);
    if verdict.is_err() || !missing {
        connection.execute("ROLLBACK").await?;
        return Ok(verdict.map(|()| false));
    }
    connection.execute(sqlx::raw_sql(AssertSqlSafe(migration.sql(schema)))).await?;
    connection.execute(sqlx::raw_sql(AssertSqlSafe(migration.record(schema)))).await?;
    connection.execute("COMMIT").await?;
    Ok(Ok(true))
}

fn refuse_strange(schema: &Schema, state: &SchemaState) -> Result<(), MigrateError> {
    let schema = schema.name().to_owned();
    match state {
        SchemaState::Newer { version, known } => {
            Err(MigrateError::Newer { schema, version: *version, known: *known })
        }
        SchemaState::Changed { version, name } => {
            Err(MigrateError::Changed { schema, version: *version, name: name.clone() })
        }
        SchemaState::Missing | SchemaState::Behind { .. } | SchemaState::Current => Ok(()),
    }
}

async fn open(connect: &PgConnectOptions, schema: &Schema) -> Result<PgConnection, MigrateError> {
    let options = StoreOptions::new(connect.clone(), schema.clone());
    let session = connect
        .clone()
        .application_name("outrider/migrate")
        .options([
            ("lock_timeout", LOCK_TIMEOUT.as_millis().to_string()),
            ("default_transaction_isolation", "read committed".to_owned()),
            ("search_path", "pg_catalog".to_owned()),
        ])
        .disable_statement_logging();
    let limit = options.connect_timeout;
    let opened = timeout(limit, session.connect()).await.unwrap_or_else(|_| {
        Err(sqlx::Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!("no connection within {limit:?}"),
        )))
    });
    opened.map_err(|error| {
        let user = connect.get_username();
        of_connect(&options.address(), user, connect.get_database().unwrap_or(user), error).into()
    })
}

async fn check_server(connection: &mut PgConnection, schema: &Schema) -> Result<(), MigrateError> {
    let row = sqlx::query("SELECT current_setting('server_version'), current_setting('server_version_num')::int, current_setting('server_encoding')")
        .fetch_one(&mut *connection)
        .await
        .map_err(|error| lost(schema, &error))?;
    if row.get::<i32, _>(1) < 150_000 {
        return Err(MigrateError::ServerVersion { found: row.get(0) });
    }
    if row.get::<&str, _>(2) == "SQL_ASCII" {
        return Err(MigrateError::Encoding);
    }
    Ok(())
}

async fn applied(connection: &mut PgConnection, schema: &Schema) -> Result<Vec<Applied>, MigrateError> {
    read_applied(connection, schema).await.map_err(|error| lost(schema, &error))
}

async fn read_applied(connection: &mut PgConnection, schema: &Schema) -> Result<Vec<Applied>, sqlx::Error> {
    let statements = Statements::new(schema);
    let installed: bool =
        statements.installed.query().bind(schema.name()).fetch_one(&mut *connection).await?.try_get(0)?;
    if !installed {
        return Ok(Vec::new());
    }
    let rows = statements.applied.query().fetch_all(&mut *connection).await?;
    rows.iter()
        .map(|row| {
            Ok(Applied {
                version: row.try_get("version")?,
                name: row.try_get("name")?,
                checksum: row.try_get("checksum")?,
            })
        })
        .collect()
}

/// What the roles still lack.
async fn notes(connection: &mut PgConnection, schema: &Schema) -> Result<Vec<String>, sqlx::Error> {
    let again = format!("run `SELECT {}.grant_rights()` as the schema's owner", schema.quoted());
    let mut notes = Vec::new();
    for role in ROLES {
        let row = sqlx::query::<Postgres>(
            "SELECT r.oid IS NOT NULL AS made, has_schema_privilege(r.oid, n.oid, 'USAGE') AS granted, \
                    coalesce('enable_seqscan=off' = ANY (r.rolconfig), false) AS tuned \
               FROM pg_namespace n LEFT JOIN pg_roles r ON r.rolname = $2 WHERE n.nspname = $1",
        )
        .bind(schema.name())
        .bind(role)
        .fetch_one(&mut *connection)
        .await?;
        if !row.try_get::<bool, _>("made")? {
            notes.push(format!(
                "role `{role}` does not exist and could not be made here: create it, then {again}"
            ));
        } else if !row.try_get::<Option<bool>, _>("granted")?.unwrap_or(false) {
            notes.push(format!("role `{role}` has no rights on schema `{schema}`: {again}"));
        } else if role == "outrider_relay" && !row.try_get::<bool, _>("tuned")? {
            notes.push(format!(
                "role `{role}` lacks its planner settings, which matter behind a pooler: {again}, as a role that may alter it"
            ));
        }
    }
    Ok(notes)
}

fn lost(schema: &Schema, error: &sqlx::Error) -> MigrateError {
    MigrateError::Lost { schema: schema.name().to_owned(), message: error.to_string() }
}
