//! Where the figures were taken: without that they mean nothing.

use std::str::FromStr;

use anyhow::{Context, Result};
use outrider_servers::address;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use crate::process;

/// Settings of the server that a drain's speed hangs on.
const SETTINGS: [&str; 5] =
    ["server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"];

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    /// Load average before the first run.
    pub(crate) load: Option<f64>,
    pub(crate) postgres: Vec<(&'static str, String)>,
}

impl Machine {
    pub(crate) async fn look() -> Result<Machine> {
        let options = PgConnectOptions::from_str(&address::postgres()).context("read PostgreSQL's URL")?;
        let mut connection =
            options.disable_statement_logging().connect().await.context("connect to PostgreSQL")?;
        let mut postgres = Vec::new();
        for name in SETTINGS {
            postgres.push((name, setting(&mut connection, name).await?));
        }
        connection.close().await?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Machine { cores, load: process::load(), postgres })
    }

    pub(crate) fn describe(&self) -> String {
        let settings: Vec<String> =
            self.postgres.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let load = self.load.map_or(String::new(), |load| format!(", load {load:.1} before"));
        format!("{} cores{load}; PostgreSQL {}", self.cores, settings.join(", "))
    }
}

async fn setting(connection: &mut PgConnection, name: &str) -> Result<String> {
    let value = sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(connection).await;
    value.with_context(|| format!("read the setting `{name}`"))
}
