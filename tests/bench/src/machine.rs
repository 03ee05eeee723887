//! Where the figures were taken: without that they mean nothing.

use std::io::{Seek, Write};
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outrider_servers::{address, place};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};

use crate::process;

/// Settings of the server that a drain's speed hangs on.
const SETTINGS: [&str; 5] =
    ["server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers"];

/// Of PostgreSQL's WAL.
const PAGE: usize = 8192;

const SYNCED_FOR: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    /// Load average before the first run.
    pub(crate) load: Option<f64>,
    pub(crate) postgres: Vec<(&'static str, String)>,
    /// Pages that the disk takes for certain, one after the other.
    pub(crate) syncs_per_second: f64,
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
        let syncs_per_second = tokio::task::block_in_place(syncs_per_second)?;
        Ok(Machine { cores, load: process::load(), postgres, syncs_per_second })
    }

    pub(crate) fn describe(&self) -> String {
        let settings: Vec<String> =
            self.postgres.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let load = self.load.map_or(String::new(), |load| format!(", load {load:.1} before"));
        let (cores, syncs) = (self.cores, self.syncs_per_second);
        format!("{cores} cores{load}; {syncs:.0} fsyncs/s; PostgreSQL {}", settings.join(", "))
    }
}

/// Writes a page and waits for the disk, over and over, where the servers keep their data.
fn syncs_per_second() -> Result<f64> {
    let folder = place::private();
    place::make(&folder)?;
    let mut file = tempfile::tempfile_in(&folder).context("make a file to sync")?;
    let page = [7; PAGE];
    let begun = Instant::now();
    let mut count = 0.0;
    while begun.elapsed() < SYNCED_FOR {
        file.rewind().and_then(|()| file.write_all(&page)).context("write a page")?;
        file.sync_data().context("sync a page")?;
        count += 1.0;
    }
    Ok(count / begun.elapsed().as_secs_f64())
}

async fn setting(connection: &mut PgConnection, name: &str) -> Result<String> {
    let value = sqlx::query_scalar("SELECT current_setting($1)").bind(name).fetch_one(connection).await;
    value.with_context(|| format!("read the setting `{name}`"))
}
