//! What has to be there before the play: databases, topics, a queue, a stream, the config. Names of one run are
//! its own, so that runs can share servers; [`Stage::clear`] removes them again.

use std::time::Duration;

use anyhow::{Context, Result};
use outrider_servers::address;
use outrider_test_support::consume::{kafka, nats, rabbitmq};
use outrider_test_support::daemon::Daemon;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

use crate::args::Args;
use crate::config;

pub(crate) const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

/// In the order of the columns that show them.
pub(crate) const BROKERS: [&str; 3] = ["kafka", "rabbitmq", "nats"];

/// Each topic with its events' type and the broker that its route names.
pub(crate) const TOPICS: [(&str, &str, &str); 3] = [
    ("orders.placed", "orders.order-placed.v1", "kafka"),
    ("billing.invoiced", "billing.order-invoiced.v1", "rabbitmq"),
    ("shipping.requested", "shipping.shipment-requested.v1", "nats"),
];

/// Customers of a tenant; a customer is an ordering key.
pub(crate) const CUSTOMERS: i32 = 60;

/// Longer than outrider goes on trying one event, as its config check asks for.
pub(crate) const DUPLICATE_WINDOW: Duration = Duration::from_secs(3600);

/// More than one, so that order within a key is not order within the topic.
const KAFKA_PARTITIONS: i32 = 3;

const ORDERS: &str = "
CREATE TABLE customers (id int PRIMARY KEY, orders bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer int NOT NULL REFERENCES customers, number bigint NOT NULL, step text NOT NULL, cents bigint NOT NULL,
  UNIQUE (customer, number));
";

/// The inbox, and the effect that it guards: a line in a journal, which would hold a second line for a second effect.
const INBOX: &str = "
CREATE TABLE inbox (
  event_id uuid, consumer text, consumed_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (event_id, consumer));
CREATE TABLE journal (
  line bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, consumer text NOT NULL, event_id uuid NOT NULL);
";

/// The servers' addresses and this run's names on them.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Prefix of everything that this run makes.
    pub(crate) run: String,
    pub(crate) postgres: String,
    pub(crate) kafka: String,
    pub(crate) rabbitmq: String,
    pub(crate) nats: String,
    pub(crate) daemon: Daemon,
}

impl Stage {
    /// Makes everything and installs outrider's schema with `outrider migrate`.
    pub(crate) async fn set(args: &Args) -> Result<Stage> {
        let id = Uuid::new_v4().simple().to_string();
        let stage = Stage {
            run: format!("demo-{}", &id[..8]),
            postgres: address::postgres(),
            kafka: address::kafka(),
            rabbitmq: address::rabbitmq(),
            nats: address::nats(),
            daemon: Daemon::new(&args.outrider)?,
        };
        if let Err(error) = stage.make().await {
            stage.clear().await;
            return Err(error);
        }
        Ok(stage)
    }

    async fn make(&self) -> Result<()> {
        eprintln!("demo: making three tenant databases, and topics, a queue and a stream ({}…)", self.run);
        tokio::try_join!(self.make_databases(), self.make_destinations())?;
        config::write(self)?;
        self.daemon.tell(config::variables(self));
        eprintln!("demo: outrider migrate");
        self.daemon.migrate().await
    }

    async fn make_databases(&self) -> Result<()> {
        let databases = TENANTS.iter().map(|&tenant| (tenant, ORDERS)).chain([("consumer", INBOX)]);
        let mut server = self.connect(&self.postgres).await?;
        for (owner, tables) in databases {
            let name = self.database(owner);
            let create = format!("CREATE DATABASE \"{name}\"");
            let created = sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut server).await;
            created.with_context(|| format!("create the database `{name}`"))?;
            let mut database = self.connect(&self.database_url(owner)).await?;
            sqlx::raw_sql(tables).execute(&mut database).await.context("create the business's tables")?;
            if owner != "consumer" {
                let customers =
                    sqlx::query("INSERT INTO customers SELECT generate_series(1, $1)").bind(CUSTOMERS);
                customers.execute(&mut database).await.context("insert customers")?;
            }
        }
        Ok(())
    }

    async fn make_destinations(&self) -> Result<()> {
        let topics = self.kafka_topics();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        kafka::create_topics(&self.kafka, &topics, KAFKA_PARTITIONS).await.context("create topics")?;
        rabbitmq::declare(&self.rabbitmq, &self.run, &self.run, "#").await.context("create a queue")?;
        let subjects = format!("{}.>", self.run);
        nats::create_stream(&self.nats, &self.run, &[&subjects], DUPLICATE_WINDOW)
            .await
            .context("create a stream")
    }

    /// Removes what this run made. What can't be removed is named, and does no harm.
    pub(crate) async fn clear(&self) {
        let topics = self.kafka_topics();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        let (databases, kafka, rabbitmq, nats) = tokio::join!(
            self.drop_databases(),
            kafka::delete_topics(&self.kafka, &topics),
            rabbitmq::delete(&self.rabbitmq, &self.run, &self.run),
            nats::delete_stream(&self.nats, &self.run),
        );
        for result in [databases, kafka, rabbitmq, nats] {
            if let Err(error) = result {
                eprintln!("demo: left something behind: {error:#}");
            }
        }
    }

    async fn drop_databases(&self) -> Result<()> {
        let mut server = self.connect(&self.postgres).await?;
        for owner in TENANTS.iter().chain(&["consumer"]) {
            let drop = format!("DROP DATABASE IF EXISTS \"{}\" WITH (FORCE)", self.database(owner));
            sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut server).await.context("drop a database")?;
        }
        Ok(())
    }

    async fn connect(&self, url: &str) -> Result<PgConnection> {
        PgConnection::connect(url).await.context("connect to PostgreSQL")
    }

    /// A tenant's database, or the consumers'.
    pub(crate) fn database(&self, owner: &str) -> String {
        format!("{}-{owner}", self.run)
    }

    pub(crate) fn database_url(&self, owner: &str) -> String {
        with_database(&self.postgres, &self.database(owner))
    }

    /// What the Kafka route's `{tenant}` and `{topic}` come to.
    pub(crate) fn kafka_topics(&self) -> Vec<String> {
        let topics = || TOPICS.iter().filter(|(_, _, broker)| *broker == "kafka");
        TENANTS
            .iter()
            .flat_map(|tenant| topics().map(move |(topic, ..)| (tenant, topic)))
            .map(|(tenant, topic)| format!("{}.{tenant}.{topic}", self.run))
            .collect()
    }
}

/// The same server and user, another database. `psql` has to understand it as well.
fn with_database(url: &str, database: &str) -> String {
    let authority = url.find("://").map_or(0, |at| at + "://".len());
    let (server, options) = url.split_once('?').map_or((url, ""), |(server, options)| (server, options));
    let end = server[authority..].find('/').map_or(server.len(), |at| authority + at);
    let query = if options.is_empty() { String::new() } else { format!("?{options}") };
    format!("{}/{database}{query}", &server[..end])
}

#[cfg(test)]
mod tests {
    use super::with_database;

    #[test]
    fn changes_the_database_alone() {
        for (url, changed) in [
            ("postgres://u:p@host:1/postgres", "postgres://u:p@host:1/x"),
            ("postgres://host", "postgres://host/x"),
            ("postgresql://u@[::1]:5432/?sslmode=disable", "postgresql://u@[::1]:5432/x?sslmode=disable"),
            ("postgres://host/a?host=/tmp/run", "postgres://host/x?host=/tmp/run"),
        ] {
            assert_eq!(with_database(url, "x"), changed);
        }
    }
}
