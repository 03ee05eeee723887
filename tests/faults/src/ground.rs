//! The servers of a run. They live as long as the kit; faults stop, kill and restart them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use outrider_servers::kafka::Way;
use outrider_servers::{Install, Server, kafka, nats, ports, postgres, rabbitmq};
use outrider_test_support::proxy::{Mode, Proxy};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::task::block_in_place;

/// Replicas that a fault may use.
pub(crate) const REPLICAS: usize = 2;

#[derive(Debug)]
pub(crate) struct Ground {
    servers: [(Kind, Mutex<Server>); 4],
    /// Ways to Kafka that no scene uses.
    ways: Mutex<Vec<KafkaWays>>,
    gate: Arc<RwLock<()>>,
}

/// Each replica's way to Kafka. Made with the server, which tells its clients where to come.
pub(crate) type KafkaWays = [Proxy; REPLICAS];

/// Who may be on the ground at the same time.
#[derive(Debug)]
pub(crate) enum Pass {
    /// Others that leave the servers alone.
    Shared { _gate: OwnedRwLockReadGuard<()> },
    /// Nobody.
    Alone { _gate: OwnedRwLockWriteGuard<()> },
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

    /// The purpose of the port that clients use.
    fn purpose(self) -> &'static str {
        match self {
            Kind::Rabbitmq => "amqp",
            _ => self.name(),
        }
    }
}

impl Ground {
    /// Starts all four, for so many scenes at a time.
    pub(crate) async fn start(scenes: usize) -> Result<Ground> {
        let mut listeners = Vec::new();
        let mut ways = Vec::new();
        for _ in 0..scenes {
            let ((first, one), (second, two)) = (kafka_way().await?, kafka_way().await?);
            listeners.extend([first, second]);
            ways.push([one, two]);
        }
        let install = Install::locate();
        let (kafka, rabbitmq, postgres, nats) = block_in_place(|| {
            std::thread::scope(|scope| {
                let kafka = scope.spawn(|| kafka::start_with_ways(&install, &listeners));
                let rabbitmq = scope.spawn(|| rabbitmq::start(&install));
                let postgres = postgres::start(&install, postgres::Version::Distribution);
                let nats = nats::start(&install);
                (join(kafka), join(rabbitmq), postgres, nats)
            })
        });
        let servers = [
            (Kind::Postgres, Mutex::new(postgres?)),
            (Kind::Kafka, Mutex::new(kafka?)),
            (Kind::Rabbitmq, Mutex::new(rabbitmq?)),
            (Kind::Nats, Mutex::new(nats?)),
        ];
        Ok(Ground { servers, ways: Mutex::new(ways), gate: Arc::default() })
    }

    /// Waits until this scene may be on the ground. In the order in which they ask.
    pub(crate) async fn enter(&self, alone: bool) -> Pass {
        let gate = self.gate.clone();
        if alone {
            Pass::Alone { _gate: gate.write_owned().await }
        } else {
            Pass::Shared { _gate: gate.read_owned().await }
        }
    }

    /// Does something to a server that may take its time.
    pub(crate) fn with<T>(&self, kind: Kind, work: impl FnOnce(&mut Server) -> T) -> T {
        let [(_, postgres), (_, kafka), (_, rabbitmq), (_, nats)] = &self.servers;
        let server = match kind {
            Kind::Postgres => postgres,
            Kind::Kafka => kafka,
            Kind::Rabbitmq => rabbitmq,
            Kind::Nats => nats,
        };
        block_in_place(|| work(&mut server.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// As its clients name it.
    pub(crate) fn address(&self, kind: Kind) -> String {
        self.with(kind, |server| server.address().to_owned())
    }

    /// Where its clients connect.
    pub(crate) fn socket(&self, kind: Kind) -> Result<SocketAddr> {
        let port = self.with(kind, |server| server.port(kind.purpose())).context("find a server's port")?;
        Ok(loopback(port))
    }

    /// Ways to Kafka for one scene, which gives them back.
    pub(crate) fn take_ways(&self) -> Result<KafkaWays> {
        let way = self.ways.lock().unwrap_or_else(PoisonError::into_inner).pop();
        way.context("find ways to Kafka: all are taken")
    }

    pub(crate) fn give_ways(&self, ways: KafkaWays) {
        ways.iter().for_each(|way| way.set(Mode::Pass));
        self.ways.lock().unwrap_or_else(PoisonError::into_inner).push(ways);
    }

    /// Starts what a fault left down.
    pub(crate) fn mend(&self) -> Result<()> {
        for (kind, _) in &self.servers {
            self.with(*kind, |server| {
                server.resume();
                if server.is_running() { Ok(()) } else { server.restart() }
            })?;
        }
        Ok(())
    }
}

async fn kafka_way() -> Result<(Way, Proxy)> {
    let listens = ports::free()?;
    let proxy = Proxy::start(loopback(listens)).await.context("start a proxy")?;
    Ok((Way { listens, advertised: proxy.address().port() }, proxy))
}

pub(crate) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn join(thread: std::thread::ScopedJoinHandle<'_, Result<Server>>) -> Result<Server> {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
