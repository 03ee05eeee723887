//! The test servers as containers: starts them, prints their addresses, keeps them until standard input closes.
//!
//! For `outrider_servers::address`, which runs it where Docker answers and no address is given. Prints one
//! `NAME=value` line an address and then `ready`. The images are those of `compose.yaml`. Must not: be part of what
//! tests or lints build by default, for testcontainers is a heavy tree.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use outrider_servers::{address, containers};
use testcontainers::core::{IntoContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, Image, ImageExt};
use testcontainers_modules::kafka::apache::{KAFKA_PORT, Kafka};
use testcontainers_modules::nats::{Nats, NatsServerCmd};
use testcontainers_modules::postgres::Postgres;
use tokio::io::AsyncReadExt;

const AMQP: u16 = 5672;
const MANAGEMENT: u16 = 15672;

/// How long one may take to be ready, its image being there. The library's own limit of a minute is too little for
/// four of them beside a build on a small machine.
const READY_WITHIN: Duration = Duration::from_secs(180);

#[tokio::main]
async fn main() -> Result<()> {
    // Each to its end, also when another one fails: a start that is broken off leaves its container behind.
    let (postgres, kafka, rabbitmq, nats) = tokio::join!(postgres(), kafka(), rabbitmq(), nats());
    let (postgres, kafka, rabbitmq, nats) = (postgres?, kafka?, rabbitmq?, nats?);

    let postgres_at = published(&postgres, 5432).await?;
    let kafka_at = published(&kafka, KAFKA_PORT.as_u16()).await?;
    let amqp_at = published(&rabbitmq, AMQP).await?;
    let management_at = published(&rabbitmq, MANAGEMENT).await?;
    let nats_at = published(&nats, 4222).await?;
    let lines = [
        format!("{}=postgres://postgres@{postgres_at}/postgres", address::POSTGRES_URL),
        format!("{}={kafka_at}", address::KAFKA_BOOTSTRAP),
        format!("{}=amqp://guest:guest@{amqp_at}/%2f", address::RABBITMQ_URL),
        format!("{}=http://guest:guest@{management_at}", address::RABBITMQ_MANAGEMENT_URL),
        format!("{}=nats://{nats_at}", address::NATS_URL),
        containers::READY.to_owned(),
    ];
    // Fails if whoever started this program has ended meanwhile; then its standard input is closed too.
    let told = writeln!(std::io::stdout(), "{}", lines.join("\n"));

    // Whoever started this program has ended, or does not need the servers any more.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await.context("wait for the end of standard input")?;
    tokio::try_join!(postgres.rm(), kafka.rm(), rabbitmq.rm(), nats.rm()).context("remove the containers")?;
    told.context("tell the addresses")
}

async fn postgres() -> Result<ContainerAsync<Postgres>> {
    // The command replaces the module's own, which turns fsync off.
    let command = ["-c", "wal_level=logical", "-c", "max_connections=300"];
    let image = Postgres::default().with_host_auth().with_tag("15").with_cmd(command);
    image.with_startup_timeout(READY_WITHIN).start().await.context("start PostgreSQL")
}

async fn kafka() -> Result<ContainerAsync<Kafka>> {
    let image = Kafka::default()
        .with_jvm_image()
        .with_tag("4.4.0")
        .with_env_var("KAFKA_NODE_ID", "1")
        .with_env_var("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "4")
        .with_env_var("KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR", "1")
        .with_env_var("KAFKA_TRANSACTION_STATE_LOG_MIN_ISR", "1")
        .with_env_var("KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS", "4")
        .with_env_var("KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS", "0")
        .with_env_var("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false");
    image.with_startup_timeout(READY_WITHIN).start().await.context("start Kafka")
}

/// Not the ready-made module: it waits for a number of plugins that only one old version has.
async fn rabbitmq() -> Result<ContainerAsync<GenericImage>> {
    let image = GenericImage::new("rabbitmq", "3-management")
        .with_exposed_port(AMQP.tcp())
        .with_exposed_port(MANAGEMENT.tcp())
        .with_wait_for(WaitFor::message_on_stdout("Server startup complete"));
    image.with_startup_timeout(READY_WITHIN).start().await.context("start RabbitMQ")
}

async fn nats() -> Result<ContainerAsync<Nats>> {
    let arguments = NatsServerCmd::default().with_jetstream();
    let image = Nats::default().with_tag("2-alpine").with_cmd(&arguments);
    image.with_startup_timeout(READY_WITHIN).start().await.context("start NATS")
}

/// Where the container's `port` is reached from this machine, as `host:port`. The port is the one for IPv4, which
/// `localhost` need not mean: over IPv6 the same number can be another container's.
async fn published<I: Image>(container: &ContainerAsync<I>, port: u16) -> Result<String> {
    let host = container.get_host().await.context("ask Docker for its host")?.to_string();
    let host = if host == "localhost" { "127.0.0.1" } else { &host };
    let published = container.get_host_port_ipv4(port.tcp()).await.context("ask Docker for a port")?;
    Ok(format!("{host}:{published}"))
}
