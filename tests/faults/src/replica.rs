//! One replica of the relay: the program, its config, and ways of its own to every server.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use outrider_test_support::daemon::{Daemon, Running};
use outrider_test_support::hosts::Hosts;
use outrider_test_support::proxy::Proxy;
use tokio::sync::Mutex;

use crate::databases::NAME;
use crate::ground::Kind;
use crate::scene::{IN_FLIGHT, MAX_UNKNOWN, TENANTS};

/// As short as the pauses and black holes of the kit allow, so that each outlasts it.
const LEASE: &str = "{ min = \"3s\", max = \"6s\" }";
const PUBLISH_DEADLINE: &str = "{ min = \"1s\", max = \"3s\" }";

/// Where a replica finds things.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    /// Prefix of every name.
    pub(crate) run: &'a str,
    pub(crate) number: usize,
    pub(crate) role: &'a str,
    /// One, or two that have one name.
    pub(crate) databases: Vec<SocketAddr>,
    pub(crate) pooled: bool,
    pub(crate) kafka: SocketAddr,
    pub(crate) kafka_topic: &'a str,
    pub(crate) ledger_topic: &'a str,
    pub(crate) rabbitmq: SocketAddr,
    pub(crate) nats: SocketAddr,
}

#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) daemon: Daemon,
    running: Mutex<Option<Running>>,
    /// Whether a fault means it to end by itself.
    may_end: AtomicBool,
    /// Where the database has a name.
    hosts: Option<Hosts>,
    postgres: Vec<Proxy>,
    rabbitmq: Proxy,
    nats: Proxy,
}

impl Replica {
    /// With its config written; not started.
    pub(crate) async fn new(program: &Path, places: &Places<'_>) -> Result<Replica> {
        let mut replica = Replica {
            daemon: Daemon::new(program)?,
            running: Mutex::default(),
            may_end: AtomicBool::new(false),
            hosts: None,
            postgres: doors(&places.databases).await.context("start a proxy")?,
            rabbitmq: Proxy::start(places.rabbitmq).await.context("start a proxy")?,
            nats: Proxy::start(places.nats).await.context("start a proxy")?,
        };
        let host = if replica.postgres.len() > 1 {
            replica.tell_names()?;
            format!("{NAME}:{}", replica.door(0)?.port())
        } else {
            replica.door(0)?.to_string()
        };
        let database = |tenant| {
            let pooling = if places.pooled { "transaction" } else { "session" };
            let url = format!("postgres://{}@{host}/{}_{tenant}", places.role, places.run);
            (tenant, format!("database = {{ url = \"{url}\", pooling = \"{pooling}\" }}\n"))
        };
        replica.daemon.write(&replica.config(places), &TENANTS.map(database))?;
        Ok(replica)
    }

    fn door(&self, number: usize) -> Result<SocketAddr> {
        self.postgres.get(number).map(Proxy::address).context("find a way to the database")
    }

    /// Gives the program a table of host names of its own, in which the name stands for the first server.
    fn tell_names(&mut self) -> Result<()> {
        let hosts = Hosts::new(&[(NAME, self.door(0)?.ip())])?;
        let hosts = hosts.context("find libnss_wrapper (Debian: apt-get install libnss-wrapper)")?;
        self.daemon.tell(hosts.variables().to_vec());
        self.hosts = Some(hosts);
        Ok(())
    }

    /// From now on, for connections that are made from now on.
    pub(crate) fn name_stands_for(&self, number: usize) -> Result<()> {
        let hosts = self.hosts.as_ref().context("find a table of host names")?;
        hosts.are(&[(NAME, self.door(number)?.ip())])
    }

    fn config(&self, places: &Places<'_>) -> String {
        let Places { run, number, kafka_topic, ledger_topic, .. } = places;
        let mut text = format!(
            "[replica]\nname = \"{run}-{number}\"\n[shutdown]\ngrace = \"10s\"\n[delivery]\nlease = {LEASE}\n\
             batch_events = 50\nbackoff = {{ base = \"100ms\", max = \"1s\" }}\non_dead = \"skip\"\nmax_refusals = 1000\n\
             max_unknown = {MAX_UNKNOWN}\n"
        );
        let (rabbitmq, nats) = (self.rabbitmq.address(), self.nats.address());
        let params = [
            ("kafka", format!("\"bootstrap.servers\" = \"{}\"", places.kafka)),
            ("rabbitmq", format!("url = \"amqp://guest:guest@{rabbitmq}/%2f\", unroutable = \"refuse\"")),
            ("nats", format!("url = \"nats://{nats}\", duplicate_window = \"3600s\"")),
        ];
        for (kind, params) in params {
            let _ = write!(
                text,
                "[brokers.{kind}]\nkind = \"{kind}\"\npublish_deadline = {PUBLISH_DEADLINE}\nconnect_timeout = \"2s\"\n\
                 max_in_flight = {{ events = {IN_FLIGHT}, bytes = \"32MiB\" }}\nparams = {{ {params} }}\n"
            );
        }
        let routes = [
            ("ledger.*", "kafka", format!("topic = \"{ledger_topic}\"")),
            ("orders.*", "kafka", format!("topic = \"{kafka_topic}\"")),
            (
                "billing.*",
                "rabbitmq",
                format!("exchange = \"{run}\", routing_key = \"{{tenant}}.{{topic}}\""),
            ),
            ("shipping.*", "nats", format!("subject = \"{run}.{{tenant}}.{{topic}}.{{type}}\"")),
        ];
        for (topic, broker, to) in routes {
            let _ = write!(text, "[[routes]]\ntopic = \"{topic}\"\nbroker = \"{broker}\"\nto = {{ {to} }}\n");
        }
        text
    }

    /// Its ways to a kind of server that are its own: to all but Kafka.
    pub(crate) fn ways(&self, to: Kind) -> &[Proxy] {
        match to {
            Kind::Postgres => &self.postgres,
            Kind::Kafka => &[],
            Kind::Rabbitmq => std::slice::from_ref(&self.rabbitmq),
            Kind::Nats => std::slice::from_ref(&self.nats),
        }
    }

    pub(crate) async fn launch(&self, variables: &[(&str, &str)]) -> Result<()> {
        *self.running.lock().await = Some(self.daemon.launch_with(variables)?);
        self.may_end.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) async fn ready(&self) -> Result<()> {
        let mut running = self.running.lock().await;
        let running = running.as_mut().context("find a running replica")?;
        self.daemon.ready(running).await
    }

    pub(crate) async fn is_running(&self) -> bool {
        self.running.lock().await.is_some()
    }

    /// SIGKILL.
    pub(crate) async fn kill(&self) -> Result<()> {
        let mut running = self.take().await?;
        running.resume()?;
        running.kill().await
    }

    /// SIGTERM, and how it ended.
    pub(crate) async fn end(&self) -> Result<ExitStatus> {
        self.take().await?.end().await
    }

    async fn take(&self) -> Result<Running> {
        self.running.lock().await.take().context("find a running replica")
    }

    /// Does something to the running program.
    pub(crate) async fn with<T>(&self, work: impl FnOnce(&Running) -> Result<T>) -> Result<T> {
        let running = self.running.lock().await;
        work(running.as_ref().context("find a running replica")?)
    }

    /// It ends by itself from now on, which is no mistake.
    pub(crate) fn let_end(&self) {
        self.may_end.store(true, Ordering::Relaxed);
    }

    /// How it ended, if it has.
    pub(crate) async fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut running = self.running.lock().await;
        let status = running.as_mut().context("find a running replica")?.ended()?;
        if status.is_some() {
            *running = None;
        }
        Ok(status)
    }

    /// Whether its log has this text.
    pub(crate) fn has_said(&self, text: &str) -> Result<bool> {
        let log = std::fs::read_to_string(self.daemon.log()).context("read the relay's log")?;
        Ok(log.contains(text))
    }

    /// It must not have ended by itself.
    pub(crate) async fn look_after(&self) -> Result<()> {
        if self.may_end.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(running) = &mut *self.running.lock().await
            && let Some(status) = running.ended()?
        {
            bail!("keep a replica running: it ended with {status}\n{}", self.daemon.quote());
        }
        Ok(())
    }
}

/// A way to each; of two on one port, for clients know them by name and port.
async fn doors(targets: &[SocketAddr]) -> Result<Vec<Proxy>> {
    const TRIES: usize = 20;
    let [first, rest @ ..] = targets else { bail!("find a database server") };
    for _ in 0..TRIES {
        let mut doors = vec![Proxy::start(*first).await?];
        let port = doors[0].address().port();
        for (number, target) in (2..).zip(rest) {
            let address = SocketAddr::from(([127, 0, 0, number], port));
            let Ok(door) = Proxy::start_at(address, *target).await else { break };
            doors.push(door);
        }
        if doors.len() == targets.len() {
            return Ok(doors);
        }
    }
    bail!("find a port that is free on two loopback addresses")
}
