//! One fault's stage: three tenant databases, destinations, one or two replicas with ways of their own to every
//! server, and the load. Names are this scene's own; servers are shared with the scenes after it.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outrider_servers::{Install, Server, pgbouncer, place};
use outrider_test_support::consume::{Consume, kafka, nats, rabbitmq};
use outrider_test_support::daemon::{Daemon, Running};
use outrider_test_support::proxy::{Mode, Proxy};
use outrider_test_support::verify::Seen;
use rand::Rng;
use rand::rngs::StdRng;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::task::block_in_place;
use uuid::Uuid;

use crate::args::Args;
use crate::ground::{BROKERS, Ground, Kind};
use crate::load::{Load, TOPICS, Told};

pub(crate) const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

/// Most events that are unanswered at a time, of each broker and replica: what one disturbance may send again.
pub(crate) const IN_FLIGHT: u64 = 200;

/// Few, so that an outage that counted would show.
pub(crate) const MAX_UNKNOWN: i32 = 5;

const LEASE: &str = "6s";
const PUBLISH_DEADLINE: &str = "3s";

/// Longer than a lease and every backoff of the config, many times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is confirmed is in the broker, so it comes to a reader within this.
const ALL_WITHIN: Duration = Duration::from_secs(30);

/// A reader that has it all waits for so long for further copies.
const QUIET: Duration = Duration::from_millis(1500);

const ACKNOWLEDGE: usize = 100;

const DUPLICATE_WINDOW: Duration = Duration::from_secs(3600);

/// One replica.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) daemon: Daemon,
    pub(crate) running: Option<Running>,
    postgres: Proxy,
    rabbitmq: Proxy,
    nats: Proxy,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Scene<'g> {
    pub(crate) ground: &'g mut Ground,
    /// Prefix of every name.
    pub(crate) run: String,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) load: Option<Load>,
    /// Times that something broke, so that what was in flight may come again.
    pub(crate) hits: u64,
    pub(crate) chance: StdRng,
    /// Whether what is poison has to be dead at the end.
    pub(crate) poisoned: bool,
    /// Whether outcomes must have come too late, and been fenced.
    pub(crate) fences: bool,
    without_guard: Option<String>,
    /// Stands between the relay and the database in some scenes.
    pooler: Option<Server>,
    seen: BTreeMap<String, Vec<Seen>>,
    effects: HashSet<(String, Uuid)>,
}

impl<'g> Scene<'g> {
    /// Makes everything; starts nothing.
    pub(crate) async fn set(
        ground: &'g mut Ground,
        args: &Args,
        replicas: usize,
        pooled: bool,
        chance: StdRng,
    ) -> Result<Scene<'g>> {
        let id = Uuid::new_v4().simple().to_string();
        let mut scene = Scene {
            ground,
            run: format!("f{}", &id[..8]),
            replicas: Vec::new(),
            load: None,
            hits: 0,
            chance,
            poisoned: false,
            fences: false,
            without_guard: args.without_guard.clone(),
            pooler: None,
            seen: BTreeMap::new(),
            effects: HashSet::new(),
        };
        scene.make().await?;
        // The migration needs the server itself.
        scene.replica(args, 0).await?.daemon.migrate().await?;
        if pooled {
            let postgres = scene.ground.postgres.port("postgres").context("find PostgreSQL's port")?;
            let role = scene.role();
            let pooler = block_in_place(|| pgbouncer::start(&Install::locate(), postgres, &[&role]))?;
            scene.pooler = Some(pooler);
        }
        for number in 0..replicas {
            let replica = scene.replica(args, number).await?;
            scene.replicas.push(replica);
        }
        Ok(scene)
    }

    /// The database role of the relay.
    pub(crate) fn role(&self) -> String {
        format!("relay_{}", self.run)
    }

    async fn make(&self) -> Result<()> {
        let mut server = self.admin().await?;
        // It owns the databases and migrates them.
        let role = format!("CREATE ROLE {} LOGIN CREATEROLE", self.role());
        sqlx::raw_sql(AssertSqlSafe(role)).execute(&mut server).await.context("create a role")?;
        for tenant in TENANTS {
            let create = format!("CREATE DATABASE {} OWNER {}", self.database(tenant), self.role());
            sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut server).await.context("create a database")?;
        }
        let topic = self.kafka_topic();
        kafka::create_topics(self.ground.kafka.address(), &[&topic], 3).await?;
        rabbitmq::declare(self.ground.rabbitmq.address(), &self.run, &self.run, "#").await?;
        let subjects = format!("{}.>", self.run);
        nats::create_stream(self.ground.nats.address(), &self.run, &[&subjects], DUPLICATE_WINDOW).await
    }

    async fn replica(&self, args: &Args, number: usize) -> Result<Replica> {
        let behind = async |port: Option<u16>| -> Result<Proxy> {
            let port = port.context("find a server's port")?;
            Proxy::start(SocketAddr::from(([127, 0, 0, 1], port))).await.context("start a proxy")
        };
        let replica = Replica {
            daemon: Daemon::new(&args.outrider)?,
            running: None,
            postgres: behind(match &self.pooler {
                Some(pooler) => pooler.port("pgbouncer"),
                None => self.ground.postgres.port("postgres"),
            })
            .await?,
            rabbitmq: behind(self.ground.rabbitmq.port("amqp")).await?,
            nats: behind(self.ground.nats.port("nats")).await?,
        };
        let database = |tenant| {
            let (role, address, name) = (self.role(), replica.postgres.address(), self.database(tenant));
            let pooling = if self.pooler.is_some() { "transaction" } else { "session" };
            let url = format!("postgres://{role}@{address}/{name}");
            (tenant, format!("database = {{ url = \"{url}\", pooling = \"{pooling}\" }}\n"))
        };
        replica.daemon.write(&self.config(&replica, number), &TENANTS.map(database))?;
        Ok(replica)
    }

    fn config(&self, replica: &Replica, number: usize) -> String {
        let run = &self.run;
        let mut text = format!(
            "[replica]\nname = \"{run}-{number}\"\n[shutdown]\ngrace = \"10s\"\n[delivery]\nlease = \"{LEASE}\"\n\
             batch_events = 50\nbackoff = {{ base = \"100ms\", max = \"1s\" }}\non_dead = \"skip\"\nmax_refusals = 1000\n\
             max_unknown = {MAX_UNKNOWN}\n"
        );
        let params = [
            ("kafka", format!("\"bootstrap.servers\" = \"{}\"", self.ground.kafka_ways[number].address())),
            (
                "rabbitmq",
                format!(
                    "url = \"amqp://guest:guest@{}/%2f\", unroutable = \"refuse\"",
                    replica.rabbitmq.address()
                ),
            ),
            ("nats", format!("url = \"nats://{}\", duplicate_window = \"3600s\"", replica.nats.address())),
        ];
        for (kind, params) in params {
            let _ = write!(
                text,
                "[brokers.{kind}]\nkind = \"{kind}\"\npublish_deadline = \"{PUBLISH_DEADLINE}\"\nconnect_timeout = \"2s\"\n\
                 max_in_flight = {{ events = {IN_FLIGHT}, bytes = \"32MiB\" }}\nparams = {{ {params} }}\n"
            );
        }
        let routes = [
            ("ledger.*", "kafka", format!("topic = \"{}\"", self.ledger_topic())),
            ("orders.*", "kafka", format!("topic = \"{}\"", self.kafka_topic())),
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

    pub(crate) fn kafka_topic(&self) -> String {
        format!("{}-orders", self.run)
    }

    /// A topic with one partition, in the one fault that makes Kafka lose what it had confirmed.
    pub(crate) fn ledger_topic(&self) -> String {
        format!("{}-ledger", self.run)
    }

    pub(crate) fn database(&self, tenant: &str) -> String {
        format!("{}_{tenant}", self.run)
    }

    /// A superuser's URL, past every proxy.
    pub(crate) fn database_url(&self, tenant: &str) -> String {
        let port = self.ground.postgres.port("postgres").unwrap_or_default();
        format!("postgres://postgres@127.0.0.1:{port}/{}", self.database(tenant))
    }

    /// A superuser's connection to the server's own database.
    pub(crate) async fn admin(&self) -> Result<PgConnection> {
        PgConnection::connect(self.ground.postgres.address()).await.context("connect to PostgreSQL")
    }

    /// Runs SQL in a tenant's database, as superuser.
    pub(crate) async fn sql(&self, tenant: &str, sql: &str) -> Result<()> {
        let mut database = PgConnection::connect(&self.database_url(tenant)).await?;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut database).await?;
        database.close().await?;
        Ok(())
    }

    /// Writes one event without a key. Returns its id.
    pub(crate) async fn write(&self, tenant: &str, topic: &str, kind: &str, bytes: usize) -> Result<Uuid> {
        let mut database = PgConnection::connect(&self.database_url(tenant)).await?;
        let sql = "INSERT INTO outrider.outbox (topic, type, payload) VALUES ($1, $2, $3) RETURNING id";
        let payload = vec![b'x'; bytes];
        let insert = sqlx::query_scalar(sql).bind(topic).bind(kind).bind(payload);
        insert.fetch_one(&mut database).await.context("write an event")
    }

    /// The same, for one that has to end dead.
    pub(crate) async fn write_poison(
        &self,
        tenant: &str,
        topic: &str,
        kind: &str,
        bytes: usize,
    ) -> Result<Uuid> {
        let id = self.write(tenant, topic, kind, bytes).await?;
        self.load.as_ref().context("find the load")?.count_as_poison(id);
        Ok(id)
    }

    /// Waits until an event is dead. Returns its attempts, and why.
    pub(crate) async fn dead(&self, tenant: &str, id: Uuid) -> Result<(i32, String)> {
        let mut database = PgConnection::connect(&self.database_url(tenant)).await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let row: Option<(i16, i32, Option<String>)> = sqlx::query_as(
                "SELECT hold, attempts::int, last_error FROM outrider.delivery JOIN outrider.outbox USING (seq)
                  WHERE id = $1",
            )
            .bind(id)
            .fetch_optional(&mut database)
            .await?;
            match row {
                Some((3, attempts, reason)) => return Ok((attempts, reason.unwrap_or_default())),
                None => bail!("give up event {id} of `{tenant}`: it was sent"),
                Some((hold, attempts, reason)) => ensure!(
                    Instant::now() < deadline,
                    "give up event {id} of `{tenant}`: after {PATIENCE:?} it is held as {hold}, {attempts} attempts, {reason:?}"
                ),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Runs SQL as superuser in the server's own database.
    pub(crate) async fn admin_sql(&self, sql: &str) -> Result<()> {
        let mut admin = self.admin().await?;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut admin).await?;
        Ok(())
    }

    /// Ends the relay's sessions. Returns how many there were.
    pub(crate) async fn terminate_sessions(&self) -> Result<i64> {
        let mut admin = self.admin().await?;
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = $1";
        Ok(sqlx::query_scalar(sql).bind(self.role()).fetch_one(&mut admin).await?)
    }

    /// Starts every replica, and the load.
    pub(crate) async fn begin(&mut self, seed: u64) -> Result<()> {
        for number in 0..self.replicas.len() {
            self.start(number, &[]).await?;
        }
        self.begin_load(seed);
        Ok(())
    }

    pub(crate) fn begin_load(&mut self, seed: u64) {
        let databases: Vec<String> = TENANTS.iter().map(|tenant| self.database_url(tenant)).collect();
        self.load = Some(Load::start(&databases, seed));
    }

    /// Starts a replica and waits until it is ready.
    pub(crate) async fn start(&mut self, number: usize, variables: &[(&str, &str)]) -> Result<()> {
        let mut all = variables.to_vec();
        if let Some(guard) = &self.without_guard {
            all.push(("OUTRIDER_WITHOUT_GUARD", guard));
        }
        let replica = &mut self.replicas[number];
        let mut running = replica.daemon.launch_with(&all)?;
        replica.daemon.ready(&mut running).await?;
        replica.running = Some(running);
        Ok(())
    }

    /// The running program of a replica.
    pub(crate) fn running(&mut self, number: usize) -> Result<&mut Running> {
        self.replicas[number].running.as_mut().context("find a running replica")
    }

    /// SIGKILL to a replica.
    pub(crate) async fn kill(&mut self, number: usize) -> Result<()> {
        self.running(number)?.kill().await?;
        self.replicas[number].running = None;
        self.hits += 1;
        Ok(())
    }

    /// SIGTERM to a replica, and its orderly end.
    pub(crate) async fn end(&mut self, number: usize) -> Result<()> {
        let running = self.replicas[number].running.take().context("find a running replica")?;
        let status = running.end().await?;
        ensure!(status.success(), "end a replica in good order: {status}");
        Ok(())
    }

    /// The ways of a replica to one kind of server behave so.
    pub(crate) fn way(&self, number: usize, to: Kind, mode: Mode) {
        let replica = &self.replicas[number];
        match to {
            Kind::Postgres => replica.postgres.set(mode),
            Kind::Kafka => self.ground.kafka_ways[number].set(mode),
            Kind::Rabbitmq => replica.rabbitmq.set(mode),
            Kind::Nats => replica.nats.set(mode),
        }
    }

    /// Breaks the connections of a replica to one kind of server.
    pub(crate) fn cut(&self, number: usize, to: Kind) {
        let replica = &self.replicas[number];
        match to {
            Kind::Postgres => replica.postgres.cut(),
            Kind::Kafka => self.ground.kafka_ways[number].cut(),
            Kind::Rabbitmq => replica.rabbitmq.cut(),
            Kind::Nats => replica.nats.cut(),
        }
    }

    /// Changes the ways of all replicas to one kind of server.
    pub(crate) fn ways(&self, to: Kind, mode: Mode) {
        (0..self.replicas.len()).for_each(|number| self.way(number, to, mode));
    }

    /// A random time within the load.
    pub(crate) fn some_time(&mut self) -> Duration {
        Duration::from_millis(self.chance.random_range(300..2_000))
    }

    /// A server loses everything that is not on disk, and comes back after `down`.
    pub(crate) async fn power_cut(&mut self, kind: Kind, down: Duration) -> Result<()> {
        block_in_place(|| self.ground.server(kind).kill());
        tokio::time::sleep(down).await;
        block_in_place(|| self.ground.server(kind).restart())?;
        self.hits += 1;
        Ok(())
    }

    /// The relay must not have ended by itself.
    pub(crate) fn look_after(&mut self) -> Result<()> {
        for replica in &mut self.replicas {
            if let Some(running) = &mut replica.running
                && let Some(status) = running.ended()?
            {
                bail!("keep a replica running: it ended with {status}\n{}", replica.daemon.quote());
            }
        }
        Ok(())
    }

    /// Waits until everything that has committed by now is sent or dead. Returns how long that took.
    pub(crate) async fn caught_up(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut databases = Vec::new();
        for tenant in TENANTS {
            let mut database = PgConnection::connect(&self.database_url(tenant)).await?;
            let last: i64 = sqlx::query_scalar("SELECT coalesce(max(seq), 0) FROM outrider.outbox")
                .fetch_one(&mut database)
                .await?;
            databases.push((tenant, database, last));
        }
        for (tenant, database, last) in &mut databases {
            loop {
                let left: i64 = sqlx::query_scalar(
                    "SELECT count(*) FROM outrider.delivery WHERE hold <> 3 AND seq <= $1",
                )
                .bind(*last)
                .fetch_one(&mut *database)
                .await?;
                if left == 0 {
                    break;
                }
                self.look_after()?;
                if begun.elapsed() > PATIENCE {
                    bail!(
                        "send what committed: {left} events of `{tenant}` wait {PATIENCE:?} after the fault"
                    );
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(begun.elapsed())
    }

    /// Ends the load, waits for the rest, ends the replicas.
    pub(crate) async fn finish(&mut self) -> Result<(Told, u64)> {
        let load = self.load.take().context("find the load")?;
        let told = load.stop().await?;
        self.caught_up().await?;
        let fenced = self.fenced().await;
        for number in 0..self.replicas.len() {
            if self.replicas[number].running.is_some() {
                self.end(number).await?;
            }
        }
        for kind in BROKERS {
            self.collect(kind).await?;
        }
        Ok((told, fenced))
    }

    /// Outcomes that the running replicas counted as too late.
    async fn fenced(&self) -> u64 {
        let mut sum = 0;
        for replica in self.replicas.iter().filter(|replica| replica.running.is_some()) {
            let answer = replica.daemon.ask("/metrics").await.unwrap_or_default();
            let lines = answer.lines().filter(|line| line.starts_with("outrider_events_fenced_total"));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            sum += values.sum::<u64>();
        }
        sum
    }

    /// Reads everything that a broker holds, once: RabbitMQ forgets it, the others are read from the beginning.
    pub(crate) async fn collect(&mut self, from: Kind) -> Result<()> {
        let broker = from.name();
        let mut wanted = HashSet::new();
        for tenant in TENANTS {
            wanted.extend(self.sent(tenant, broker).await?);
        }
        wanted.retain(|id| !self.effects.contains(&(broker.to_owned(), *id)));
        let ids = match from {
            Kind::Kafka => {
                let topic = self.kafka_topic();
                let consumer = kafka::Consumer::open(self.ground.kafka.address(), &[&topic]).await;
                drain(&mut consumer?, wanted).await
            }
            Kind::Rabbitmq => {
                let consumer = rabbitmq::Consumer::open(self.ground.rabbitmq.address(), &self.run);
                drain(&mut consumer.await?, wanted).await
            }
            _ => {
                let consumer = nats::Consumer::open(self.ground.nats.address(), &self.run);
                drain(&mut consumer.await?, wanted).await
            }
        };
        for id in ids.with_context(|| format!("read from {broker}"))? {
            let effect = self.effects.insert((broker.to_owned(), id));
            self.seen.entry(broker.to_owned()).or_default().push(Seen { id, effect });
        }
        Ok(())
    }

    /// Events of a tenant that are marked as sent to a broker.
    async fn sent(&self, tenant: &str, broker: &str) -> Result<Vec<Uuid>> {
        let mut database = PgConnection::connect(&self.database_url(tenant)).await?;
        let topics: Vec<&str> =
            TOPICS.iter().filter(|(_, to)| *to == broker).map(|(topic, _)| *topic).collect();
        let sql = "SELECT o.id FROM outrider.outbox o LEFT JOIN outrider.delivery d USING (seq)
                    WHERE d.seq IS NULL AND o.topic = ANY ($1)";
        Ok(sqlx::query_scalar(sql).bind(topics).fetch_all(&mut database).await?)
    }

    /// What consumers saw.
    pub(crate) fn seen(&self) -> &BTreeMap<String, Vec<Seen>> {
        &self.seen
    }

    /// Keeps logs and configs of the replicas, and `notes`, for whoever has to find out.
    pub(crate) fn keep_evidence(&self, name: &str, notes: &str) -> Result<PathBuf> {
        let folder = place::private().join("faults").join(format!("{name}-{}", self.run));
        std::fs::create_dir_all(&folder).context("keep the evidence")?;
        std::fs::write(folder.join("judgement.txt"), notes).context("keep the judgement")?;
        for (number, replica) in self.replicas.iter().enumerate() {
            let _ = std::fs::copy(replica.daemon.log(), folder.join(format!("replica-{number}.log")));
            let config = replica.daemon.config().join("outrider.toml");
            let _ = std::fs::copy(config, folder.join(format!("replica-{number}.toml")));
        }
        Ok(folder)
    }

    /// Kills what runs, mends the servers and removes the databases.
    pub(crate) async fn clear(mut self) -> Result<()> {
        self.load = None;
        for replica in &mut self.replicas {
            if let Some(running) = &mut replica.running {
                running.resume()?;
                running.kill().await?;
            }
        }
        self.ground.mend()?;
        for tenant in TENANTS {
            self.admin_sql(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.database(tenant)))
                .await?;
        }
        let topic = self.kafka_topic();
        let _ = kafka::delete_topics(self.ground.kafka.address(), &[&topic]).await;
        let _ = rabbitmq::delete(self.ground.rabbitmq.address(), &self.run, &self.run).await;
        let _ = nats::delete_stream(self.ground.nats.address(), &self.run).await;
        Ok(())
    }
}

/// Reads until everything wanted has come, and then until nothing comes any more.
async fn drain(consumer: &mut dyn Consume, mut wanted: HashSet<Uuid>) -> Result<Vec<Uuid>> {
    let mut ids = Vec::new();
    let all_by = Instant::now() + ALL_WITHIN;
    loop {
        let quiet_at = Instant::now() + QUIET;
        let deadline = if wanted.is_empty() { quiet_at } else { all_by.max(quiet_at) };
        let Some(message) = consumer.next(deadline).await? else { break };
        let id = message.id()?;
        wanted.remove(&id);
        ids.push(id);
        // RabbitMQ gives only so many that are not acknowledged.
        if ids.len() % ACKNOWLEDGE == 0 {
            consumer.done().await?;
        }
    }
    consumer.done().await?;
    Ok(ids)
}
