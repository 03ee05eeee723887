//! One fault's stage: three tenant databases, destinations, one or two replicas, and the load. Names are this scene's
//! own; servers are shared with other scenes, before it, after it and at the same time.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use outrider_servers::place;
use outrider_test_support::proxy::{Mode, Proxy};
use outrider_test_support::verify::Seen;
use rand::Rng;
use rand::rngs::StdRng;
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use uuid::Uuid;

use crate::args::Args;
use crate::databases::{Databases, Via};
use crate::destinations::Destinations;
use crate::ground::{BROKERS, Ground, KafkaWays, Kind, Pass};
use crate::load::{Load, TOPICS, Told};
use crate::replica::{Places, Replica};

pub(crate) const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

/// Most events that are unanswered at a time, of each broker and replica: what one disturbance may send again.
pub(crate) const IN_FLIGHT: u64 = 200;

/// Few, so that an outage that counted would show.
pub(crate) const MAX_UNKNOWN: i32 = 5;

/// Longer than a lease and every backoff of the config, many times.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Until a database that is being restarted answers again.
const CONNECTED_WITHIN: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The exit code of a relay that could not wait for all that was in flight.
const DRAIN_INCOMPLETE: i32 = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) ground: Arc<Ground>,
    args: Arc<Args>,
    pass: tokio::sync::Mutex<Option<Pass>>,
    /// Prefix of every name.
    pub(crate) run: String,
    destinations: Destinations,
    pub(crate) databases: Databases,
    kafka_ways: Option<KafkaWays>,
    pub(crate) replicas: Vec<Replica>,
    load: Mutex<Option<Load>>,
    /// Whether another fault may be under way when one ends a replica.
    troubled: bool,
    /// Times that something broke, so that what was in flight may come again.
    hits: AtomicU64,
    chance: Mutex<StdRng>,
    poisoned: AtomicBool,
    fences: AtomicBool,
    received: Mutex<Received>,
}

/// What the brokers gave.
#[derive(Debug, Default)]
struct Received {
    seen: BTreeMap<String, Vec<Seen>>,
    effects: HashSet<(String, Uuid)>,
}

/// What a scene is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) replicas: usize,
    pub(crate) via: Via,
    /// Nobody else is on the ground.
    pub(crate) alone: bool,
    /// More than one thing breaks at a time.
    pub(crate) troubled: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scene {
    /// Makes everything; starts nothing.
    pub(crate) async fn set(
        ground: Arc<Ground>,
        args: Arc<Args>,
        pass: Pass,
        setting: Setting,
        chance: StdRng,
    ) -> Result<Scene> {
        let id = Uuid::new_v4().simple().to_string();
        let run = format!("f{}", &id[..8]);
        let mut scene = Scene {
            pass: tokio::sync::Mutex::new(Some(pass)),
            destinations: Destinations { run: run.clone() },
            databases: Databases::find(&ground, setting.via).await?,
            kafka_ways: Some(ground.take_ways()?),
            ground,
            args,
            run,
            replicas: Vec::new(),
            load: Mutex::default(),
            troubled: setting.troubled,
            hits: AtomicU64::new(0),
            chance: Mutex::new(chance),
            poisoned: AtomicBool::new(false),
            fences: AtomicBool::new(false),
            received: Mutex::default(),
        };
        scene.make().await?;
        // The migration needs the server itself.
        scene.replica(0, vec![scene.databases.address()], false).await?.daemon.migrate().await?;
        let pooled = setting.via == Via::Pooler;
        if pooled {
            let role = scene.role();
            scene.databases.pool(&role)?;
        }
        for number in 0..setting.replicas {
            let replica = scene.replica(number, scene.databases.relay_targets()?, pooled).await?;
            scene.replicas.push(replica);
        }
        Ok(scene)
    }

    async fn make(&self) -> Result<()> {
        // It owns the databases and migrates them.
        self.admin_sql(&format!("CREATE ROLE {} LOGIN CREATEROLE", self.role())).await?;
        for tenant in TENANTS {
            let create = format!("CREATE DATABASE {} OWNER {}", self.database(tenant), self.role());
            self.admin_sql(&create).await.context("create a database")?;
        }
        self.destinations.make(&self.ground).await
    }

    async fn replica(
        &self,
        number: usize,
        databases: Vec<std::net::SocketAddr>,
        pooled: bool,
    ) -> Result<Replica> {
        let places = Places {
            run: &self.run,
            number,
            role: &self.role(),
            databases,
            pooled,
            kafka: self.kafka_way(number)?.address(),
            kafka_topic: &self.kafka_topic(),
            ledger_topic: &self.ledger_topic(),
            rabbitmq: self.ground.socket(Kind::Rabbitmq)?,
            nats: self.ground.socket(Kind::Nats)?,
        };
        Replica::new(&self.args.outrider, &places).await
    }

    /// The database role of the relay.
    pub(crate) fn role(&self) -> String {
        format!("relay_{}", self.run)
    }

    pub(crate) fn kafka_topic(&self) -> String {
        self.destinations.kafka_topic()
    }

    pub(crate) fn ledger_topic(&self) -> String {
        self.destinations.ledger_topic()
    }

    fn database(&self, tenant: &str) -> String {
        format!("{}_{tenant}", self.run)
    }

    /// Others may be on the ground from now on, if they leave the servers alone or not.
    pub(crate) async fn let_others(&self) {
        *self.pass.lock().await = None;
    }

    /// Nobody else is on the ground from now on. Waits until they have gone.
    pub(crate) async fn be_alone(&self) {
        let pass = self.ground.enter(true).await;
        *self.pass.lock().await = Some(pass);
    }

    /// A superuser's URL, past every proxy.
    fn database_url(&self, tenant: &str) -> String {
        format!("postgres://postgres@{}/{}", self.databases.address(), self.database(tenant))
    }

    /// A superuser's connection to a tenant's database. Waits while the server is down.
    pub(crate) async fn connect(&self, tenant: &str) -> Result<PgConnection> {
        connect(&self.database_url(tenant)).await
    }

    /// A superuser's connection to the server's own database.
    async fn admin(&self) -> Result<PgConnection> {
        connect(&format!("postgres://postgres@{}/postgres", self.databases.address())).await
    }

    /// Runs SQL in a tenant's database, as superuser.
    pub(crate) async fn sql(&self, tenant: &str, sql: &str) -> Result<()> {
        execute(self.connect(tenant).await?, sql).await
    }

    /// Runs SQL as superuser in the server's own database.
    pub(crate) async fn admin_sql(&self, sql: &str) -> Result<()> {
        execute(self.admin().await?, sql).await
    }

    /// Writes one event without a key. Returns its id.
    pub(crate) async fn write(&self, tenant: &str, topic: &str, kind: &str, bytes: usize) -> Result<Uuid> {
        let mut database = self.connect(tenant).await?;
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
        self.with_load(|load| load.count_as_poison(id))?;
        Ok(id)
    }

    /// Waits until an event is dead. Returns its attempts, and why.
    pub(crate) async fn dead(&self, tenant: &str, id: Uuid) -> Result<(i32, String)> {
        let mut database = self.connect(tenant).await?;
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

    /// Ends the relay's sessions. Returns how many there were.
    pub(crate) async fn terminate_sessions(&self) -> Result<i64> {
        let mut admin = self.admin().await?;
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = $1";
        Ok(sqlx::query_scalar(sql).bind(self.role()).fetch_one(&mut admin).await?)
    }

    /// Starts every replica, and the load.
    pub(crate) async fn begin(&self, seed: u64) -> Result<()> {
        for number in 0..self.replicas.len() {
            self.start(number, &[]).await?;
        }
        let databases: Vec<String> = TENANTS.iter().map(|tenant| self.database_url(tenant)).collect();
        *lock(&self.load) = Some(Load::start(&databases, seed));
        Ok(())
    }

    /// Tells the load something.
    pub(crate) fn with_load<T>(&self, work: impl FnOnce(&Load) -> T) -> Result<T> {
        lock(&self.load).as_ref().map(work).context("find the load")
    }

    /// Starts a replica, and waits for nothing.
    pub(crate) async fn launch(&self, number: usize, variables: &[(&str, &str)]) -> Result<()> {
        let mut all = variables.to_vec();
        if let Some(guard) = &self.args.without_guard {
            all.push(("OUTRIDER_WITHOUT_GUARD", guard));
        }
        self.replicas[number].launch(&all).await
    }

    /// Starts a replica and waits until it is ready.
    pub(crate) async fn start(&self, number: usize, variables: &[(&str, &str)]) -> Result<()> {
        self.launch(number, variables).await?;
        self.replicas[number].ready().await
    }

    /// SIGKILL to a replica.
    pub(crate) async fn kill(&self, number: usize) -> Result<()> {
        self.replicas[number].kill().await?;
        self.hit();
        Ok(())
    }

    /// SIGTERM to a replica, and its orderly end.
    pub(crate) async fn end(&self, number: usize) -> Result<()> {
        let status = self.replicas[number].end().await?;
        if self.troubled && status.code() == Some(DRAIN_INCOMPLETE) {
            self.hit();
            return Ok(());
        }
        ensure!(status.success(), "end a replica in good order: {status}");
        Ok(())
    }

    /// Something broke: what was in flight may come again.
    pub(crate) fn hit(&self) {
        self.hit_times(1);
    }

    pub(crate) fn hit_times(&self, times: u64) {
        self.hits.fetch_add(times, Ordering::Relaxed);
    }

    pub(crate) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// What is poison has to be dead at the end, and there has to be some.
    pub(crate) fn expect_poison(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
    }

    pub(crate) fn expects_poison(&self) -> bool {
        self.poisoned.load(Ordering::Relaxed)
    }

    /// Outcomes must have come too late, and been fenced.
    pub(crate) fn expect_fenced(&self) {
        self.fences.store(true, Ordering::Relaxed);
    }

    pub(crate) fn expects_fenced(&self) -> bool {
        self.fences.load(Ordering::Relaxed)
    }

    fn kafka_way(&self, number: usize) -> Result<&Proxy> {
        self.kafka_ways.as_ref().and_then(|ways| ways.get(number)).context("find a way to Kafka")
    }

    fn all_ways(&self, number: usize, to: Kind) -> impl Iterator<Item = &Proxy> {
        let kafka = (to == Kind::Kafka).then(|| self.kafka_way(number).ok()).flatten();
        kafka.into_iter().chain(self.replicas[number].ways(to))
    }

    /// The ways of a replica to one kind of server behave so.
    pub(crate) fn way(&self, number: usize, to: Kind, mode: Mode) {
        self.all_ways(number, to).for_each(|way| way.set(mode));
    }

    /// Breaks the connections of a replica to one kind of server.
    pub(crate) fn cut(&self, number: usize, to: Kind) {
        self.all_ways(number, to).for_each(Proxy::cut);
    }

    /// Changes the ways of all replicas to one kind of server.
    pub(crate) fn ways(&self, to: Kind, mode: Mode) {
        (0..self.replicas.len()).for_each(|number| self.way(number, to, mode));
    }

    /// A random time within the load.
    pub(crate) fn some_time(&self) -> Duration {
        Duration::from_millis(lock(&self.chance).random_range(300..2_000))
    }

    /// A server loses everything that is not on disk, and comes back after `down`.
    pub(crate) async fn power_cut(&self, kind: Kind, down: Duration) -> Result<()> {
        self.ground.with(kind, |server| server.kill());
        tokio::time::sleep(down).await;
        self.ground.with(kind, |server| server.restart())?;
        self.hit();
        Ok(())
    }

    /// No replica may have ended by itself.
    pub(crate) async fn look_after(&self) -> Result<()> {
        for replica in &self.replicas {
            replica.look_after().await?;
        }
        Ok(())
    }

    /// Waits until everything that has committed by now is sent or dead. Returns how long that took.
    pub(crate) async fn caught_up(&self) -> Result<Duration> {
        const LAST: &str = "SELECT coalesce(max(seq), 0) FROM outrider.outbox";
        const LEFT: &str = "SELECT count(*) FROM outrider.delivery WHERE hold <> 3 AND seq <= $1";
        let begun = Instant::now();
        let mut databases = Vec::new();
        for tenant in TENANTS {
            let mut database = self.connect(tenant).await?;
            let last: i64 = sqlx::query_scalar(LAST).fetch_one(&mut database).await?;
            databases.push((tenant, database, last));
        }
        for (tenant, database, last) in &mut databases {
            loop {
                let left: sqlx::Result<i64> =
                    sqlx::query_scalar(LEFT).bind(*last).fetch_one(&mut *database).await;
                match left {
                    Ok(0) => break,
                    Ok(left) if begun.elapsed() > PATIENCE => bail!(
                        "send what committed: {left} events of `{tenant}` wait {PATIENCE:?} after the fault"
                    ),
                    Ok(_) => self.look_after().await?,
                    // Another fault may break this connection too.
                    Err(_) => *database = self.connect(tenant).await?,
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        Ok(begun.elapsed())
    }

    /// Ends the load, waits for the rest, ends the replicas.
    pub(crate) async fn finish(&self) -> Result<(Told, u64)> {
        let load = lock(&self.load).take().context("find the load")?;
        let told = load.stop().await?;
        self.caught_up().await?;
        let fenced = self.fenced().await;
        for number in 0..self.replicas.len() {
            if self.replicas[number].is_running().await {
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
        for replica in &self.replicas {
            let answer = replica.daemon.ask("/metrics").await.unwrap_or_default();
            let lines = answer.lines().filter(|line| line.starts_with("outrider_events_fenced_total"));
            let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            sum += values.sum::<u64>();
        }
        sum
    }

    /// Reads everything that a broker holds, once: RabbitMQ forgets it, the others are read from the beginning.
    pub(crate) async fn collect(&self, from: Kind) -> Result<()> {
        let broker = from.name();
        let mut wanted = HashSet::new();
        for tenant in TENANTS {
            wanted.extend(self.sent(tenant, broker).await?);
        }
        wanted.retain(|id| !lock(&self.received).effects.contains(&(broker.to_owned(), *id)));
        let ids = self.destinations.read(&self.ground, from, wanted).await?;
        let mut received = lock(&self.received);
        for id in ids {
            let effect = received.effects.insert((broker.to_owned(), id));
            received.seen.entry(broker.to_owned()).or_default().push(Seen { id, effect });
        }
        Ok(())
    }

    /// Events of a tenant that are marked as sent to a broker.
    async fn sent(&self, tenant: &str, broker: &str) -> Result<Vec<Uuid>> {
        let mut database = self.connect(tenant).await?;
        let topics: Vec<&str> =
            TOPICS.iter().filter(|(_, to)| *to == broker).map(|(topic, _)| *topic).collect();
        let sql = "SELECT o.id FROM outrider.outbox o LEFT JOIN outrider.delivery d USING (seq)
                    WHERE d.seq IS NULL AND o.topic = ANY ($1)";
        Ok(sqlx::query_scalar(sql).bind(topics).fetch_all(&mut database).await?)
    }

    /// What consumers saw.
    pub(crate) fn seen(&self) -> BTreeMap<String, Vec<Seen>> {
        lock(&self.received).seen.clone()
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

    /// Kills what runs, mends the servers if nobody else is there, and removes the databases.
    pub(crate) async fn clear(&self) -> Result<()> {
        *lock(&self.load) = None;
        for replica in &self.replicas {
            if replica.is_running().await {
                replica.kill().await?;
            }
        }
        if matches!(*self.pass.lock().await, Some(Pass::Alone { .. })) {
            self.ground.mend()?;
        }
        if self.databases.twins.is_none() {
            for tenant in TENANTS {
                let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.database(tenant));
                self.admin_sql(&drop).await?;
            }
        }
        self.destinations.remove(&self.ground).await;
        Ok(())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(ways) = self.kafka_ways.take() {
            self.ground.give_ways(ways);
        }
    }
}

async fn connect(url: &str) -> Result<PgConnection> {
    let deadline = Instant::now() + CONNECTED_WITHIN;
    loop {
        match PgConnection::connect(url).await {
            Err(_) if Instant::now() < deadline => tokio::time::sleep(LOOK_EVERY).await,
            done => return done.context("connect to PostgreSQL"),
        }
    }
}

async fn execute(mut connection: PgConnection, sql: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
        .execute(&mut connection)
        .await
        .with_context(|| format!("run `{sql}`"))?;
    connection.close().await?;
    Ok(())
}
