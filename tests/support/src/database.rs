//! A database of its own for each test, copied from a migrated template; gone when it goes out of scope.
//!
//! The template is made once per server and script, under an advisory lock, so that tests in any number of processes share
//! it. The script comes from the caller: this crate knows no table.

use std::str::FromStr;

use anyhow::Context;
use outrider_servers::address;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use uuid::Uuid;

/// Serialises the making of templates on one server. Any number does, as long as it is the same everywhere.
const TEMPLATE_LOCK: i64 = 0x6f75_7472_6964_6572;

/// Which server a database is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// PostgreSQL 15; always there.
    Postgres15,
    /// PostgreSQL 18; absent where it could not be had.
    Postgres18,
}

impl Server {
    /// Superuser URL of the server. `None`: this machine has none, and the caller says so.
    pub fn url(self) -> Option<String> {
        match self {
            Self::Postgres15 => Some(address::postgres()),
            Self::Postgres18 => address::postgres18(),
        }
    }
}

/// A database that is dropped, with its sessions, when this value is; unless the whole server ends after the run
/// ([`address::KEEP_DATABASES`]), for dropping one waits for a checkpoint.
#[derive(Debug)]
pub struct TestDatabase {
    server: PgConnectOptions,
    name: String,
}

impl TestDatabase {
    /// A copy of the template that `script` makes, on PostgreSQL 15.
    ///
    /// # Errors
    /// A server that does not answer, or a script that fails.
    pub async fn create(script: &str) -> anyhow::Result<Self> {
        let url = address::postgres();
        Self::create_at(&url, script).await
    }

    /// The same on a server of the caller's choice, by superuser URL.
    pub async fn create_at(url: &str, script: &str) -> anyhow::Result<Self> {
        let server = options(url)?;
        let mut admin = connect(&server).await?;
        let template =
            template(&mut admin, &server, script).await.context("failed to make the template database")?;
        Self::copy(admin, server, &template).await
    }

    /// An empty database.
    pub async fn empty_at(url: &str) -> anyhow::Result<Self> {
        let server = options(url)?;
        Self::copy(connect(&server).await?, server, "template0").await
    }

    async fn copy(mut admin: PgConnection, server: PgConnectOptions, template: &str) -> anyhow::Result<Self> {
        let name = format!("outrider_test_{}", Uuid::new_v4().simple());
        run(&mut admin, format!("CREATE DATABASE {name} TEMPLATE {template}")).await?;
        admin.close().await?;
        Ok(Self { server, name })
    }

    /// Its name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How to connect to it, as superuser.
    pub fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// The same as a URL, credentials included.
    pub fn url(&self) -> String {
        self.options().to_url_lossy().to_string()
    }

    /// A connection as superuser, without outrider's session settings.
    pub async fn connect(&self) -> anyhow::Result<PgConnection> {
        self.options().connect().await.with_context(|| format!("failed to connect to `{}`", self.name))
    }

    /// A pool of such connections.
    pub async fn pool(&self, connections: u32) -> anyhow::Result<sqlx::PgPool> {
        let pool = sqlx::postgres::PgPoolOptions::new().max_connections(connections);
        Ok(pool.connect_with(self.options()).await?)
    }

    /// A connection to the server's own database, for what cannot be said from inside this one.
    pub async fn admin(&self) -> anyhow::Result<PgConnection> {
        Ok(self.server.connect().await?)
    }
}

impl TestDatabase {
    /// Drops it now and in any case: for one whose roles are to go too.
    pub fn remove(self) {
        self.drop_it();
    }

    fn drop_it(&self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // A thread with a runtime of its own: the test's runtime may be gone or may be the one that runs this.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut admin = server.connect().await?;
                run(&mut admin, format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")).await
            })
        })
        .join();
        if let Ok(Err(error)) = dropped {
            eprintln!("failed to drop database `{}`: {error:#}", self.name);
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if !address::keep_databases() {
            self.drop_it();
        }
    }
}

fn options(url: &str) -> anyhow::Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url).context("failed to read the test server's URL")?;
    Ok(options.disable_statement_logging())
}

async fn connect(server: &PgConnectOptions) -> anyhow::Result<PgConnection> {
    server.connect().await.context("failed to connect to the test server")
}

/// The template's name; makes it if the server has none for this script.
async fn template(
    admin: &mut PgConnection,
    server: &PgConnectOptions,
    script: &str,
) -> anyhow::Result<String> {
    let version = Uuid::new_v5(&Uuid::NAMESPACE_OID, script.as_bytes()).simple().to_string();
    let name = format!("outrider_template_{version}");
    let exists = || {
        sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)").bind(name.clone())
    };
    if exists().fetch_one(&mut *admin).await? {
        return Ok(name);
    }
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut *admin).await?;
    let made: bool = exists().fetch_one(&mut *admin).await?;
    if !made {
        // Made under another name first: a process that ends half-way leaves no template that looks whole.
        let draft = format!("outrider_draft_{version}");
        run(admin, format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)")).await?;
        run(admin, format!("CREATE DATABASE {draft} TEMPLATE template0")).await?;
        let mut inside = server.clone().database(&draft).connect().await?;
        run(&mut inside, format!("BEGIN;\n{script}\nCOMMIT;")).await?;
        inside.close().await?;
        run(admin, format!("ALTER DATABASE {draft} RENAME TO {name}")).await?;
    }
    sqlx::query("SELECT pg_advisory_unlock($1)").bind(TEMPLATE_LOCK).execute(admin).await?;
    Ok(name)
}

async fn run(connection: &mut PgConnection, sql: String) -> anyhow::Result<()> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
    Ok(())
}
