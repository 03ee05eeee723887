//! How a store reaches its database, and what it sets in every session.

use std::fmt;
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::PgConnectOptions;

use super::schema::Schema;

/// A lock that is not free within this makes a statement fail, undone, and be sent again. Below PostgreSQL's
/// `deadlock_timeout` (1 s), so that crossing statements never wait for the deadlock check.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// How much longer than the server's own limit a reply is waited for. Covers the network; twice as much doubles how long
/// a silent peer holds a lane's work up.
const REPLY_MARGIN: Duration = Duration::from_secs(1);

/// A connection older than this is replaced between two statements, so that a failover which left it on the old server
/// is noticed even where nothing is written.
pub(super) const MAX_AGE: Duration = Duration::from_secs(30 * 60);

/// Settings that are the connection's and not a transaction's: the pooler's own matter.
const PER_CONNECTION: [&str; 5] = [
    "default_transaction_isolation",
    "tcp_keepalives_idle",
    "tcp_keepalives_interval",
    "tcp_keepalives_count",
    "tcp_user_timeout",
];

/// What a [`super::Store`] is made from.
#[derive(Clone)]
pub struct StoreOptions {
    /// Address, credentials, TLS. Session settings are added by the store.
    pub connect: PgConnectOptions,
    pub schema: Schema,
    /// Shown in `pg_stat_activity` after `outrider/`. Default: `store`.
    pub application: String,
    /// Limit for connecting, with TLS and log-in. Default: 5 s.
    pub connect_timeout: Duration,
    /// The server cancels a statement after this. Keep it well below the lease, so that an owner whose database is slow
    /// still has time to renew. Default: 4 s, for a lease of 15 s.
    pub statement_timeout: Duration,
    /// A pooler lends a server connection for one transaction at a time (pgbouncer's `pool_mode = transaction`). Every
    /// statement then runs in a transaction of its own that begins with its settings: four round trips instead of one.
    /// Default: false.
    pub transaction_pooled: bool,
}

impl StoreOptions {
    /// The defaults, for one database.
    pub fn new(connect: PgConnectOptions, schema: Schema) -> Self {
        Self {
            connect,
            schema,
            application: "store".to_owned(),
            connect_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(4),
            transaction_pooled: false,
        }
    }

    /// How long a reply is waited for before the connection is given up.
    pub(super) fn reply_timeout(&self) -> Duration {
        self.statement_timeout + REPLY_MARGIN
    }

    /// The options that are really used: with the session settings that PROTOCOL's statements were measured under. They
    /// travel in the start-up message, so that no session is ever without them. TimeZone is UTC through the driver.
    pub(super) fn session(&self) -> PgConnectOptions {
        let session = self.connect.clone().application_name(&format!("outrider/{}", self.application));
        let session = session.disable_statement_logging();
        if self.transaction_pooled {
            // A pooler hands start-up settings to nobody, and refuses those that it does not know.
            return session.extra_float_digits(None).statement_cache_capacity(0);
        }
        session.options(self.settings())
    }

    /// Begins a transaction with the same settings, for [`StoreOptions::transaction_pooled`]. One message.
    pub(super) fn begin(&self) -> String {
        let mut text = "BEGIN ISOLATION LEVEL READ COMMITTED".to_owned();
        for (name, value) in self.settings() {
            if !PER_CONNECTION.contains(&name) {
                text += &format!("; SET LOCAL {name} = '{value}'");
            }
        }
        text
    }

    fn settings(&self) -> [(&'static str, String); 11] {
        let ms = |d: Duration| d.as_millis().max(1).to_string();
        [
            ("enable_seqscan", "off".into()), // with fresh statistics the planner reads the delivery table whole
            ("jit", "off".into()),
            ("lock_timeout", ms(LOCK_TIMEOUT)),
            ("statement_timeout", ms(self.statement_timeout)),
            ("idle_in_transaction_session_timeout", ms(self.reply_timeout())),
            ("default_transaction_isolation", "read committed".into()), // what the statements are written for
            ("search_path", "pg_catalog".into()),
            // The server notices a vanished client, and its locks go with it.
            ("tcp_keepalives_idle", "15".into()),
            ("tcp_keepalives_interval", "5".into()),
            ("tcp_keepalives_count", "3".into()),
            ("tcp_user_timeout", ms(Duration::from_secs(30))),
        ]
    }

    /// `host:port` or the socket's folder, for messages.
    pub(super) fn address(&self) -> String {
        match self.connect.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", self.connect.get_host(), self.connect.get_port()),
        }
    }
}

/// Without `connect`: the driver's own `Debug` prints the password.
impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("address", &self.address())
            .field("user", &self.connect.get_username())
            .field("database", &self.connect.get_database())
            .field("schema", &self.schema)
            .field("application", &self.application)
            .field("connect_timeout", &self.connect_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .field("transaction_pooled", &self.transaction_pooled)
            .finish_non_exhaustive()
    }
}
