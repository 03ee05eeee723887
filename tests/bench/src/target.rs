//! Where a run's events go: a broker, or the null publisher. Makes the destination, writes its part of the config, reads
//! it back, removes it.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use outrider_servers::address;
use outrider_test_support::consume::{Consume, kafka, nats, rabbitmq};

use crate::args::Args;

/// Partitions of Kafka's topic.
pub(crate) const PARTITIONS: i32 = 6;

/// How long a NATS stream knows ids. The server keeps them all in memory meanwhile; a drain takes seconds.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// The variable that holds the broker's address, which may hold a password.
const ADDRESS: &str = "BENCH_BROKER";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Broker {
    Kafka,
    Rabbitmq,
    Nats,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Broker(Broker),
    /// The `memory` broker, which confirms and keeps nothing: claim, hand-over and settle are as with any broker.
    Null,
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broker::Kafka => "kafka",
            Broker::Rabbitmq => "rabbitmq",
            Broker::Nats => "nats",
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Broker(broker) => broker.fmt(f),
            Target::Null => f.write_str("null"),
        }
    }
}

impl Broker {
    pub(crate) fn address(self) -> String {
        match self {
            Broker::Kafka => address::kafka(),
            Broker::Rabbitmq => address::rabbitmq(),
            Broker::Nats => address::nats(),
        }
    }

    /// What the report says of its settings.
    pub(crate) fn describe(self) -> String {
        match self {
            Broker::Kafka => format!("Kafka: one topic of {PARTITIONS} partitions, acks=all, idempotent"),
            Broker::Rabbitmq => {
                "RabbitMQ: one durable queue, persistent messages, publisher confirms".to_owned()
            }
            Broker::Nats => "NATS JetStream: one stream, publish acks".to_owned(),
        }
    }

    /// Makes the topic, queue or stream of one run.
    pub(crate) async fn make(self, name: &str) -> Result<()> {
        let made = match self {
            Broker::Kafka => kafka::create_topics(&self.address(), &[name], PARTITIONS).await,
            Broker::Rabbitmq => rabbitmq::declare(&self.address(), name, name, "#").await,
            Broker::Nats => nats::create_stream(&self.address(), name, &[name], DUPLICATE_WINDOW).await,
        };
        made.with_context(|| format!("make `{name}` in {self}"))
    }

    pub(crate) async fn remove(self, name: &str) -> Result<()> {
        match self {
            Broker::Kafka => kafka::delete_topics(&self.address(), &[name]).await,
            Broker::Rabbitmq => rabbitmq::delete(&self.address(), name, name).await,
            Broker::Nats => nats::delete_stream(&self.address(), name).await,
        }
    }

    /// Reads it from its beginning.
    pub(crate) async fn open(self, name: &str) -> Result<Box<dyn Consume>> {
        Ok(match self {
            Broker::Kafka => Box::new(kafka::Consumer::open(&self.address(), &[name]).await?),
            Broker::Rabbitmq => Box::new(rabbitmq::Consumer::open(&self.address(), name).await?),
            Broker::Nats => Box::new(nats::Consumer::open(&self.address(), name).await?),
        })
    }
}

impl Target {
    /// Kind, `params` and the route's `to`, as TOML. `name` is that of [`Broker::make`].
    pub(crate) fn config(self, args: &Args, name: &str) -> (&'static str, String, String) {
        let name = quoted(name);
        let (kind, address, to) = match self {
            Target::Null => return ("memory", "keep = false".to_owned(), String::new()),
            Target::Broker(Broker::Kafka) => ("kafka", "\"bootstrap.servers\"", format!("topic = {name}")),
            Target::Broker(Broker::Rabbitmq) => {
                ("rabbitmq", "url", format!("exchange = {name}, routing_key = \"{{topic}}\""))
            }
            Target::Broker(Broker::Nats) => ("nats", "url", format!("subject = {name}")),
        };
        let mut params = format!("{address} = \"env:{ADDRESS}\"");
        for (name, value) in &args.param {
            params.push_str(&format!(", {} = {}", quoted(name), value_of(value)));
        }
        (kind, params, to)
    }

    /// What the config's reference stands for.
    pub(crate) fn variable(self) -> Option<(String, String)> {
        match self {
            Target::Null => None,
            Target::Broker(broker) => Some((ADDRESS.to_owned(), broker.address())),
        }
    }
}

/// A TOML string: JSON's strings are such.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A number or a truth value as it is, anything else as a string.
fn value_of(text: &str) -> String {
    let bare = text.parse::<i64>().is_ok() || text.parse::<bool>().is_ok();
    if bare { text.to_owned() } else { quoted(text) }
}
