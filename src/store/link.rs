//! The one connection of a store: opened when a statement needs it, dropped as soon as it is in doubt.
//!
//! A statement is never cancelled on a connection that is used again: the connection is moved out while a statement runs
//! and put back only after a certain answer, so a future that is dropped half-way takes the connection with it.

use std::time::Duration;

use rand::Rng;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tokio::time::{Instant, sleep, timeout};

use super::error::{self, Aftermath, StoreError};
use super::options::{MAX_AGE, StoreOptions};
use super::sql::{Bound, Statement};

/// How often a statement that met a lock is sent again. With the lock timeout that is about a second in all; more would
/// eat into the lease.
const RESENDS: u32 = 4;

/// Longest pause before a statement is sent again, so that two that crossed do not cross again.
const RESEND_PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) options: StoreOptions,
    connection: Option<Open>,
    /// Statements that were sent again since the store was made.
    resent: u64,
}

#[derive(Debug)]
struct Open {
    connection: PgConnection,
    since: Instant,
}

impl Link {
    pub(super) fn new(options: StoreOptions) -> Self {
        Self { options, connection: None, resent: 0 }
    }

    pub(super) fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    pub(super) fn resent(&self) -> u64 {
        self.resent
    }

    /// Says good-bye to the server, if there is a connection. An error does not matter: the connection is gone either way.
    pub(super) async fn close(&mut self) {
        if let Some(open) = self.connection.take() {
            let _ = timeout(Duration::from_secs(1), open.connection.close()).await;
        }
    }

    /// Connects, if there is no connection yet.
    pub(super) async fn open(&mut self) -> Result<(), StoreError> {
        let open = self.take().await?;
        self.connection = Some(open);
        Ok(())
    }

    /// Runs a statement and returns its rows. `bind` adds the arguments; it is called again for each time it is sent.
    pub(super) async fn rows<'q>(
        &mut self,
        statement: &Statement,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<Vec<PgRow>, StoreError> {
        let mut left = RESENDS;
        loop {
            let (error, aftermath) = match self.once(statement, bind(statement.query())).await {
                Ok(rows) => return Ok(rows),
                Err(failure) => failure,
            };
            let again = matches!(aftermath, Aftermath::SendAgain | Aftermath::ReconnectAndSendAgain);
            if !again || left == 0 {
                return Err(error);
            }
            left -= 1;
            self.resent += 1;
            let pause = rand::rng().random_range(Duration::ZERO..RESEND_PAUSE);
            sleep(pause).await;
        }
    }

    /// Runs a statement that has one row.
    pub(super) async fn row<'q>(
        &mut self,
        statement: &Statement,
        bind: impl Fn(Bound<'q>) -> Bound<'q>,
    ) -> Result<PgRow, StoreError> {
        let mut rows = self.rows(statement, bind).await?;
        rows.pop().ok_or(StoreError::Decode { step: statement.step, reason: "no row came back".into() })
    }

    async fn once(
        &mut self,
        statement: &Statement,
        query: Bound<'_>,
    ) -> Result<Vec<PgRow>, (StoreError, Aftermath)> {
        let mut open = self.take().await.map_err(|error| (error, Aftermath::Drop))?;
        let limit = self.options.reply_timeout();
        let fetch = async {
            if self.options.transaction_pooled {
                return fetch_pooled(&mut open.connection, self.options.begin(), query).await;
            }
            query.fetch_all(&mut open.connection).await
        };
        match timeout(limit, fetch).await {
            Ok(Ok(rows)) => {
                self.connection = Some(open);
                Ok(rows)
            }
            Ok(Err(error)) => {
                let schema = self.options.schema.name();
                let (error, aftermath) =
                    error::of_statement(statement.step, schema, self.options.statement_timeout, error);
                if matches!(aftermath, Aftermath::Keep | Aftermath::SendAgain) {
                    self.connection = Some(open);
                }
                Err((error, aftermath))
            }
            Err(_) => {
                let reason = format!("nothing came back within {limit:?}");
                Err((StoreError::LostReply { step: statement.step, reason }, Aftermath::Drop))
            }
        }
    }

    /// The connection, moved out; a new one where there is none or it is too old.
    async fn take(&mut self) -> Result<Open, StoreError> {
        if self.connection.as_ref().is_some_and(|open| open.since.elapsed() > MAX_AGE) {
            self.close().await;
        }
        match self.connection.take() {
            Some(open) => Ok(open),
            None => connect(&self.options).await.map(|connection| Open { connection, since: Instant::now() }),
        }
    }
}

/// Runs a statement in a transaction of its own, so that all of it meets the same server connection.
async fn fetch_pooled(
    connection: &mut PgConnection,
    begin: String,
    query: Bound<'_>,
) -> Result<Vec<PgRow>, sqlx::Error> {
    // Safe: names and values are ours.
    connection.execute(sqlx::raw_sql(AssertSqlSafe(begin))).await?;
    let rows = query.persistent(false).fetch_all(&mut *connection).await;
    if rows.is_err() {
        // If this fails too, the connection is gone, which the first error does not always say.
        connection.execute(sqlx::raw_sql("ROLLBACK")).await?;
        return rows;
    }
    connection.execute(sqlx::raw_sql("COMMIT")).await?;
    rows
}

/// Opens a connection with the store's session settings.
pub(super) async fn connect(options: &StoreOptions) -> Result<PgConnection, StoreError> {
    let limit = options.connect_timeout;
    match timeout(limit, options.session().connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => {
            let user = options.connect.get_username();
            let database = options.connect.get_database().unwrap_or(user);
            Err(error::of_connect(&options.address(), user, database, error))
        }
        Err(_) => Err(StoreError::Unreachable {
            address: options.address(),
            reason: format!("no connection within {limit:?}"),
        }),
    }
}
