//! The servers of a run. They live as long as the kit, and faults stop, kill and restart them.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use outrider_servers::kafka::Way;
use outrider_servers::{Install, Server, kafka, nats, ports, postgres, rabbitmq};
use outrider_test_support::proxy::{Mode, Proxy};

/// Replicas that a fault may use.
pub(crate) const REPLICAS: usize = 2;

#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) postgres: Server,
    pub(crate) kafka: Server,
    pub(crate) rabbitmq: Server,
    pub(crate) nats: Server,
    /// Each replica's way to Kafka, which tells its clients where to come.
    pub(crate) kafka_ways: Vec<Proxy>,
}

/// A server by its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Kafka,
    Rabbitmq,
    Nats,
}

/// Brokers in the order of their columns.
pub(crate) const BROKERS: [Kind; 3] = [Kind::Kafka, Kind::Rabbitmq, Kind::Nats];

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Postgres => "postgres",
            Kind::Kafka => "kafka",
            Kind::Rabbitmq => "rabbitmq",
            Kind::Nats => "nats",
        }
    }
}

impl Ground {
    /// Starts all four.
    pub(crate) async fn start() -> Result<Ground> {
        let mut ways = Vec::new();
        let mut kafka_ways = Vec::new();
        for _ in 0..REPLICAS {
            let listens = ports::free()?;
            let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], listens))).await;
            let proxy = proxy.context("start a proxy")?;
            ways.push(Way { listens, advertised: proxy.address().port() });
            kafka_ways.push(proxy);
        }
        let install = Install::locate();
        let (kafka, rabbitmq, postgres, nats) = tokio::task::block_in_place(|| {
            std::thread::scope(|scope| {
                let kafka = scope.spawn(|| kafka::start_with_ways(&install, &ways));
                let rabbitmq = scope.spawn(|| rabbitmq::start(&install));
                let postgres = postgres::start(&install, postgres::Version::Distribution);
                let nats = nats::start(&install);
                (join(kafka), join(rabbitmq), postgres, nats)
            })
        });
        Ok(Ground { postgres: postgres?, kafka: kafka?, rabbitmq: rabbitmq?, nats: nats?, kafka_ways })
    }

    pub(crate) fn server(&mut self, kind: Kind) -> &mut Server {
        match kind {
            Kind::Postgres => &mut self.postgres,
            Kind::Kafka => &mut self.kafka,
            Kind::Rabbitmq => &mut self.rabbitmq,
            Kind::Nats => &mut self.nats,
        }
    }

    /// Starts what a fault left down, and opens the ways.
    pub(crate) fn mend(&mut self) -> Result<()> {
        self.kafka_ways.iter().for_each(|way| way.set(Mode::Pass));
        for kind in [Kind::Postgres, Kind::Kafka, Kind::Rabbitmq, Kind::Nats] {
            let server = self.server(kind);
            server.resume();
            if !server.is_running() {
                tokio::task::block_in_place(|| server.restart())?;
            }
        }
        Ok(())
    }
}

fn join(thread: std::thread::ScopedJoinHandle<'_, Result<Server>>) -> Result<Server> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
