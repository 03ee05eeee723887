//! One measurement: a new database, a backlog, the daemon until nothing is left.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outrider_servers::address;
use outrider_test_support::consume::{kafka, nats, rabbitmq};
use outrider_test_support::daemon::{Daemon, Running};
use outrider_test_support::database::TestDatabase;
use sqlx::Connection;
use uuid::Uuid;

use crate::args::{Args, Broker};

/// The one tenant and its one topic.
const TENANT: &str = "bench";
const TOPIC: &str = "bench";

/// Kafka's, as a small topic has them in real life.
const PARTITIONS: i32 = 6;

/// Between two looks at the receipts, which cost the server little and not nothing.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Without a new receipt for so long it is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// All events have one payload but for its first eight bytes.
const BACKLOG: &str = "
INSERT INTO outrider.outbox (topic, key, type, content_type, payload)
SELECT $1, CASE WHEN $3 > 0 THEN 'key-' || n % $3 END, 'bench.happened.v1', 'application/octet-stream',
       overlay($4 PLACING int8send(n) FROM 1)
  FROM generate_series(1, $2) AS n";

/// What left since the first receipt, and in what time; the first one holds the start of everything.
const MEASURE: &str = "
SELECT count(*), coalesce(sum(cardinality(seqs)), 0)::bigint,
       coalesce(sum(cardinality(seqs)) FILTER (WHERE settled_at > (SELECT min(settled_at) FROM outrider.receipt)), 0)::bigint,
       coalesce(extract(epoch FROM max(settled_at) - min(settled_at)), 0)::float8
  FROM outrider.receipt WHERE outcome = 'sent'";

const COUNT: &str = "
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type <> 'autovacuum worker'),
       xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1";

/// Where events go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Null,
    Broker(Broker),
}

impl From<Broker> for Target {
    fn from(broker: Broker) -> Self {
        Target::Broker(broker)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::Null => "a null publisher",
            Target::Broker(Broker::Kafka) => "Kafka",
            Target::Broker(Broker::Rabbitmq) => "RabbitMQ",
            Target::Broker(Broker::Nats) => "NATS JetStream",
        })
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) events_per_second: f64,
    /// Receipts: batches that were settled as sent.
    pub(crate) batches: i64,
    /// Settles that the daemon counted; one for each batch is right.
    pub(crate) settles: u64,
    /// Transactions of the whole database per batch, its start and end included: claim and settle make two.
    pub(crate) transactions_per_batch: f64,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} events/s, {} batches, {} settles, {:.2} transactions a batch",
            self.events_per_second, self.batches, self.settles, self.transactions_per_batch
        )
    }
}

pub(crate) async fn drain(args: &Args, target: Target) -> Result<Figure> {
    let database = TestDatabase::empty_at(&address::postgres()).await?;
    let daemon = Daemon::new(&args.outrider)?;
    let place = Place { name: format!("bench-{}", Uuid::new_v4().simple()), target };
    place.make().await?;
    let drained = place.drain(args, &database, &daemon).await;
    if let Err(error) = place.remove().await {
        eprintln!("bench: left something behind: {error:#}");
    }
    drained
}

/// The target's destination.
struct Place {
    name: String,
    target: Target,
}

impl Place {
    async fn make(&self) -> Result<()> {
        let name = self.name.as_str();
        match self.target {
            Target::Null => Ok(()),
            Target::Broker(Broker::Kafka) => {
                kafka::create_topics(&address::kafka(), &[name], PARTITIONS).await
            }
            Target::Broker(Broker::Rabbitmq) => {
                rabbitmq::declare(&address::rabbitmq(), name, name, "#").await
            }
            Target::Broker(Broker::Nats) => {
                nats::create_stream(&address::nats(), name, &[name], Duration::from_secs(120)).await
            }
        }
        .context("make the destination")
    }

    async fn remove(&self) -> Result<()> {
        let name = self.name.as_str();
        match self.target {
            Target::Null => Ok(()),
            Target::Broker(Broker::Kafka) => kafka::delete_topics(&address::kafka(), &[name]).await,
            Target::Broker(Broker::Rabbitmq) => rabbitmq::delete(&address::rabbitmq(), name, name).await,
            Target::Broker(Broker::Nats) => nats::delete_stream(&address::nats(), name).await,
        }
    }

    fn config(&self) -> String {
        let name = &self.name;
        let (kind, params, to) = match self.target {
            Target::Null => ("memory", String::new(), String::new()),
            Target::Broker(Broker::Kafka) => (
                "kafka",
                "\"bootstrap.servers\" = \"env:BENCH_KAFKA\"".to_owned(),
                format!("topic = \"{name}\""),
            ),
            Target::Broker(Broker::Rabbitmq) => (
                "rabbitmq",
                "url = \"env:BENCH_RABBITMQ_URL\"".to_owned(),
                format!("exchange = \"{name}\", routing_key = \"{{topic}}\""),
            ),
            Target::Broker(Broker::Nats) => {
                ("nats", "url = \"env:BENCH_NATS_URL\"".to_owned(), format!("subject = \"{name}\""))
            }
        };
        format!(
            "[log]\nfilter = \"warn\"\n[brokers.target]\nkind = \"{kind}\"\nparams = {{ {params} }}\n\
             [[routes]]\ntopic = \"*\"\nbroker = \"target\"\nto = {{ {to} }}\n"
        )
    }

    async fn drain(&self, args: &Args, database: &TestDatabase, daemon: &Daemon) -> Result<Figure> {
        daemon.write(
            &self.config(),
            &[(TENANT, "database = { url = \"env:BENCH_DATABASE_URL\" }\n".to_owned())],
        )?;
        let mut variables = vec![("BENCH_DATABASE_URL".to_owned(), database.url())];
        match self.target {
            Target::Null => {}
            Target::Broker(Broker::Kafka) => variables.push(("BENCH_KAFKA".to_owned(), address::kafka())),
            Target::Broker(Broker::Rabbitmq) => {
                variables.push(("BENCH_RABBITMQ_URL".to_owned(), address::rabbitmq()));
            }
            Target::Broker(Broker::Nats) => variables.push(("BENCH_NATS_URL".to_owned(), address::nats())),
        }
        daemon.tell(variables);
        daemon.migrate().await?;

        insert(database, args).await?;
        let before = transactions(database).await?;
        let mut running = daemon.start().await?;
        let drained = empty(database, &mut running, daemon, args.events).await?;
        let settles = settles(&daemon.ask("/metrics").await.context("ask for the metrics")?);
        let status = running.end().await?;
        ensure!(status.success(), "end outrider: it ended with {status}\n{}", daemon.quote());
        let theirs = transactions(database).await? - before - drained.looks;
        ensure!(drained.seconds > 0.0, "measure: all events left in one batch; take more of them");
        Ok(Figure {
            events_per_second: drained.events as f64 / drained.seconds,
            batches: drained.batches,
            settles,
            transactions_per_batch: theirs as f64 / drained.batches as f64,
        })
    }
}

async fn insert(database: &TestDatabase, args: &Args) -> Result<()> {
    let mut session = database.connect().await?;
    let payload: Vec<u8> = (0..args.payload_bytes).map(|_| rand::random()).collect();
    let inserted = sqlx::query(BACKLOG).bind(TOPIC).bind(args.events).bind(args.keys).bind(payload);
    inserted.execute(&mut session).await.context("insert the backlog")?;
    // Written out now, so that it is not while the time is taken.
    sqlx::raw_sql("CHECKPOINT").execute(&mut session).await.context("checkpoint")?;
    session.close().await.context("disconnect")
}

/// A backlog that is gone.
struct Drained {
    batches: i64,
    /// Events and seconds after the first batch.
    events: i64,
    seconds: f64,
    /// Transactions that this program made itself.
    looks: i64,
}

async fn empty(
    database: &TestDatabase,
    running: &mut Running,
    daemon: &Daemon,
    events: i64,
) -> Result<Drained> {
    let mut session = database.connect().await?;
    let mut looks = 0;
    let mut last = (0, Instant::now());
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        looks += 1;
        let measured: (i64, i64, i64, f64) =
            sqlx::query_as(MEASURE).fetch_one(&mut session).await.context("read the receipts")?;
        let (batches, sent, after_first, seconds) = measured;
        if sent >= events {
            ensure!(sent == events, "count: {sent} receipts for {events} events");
            session.close().await.context("disconnect")?;
            return Ok(Drained { batches, events: after_first, seconds, looks });
        }
        if let Some(status) = running.ended()? {
            bail!("keep outrider running: it ended with {status}\n{}", daemon.quote());
        }
        if sent > last.0 {
            last = (sent, Instant::now());
        }
        if last.1.elapsed() > STUCK_AFTER {
            bail!("drain: stuck at {sent} of {events} events\n{}", daemon.quote());
        }
    }
}

/// Transactions in the database so far. A session counts what it did at its end, so this waits until all have ended,
/// and asks from outside.
async fn transactions(database: &TestDatabase) -> Result<i64> {
    let mut admin = database.admin().await?;
    let deadline = Instant::now() + STUCK_AFTER;
    loop {
        let (sessions, count): (i64, i64) = sqlx::query_as(COUNT)
            .bind(database.name())
            .fetch_one(&mut admin)
            .await
            .context("read the statistics")?;
        if sessions == 0 {
            return Ok(count);
        }
        ensure!(Instant::now() < deadline, "count transactions: {sessions} sessions are still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The count of the timer of settles, over all its labels.
fn settles(metrics: &str) -> u64 {
    let counts = metrics.lines().filter(|line| line.starts_with("outrider_settle_seconds_count"));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::settles;

    #[test]
    fn finds_the_count() {
        let metrics = "HTTP/1.1 200 OK\r\n\r\n# TYPE outrider_settle_seconds histogram\n\
            outrider_settle_seconds_bucket{tenant=\"a\",le=\"0.1\"} 9\n\
            outrider_settle_seconds_count{tenant=\"a\"} 40\n\
            outrider_settle_seconds_count{tenant=\"b\"} 2\n";
        assert_eq!(settles(metrics), 42);
        assert_eq!(settles(""), 0);
    }
}
