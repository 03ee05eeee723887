//! The test servers as containers: starts them, prints their addresses, keeps them until standard input closes.
//!
//! For `outrider_servers::address`, which runs it where Docker answers and no address is given. Prints one
//! `NAME=value` line an address and then `ready`. Must not: be part of what tests or lints build by default, for
//! testcontainers is a heavy tree.

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

#[tokio::main]
async fn main() -> Result<()> {
    let (postgres, kafka, rabbitmq, nats) = tokio::try_join!(postgres(), kafka(), rabbitmq(), nats())?;

    let postgres_at = published(&postgres, 5432).await?;
    let kafka_at = published(&kafka, KAFKA_PORT.as_u16()).await?;
    let amqp_at = published(&rabbitmq, AMQP).await?;
    let management_at = published(&rabbitmq, MANAGEMENT).await?;
    let nats_at = published(&nats, 4222).await?;
    println!("{}=postgres://postgres@{postgres_at}/postgres", address::POSTGRES_URL);
    println!("{}={kafka_at}", address::KAFKA_BOOTSTRAP);
    println!("{}=amqp://guest:guest@{amqp_at}/%2f", address::RABBITMQ_URL);
    println!("{}=http://guest:guest@{management_at}", address::RABBITMQ_MANAGEMENT_URL);
    println!("{}=nats://{nats_at}", address::NATS_URL);
    println!("{}", containers::READY);

    // Whoever started this program has ended, or does not need the servers any more.
    tokio::io::stdin().read_to_end(&mut Vec::new()).await.context("wait for the end of standard input")?;
    tokio::try_join!(postgres.rm(), kafka.rm(), rabbitmq.rm(), nats.rm()).context("remove the containers")?;
    Ok(())
}

async fn postgres() -> Result<ContainerAsync<Postgres>> {
    // The command replaces the module's own, which turns fsync off.
    let command = ["-c", "wal_level=logical", "-c", "max_connections=300"];
    let image = Postgres::default().with_host_auth().with_tag("15").with_cmd(command);
    image.start().await.context("start PostgreSQL")
}

async fn kafka() -> Result<ContainerAsync<Kafka>> {
    let image = Kafka::default().with_env_var("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "false");
    image.start().await.context("start Kafka")
}

/// Not the ready-made module: it waits for a number of plugins that only one old version has.
async fn rabbitmq() -> Result<ContainerAsync<GenericImage>> {
    let image = GenericImage::new("rabbitmq", "3-management")
        .with_exposed_port(AMQP.tcp())
        .with_exposed_port(MANAGEMENT.tcp())
        .with_wait_for(WaitFor::message_on_stdout("Server startup complete"));
    image.start().await.context("start RabbitMQ")
}

async fn nats() -> Result<ContainerAsync<Nats>> {
    let arguments = NatsServerCmd::default().with_jetstream();
    Nats::default().with_cmd(&arguments).start().await.context("start NATS")
}

/// Where the container's `port` is reached from this machine, as `host:port`.
async fn published<I: Image>(container: &ContainerAsync<I>, port: u16) -> Result<String> {
    let host = container.get_host().await.context("ask Docker for its host")?;
    let published = container.get_host_port_ipv4(port.tcp()).await.context("ask Docker for a port")?;
    Ok(format!("{host}:{published}"))
}
