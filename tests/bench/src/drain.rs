//! One drain, from the start of the daemon to its end, and what it cost.
//!
//! The time is the database's own: from the first receipt to the last, so that neither start-up nor how often
//! this program looks counts.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outrider_test_support::daemon::{Daemon, Running};
use outrider_test_support::database::TestDatabase;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use crate::process;

/// Between two looks. Each is a cheap statement; half as often would still be exact.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Without any event settled for this long, the run is given up.
const STALLED: Duration = Duration::from_secs(60);

const SETTLED: &str = "SELECT coalesce(sum(cardinality(seqs)), 0)::bigint FROM outrider.receipt";

const BACKENDS: &str = "SELECT pid FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'";

/// How the drain went by the database's word. The first receipt's events are its start, and don't count.
const RECEIPTS: &str = "
SELECT count(*)::bigint AS receipts, coalesce(sum(cardinality(r.seqs)), 0)::bigint AS settled,
       extract(epoch FROM max(r.settled_at) - min(r.settled_at))::float8 AS seconds,
       coalesce((SELECT cardinality(f.seqs) FROM outrider.receipt f ORDER BY f.settled_at LIMIT 1), 0)::bigint AS first,
       (SELECT count(DISTINCT s) FROM outrider.receipt, unnest(seqs) AS s)::bigint AS events,
       (SELECT count(*) FROM outrider.delivery)::bigint AS unsent,
       (SELECT count(*) FROM outrider.claim)::bigint AS claims
  FROM outrider.receipt r";

/// Sessions count what they did at their end at the latest. Autovacuum's are not waited for.
const COMMITS: &str = "
SELECT xact_commit,
       (SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type <> 'autovacuum worker')::bigint
  FROM pg_stat_database WHERE datname = $1";
const WAL: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint";

/// What one drain took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    /// Between the first settle and the last.
    pub(crate) seconds: f64,
    /// Settled events in each of them.
    pub(crate) events_per_second: f64,
    /// Batches that were settled, by their receipts.
    pub(crate) batches: u64,
    /// Settles that the daemon counted: one for each batch is right.
    pub(crate) settles: u64,
    /// Events that have a receipt.
    pub(crate) settled: u64,
    /// Transactions in the tenant's database, this program's looks not counted.
    pub(crate) commits: i64,
    /// Of the whole server.
    pub(crate) wal_bytes: i64,
    /// Of the daemon, from its start. `None`: not to be seen from here.
    pub(crate) relay_cpu_seconds: Option<f64>,
    /// Of the daemon's sessions in the database.
    pub(crate) database_cpu_seconds: Option<f64>,
    /// The daemon's most.
    pub(crate) peak_resident_bytes: Option<u64>,
}

/// Counters of the server, before and after.
struct Counters {
    commits: i64,
    wal_bytes: i64,
}

/// Runs the daemon until `events` are settled, and ends it.
pub(crate) async fn drain(database: &TestDatabase, daemon: &Daemon, events: u64) -> Result<Drain> {
    let mut admin = database.admin().await?;
    let before = counters(&mut admin, database.name()).await?;
    let mut looking = database.connect().await?;
    let running = daemon.start().await?;
    let mut watch = Watch { running, looks: 0, backends: BTreeMap::new() };
    watch.until_settled(&mut looking, daemon, events).await?;
    let pid = watch.running.pid().context("find the daemon's process")?;
    let relay_cpu_seconds = process::cpu_seconds(pid);
    let peak_resident_bytes = process::peak_resident_bytes(pid);
    let database_cpu_seconds = watch.database_cpu_seconds();
    let metrics = daemon.ask("/metrics").await.context("ask for the metrics")?;
    let looks = watch.looks;
    let ended = watch.running.end().await?;
    ensure!(ended.success(), "end outrider: {ended}\n{}", daemon.quote());

    let row = sqlx::query(RECEIPTS).fetch_one(&mut looking).await.context("read the receipts")?;
    looking.close().await?;
    let after = counters(&mut admin, database.name()).await?;
    admin.close().await?;
    let count = |name: &str| -> Result<u64> { Ok(u64::try_from(row.try_get::<i64, _>(name)?)?) };
    for (what, found, expected) in [
        ("settle each event once", count("settled")?, events),
        ("settle every event", count("events")?, events),
        ("leave no event unsent", count("unsent")?, 0),
        ("leave no claim", count("claims")?, 0),
    ] {
        ensure!(found == expected, "{what}: {found} instead of {expected}\n{}", daemon.quote());
    }
    let seconds: f64 = row.try_get("seconds")?;
    ensure!(seconds > 0.0, "measure: everything was settled at once, so there is no rate; take more events");
    Ok(Drain {
        seconds,
        events_per_second: (events - count("first")?) as f64 / seconds,
        batches: count("receipts")?,
        settles: counted_settles(&metrics),
        settled: count("settled")?,
        // One more for reading the receipts.
        commits: after.commits - before.commits - looks - 1,
        wal_bytes: after.wal_bytes - before.wal_bytes,
        relay_cpu_seconds,
        database_cpu_seconds,
        peak_resident_bytes,
    })
}

/// Looks at a running drain.
struct Watch {
    running: Running,
    /// Statements by which it looked.
    looks: i64,
    /// CPU seconds of the daemon's sessions as far as they were seen, by process.
    backends: BTreeMap<u32, f64>,
}

impl Watch {
    async fn until_settled(
        &mut self,
        connection: &mut PgConnection,
        daemon: &Daemon,
        events: u64,
    ) -> Result<()> {
        let (mut known, mut progress) = (0, Instant::now());
        loop {
            let settled: i64 =
                sqlx::query_scalar(SETTLED).fetch_one(&mut *connection).await.context("look")?;
            let backends: Vec<i32> =
                sqlx::query_scalar(BACKENDS).fetch_all(&mut *connection).await.context("look")?;
            self.looks += 2;
            self.sample(&backends);
            let settled = u64::try_from(settled)?;
            if settled >= events {
                return Ok(());
            }
            if settled > known {
                (known, progress) = (settled, Instant::now());
            }
            if let Some(status) = self.running.ended()? {
                bail!("drain: outrider ended with {status}\n{}", daemon.quote());
            }
            if progress.elapsed() > STALLED {
                bail!("drain: nothing was settled for {STALLED:?}, after {settled}\n{}", daemon.quote());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn sample(&mut self, backends: &[i32]) {
        for pid in backends.iter().filter_map(|pid| u32::try_from(*pid).ok()) {
            // In a container its process ids mean nothing here.
            if process::is_named(pid, "postgres")
                && let Some(seconds) = process::cpu_seconds(pid)
            {
                self.backends.insert(pid, seconds);
            }
        }
    }

    fn database_cpu_seconds(&self) -> Option<f64> {
        (!self.backends.is_empty()).then(|| self.backends.values().sum())
    }
}

/// Waits until nobody is connected to the database any more, and counts.
async fn counters(admin: &mut PgConnection, database: &str) -> Result<Counters> {
    let deadline = Instant::now() + STALLED;
    let commits = loop {
        let row = sqlx::query_as(COMMITS).bind(database).fetch_one(&mut *admin).await;
        let (commits, sessions): (i64, i64) = row.context("read the counters")?;
        if sessions == 0 {
            break commits;
        }
        ensure!(Instant::now() < deadline, "count transactions: {sessions} sessions are still there");
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let wal_bytes = sqlx::query_scalar(WAL).fetch_one(admin).await.context("read the counters")?;
    Ok(Counters { commits, wal_bytes })
}

/// The count of the daemon's timer of settles.
fn counted_settles(metrics: &str) -> u64 {
    let counts = metrics.lines().filter(|line| line.starts_with("outrider_settle_seconds_count"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::counted_settles;

    #[test]
    fn finds_the_count() {
        let metrics = "HTTP/1.1 200 OK\r\n\r\n# TYPE outrider_settle_seconds histogram\n\
            outrider_settle_seconds_bucket{tenant=\"a\",le=\"0.1\"} 9\n\
            outrider_settle_seconds_count{tenant=\"a\"} 40\n\
            outrider_settle_seconds_count{tenant=\"b\"} 2\n";
        assert_eq!(counted_settles(metrics), 42);
        assert_eq!(counted_settles(""), 0);
    }
}
