//! A relay inside the test: the daemon's actors with a config, real databases and any broker, among them the memory
//! broker, which can be told what to answer.

use std::net::ToSocketAddrs;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actix::{Actor, System};
use outrider::actors::board::Board;
use outrider::actors::exit::Exit;
use outrider::actors::signals::Signals;
use outrider::actors::supervisor::Supervisor;
use outrider::brokers::Registry;
use outrider::config::{Config, Environment};
use outrider::run::keep_turning;
use outrider::store::{Schema, Store, StoreOptions, migrate};
use outrider_memory::Store as Memory;
use outrider_test_support::daemon::Daemon;
use outrider_test_support::database::TestDatabase;
use outrider_test_support::proxy::Proxy;
use sqlx::{PgConnection, PgPool};
use tempfile::TempDir;
use uuid::Uuid;

use crate::recorder;

/// Longest wait for something that should happen. A loaded machine is slow; nothing waits this long on purpose.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// A tenant with a migrated database of its own.
pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) database: TestDatabase,
    pub(crate) pool: PgPool,
    /// Where the relay finds the database.
    url: String,
    pooling: &'static str,
    settings: String,
}

impl Tenant {
    pub(crate) async fn new(name: &str) -> Self {
        let script = migrate::sql(&Schema::default());
        let database = TestDatabase::create(&script).await.unwrap();
        let pool = database.pool(4).await.unwrap();
        let url = database.url();
        Tenant { name: name.to_owned(), database, pool, url, pooling: "session", settings: String::new() }
    }

    /// The relay reaches the database there, for instance through a proxy. The test goes on reaching it directly.
    pub(crate) fn at(mut self, url: &str) -> Self {
        url.clone_into(&mut self.url);
        self
    }

    /// What is there is a pooler that lends a server connection for a transaction.
    pub(crate) fn pooled(mut self) -> Self {
        self.pooling = "transaction";
        self
    }

    /// Adds lines to the tenant's file.
    pub(crate) fn with(mut self, settings: &str) -> Self {
        self.settings.push_str(settings);
        self
    }

    /// Its file in the config.
    fn file(&self) -> String {
        format!("database = {{ url = \"{}\", pooling = \"{}\" }}\n{}", self.url, self.pooling, self.settings)
    }

    /// Inserts one event and returns its `seq`.
    pub(crate) async fn insert(&self, topic: &str, key: Option<&str>, payload: &[u8]) -> i64 {
        insert(&mut self.pool.acquire().await.unwrap(), topic, key, payload).await
    }

    /// Inserts `count` events in one statement; the key is `k0` to `k{keys - 1}` in turn, or none if `keys` is 0.
    pub(crate) async fn insert_many(&self, topic: &str, count: i32, keys: i32) {
        sqlx::query(
            "INSERT INTO outrider.outbox (topic, key, type, payload)
             SELECT $1, CASE WHEN $3 > 0 THEN 'k' || g % greatest($3, 1) END, 'test', convert_to('event ' || g, 'UTF8')
               FROM generate_series(1, $2) g",
        )
        .bind(topic)
        .bind(count)
        .bind(keys)
        .execute(&self.pool)
        .await
        .unwrap();
    }

    /// Events that are not sent.
    pub(crate) async fn unsent(&self) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM outrider.delivery").fetch_one(&self.pool).await.unwrap()
    }

    /// `state`, `attempts`, `refusals` and `last_error` of an event, as the view shows them.
    pub(crate) async fn event(&self, seq: i64) -> (String, i32, i32, Option<String>) {
        sqlx::query_as(
            "SELECT state, coalesce(attempts, 0), coalesce(refusals, 0), last_error FROM outrider.events WHERE seq = $1",
        )
        .bind(seq)
        .fetch_one(&self.pool)
        .await
        .unwrap()
    }

    /// How many events are in each state, by name of the state.
    pub(crate) async fn states(&self) -> Vec<(String, i64)> {
        sqlx::query_as("SELECT state, count(*) FROM outrider.events GROUP BY state ORDER BY state")
            .fetch_all(&self.pool)
            .await
            .unwrap()
    }

    /// `seq`s of the events that a receipt says were sent, in order, each as often as receipts list it.
    pub(crate) async fn receipts(&self) -> Vec<i64> {
        sqlx::query_scalar(
            "SELECT u.seq FROM outrider.receipt r, unnest(r.seqs) AS u(seq) WHERE r.outcome = 'sent' ORDER BY u.seq",
        )
        .fetch_all(&self.pool)
        .await
        .unwrap()
    }

    /// Name of the replica that holds the lane, if one does.
    pub(crate) async fn owner(&self) -> Option<String> {
        let owner =
            "SELECT owner_name FROM outrider.lane WHERE owner IS NOT NULL AND until > clock_timestamp()";
        sqlx::query_scalar(owner).fetch_optional(&self.pool).await.unwrap()
    }

    /// The statements of the relay and of operators, for a test that plays one of them.
    pub(crate) fn store(&self) -> Store {
        Store::new(StoreOptions::new(self.database.options(), Schema::default()))
    }

    pub(crate) async fn drained(&self) {
        until("every event is sent", async || self.unsent().await == 0).await;
    }
}

/// Inserts one event in whatever transaction the connection is in, and returns its `seq`.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    topic: &str,
    key: Option<&str>,
    payload: &[u8],
) -> i64 {
    sqlx::query_scalar(
        "INSERT INTO outrider.outbox (topic, key, type, payload) VALUES ($1, $2, 'test', $3) RETURNING seq",
    )
    .bind(topic)
    .bind(key)
    .bind(payload)
    .fetch_one(connection)
    .await
    .unwrap()
}

/// A memory broker of the test's own: a `[brokers.NAME]` section and the store behind it.
pub(crate) struct MemoryBroker {
    name: String,
    pub(crate) section: String,
    pub(crate) store: Arc<Memory>,
}

impl MemoryBroker {
    /// `settings` are further lines of the section, `params` further parameters (`, latency = "5ms"`).
    pub(crate) fn new(name: &str, settings: &str, params: &str) -> Self {
        let store = format!("{name}-{}", Uuid::new_v4());
        let section = format!(
            "[brokers.{name}]\nkind = \"memory\"\nparams = {{ store = \"{store}\", keep = true{params} }}\n{settings}\n"
        );
        MemoryBroker { name: name.to_owned(), section, store: Memory::named(&store) }
    }

    /// An `outrider.toml` with this broker for every topic; `delivery` are lines of `[delivery]`.
    pub(crate) fn root(&self, delivery: &str) -> String {
        let MemoryBroker { name, section, .. } = self;
        format!("{section}\n[delivery]\n{delivery}\n[[routes]]\ntopic = \"*\"\nbroker = \"{name}\"\n")
    }

    /// `seq`s in the order in which they were confirmed, of one topic's destination or of all.
    pub(crate) fn seqs(&self) -> Vec<i64> {
        self.store.messages().iter().map(|message| message.seq).collect()
    }
}

/// A running relay. Dropping it ends it at once; [`Relay::stop`] drains it.
pub(crate) struct Relay {
    pub(crate) board: Arc<Board>,
    signals: Signals,
    thread: Option<JoinHandle<Exit>>,
    _config: TempDir,
}

impl Relay {
    /// `root` is `outrider.toml`.
    pub(crate) fn start(root: &str, tenants: &[&Tenant]) -> Self {
        Self::named(&format!("relay-{}", Uuid::new_v4()), root, tenants)
    }

    pub(crate) fn named(replica: &str, root: &str, tenants: &[&Tenant]) -> Self {
        Self::with_brokers(&Registry::builtin(), replica, root, tenants)
    }

    /// With kinds of brokers of the test's own.
    pub(crate) fn with_brokers(brokers: &Registry, replica: &str, root: &str, tenants: &[&Tenant]) -> Self {
        recorder::install();
        let dir = config_dir(&format!("[replica]\nname = \"{replica}\"\n{root}"), tenants);
        let loaded = Config::load(dir.path(), &Environment::default(), brokers);
        let config = loaded.unwrap_or_else(|errors| panic!("{errors}")).config;
        let (board, signals) = (Board::new(), Signals::new());
        let outside = tokio::runtime::Handle::current();
        let thread = std::thread::spawn({
            let (board, signals) = (board.clone(), signals.clone());
            move || {
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
                let runtime = Arc::new(runtime.unwrap());
                outside.spawn(keep_turning(runtime.handle().clone()));
                System::with_tokio_rt(|| runtime.clone()).block_on(async move {
                    let (done, ended) = tokio::sync::oneshot::channel();
                    let _supervisor = Supervisor::new(Arc::new(config), board, signals, done).start();
                    ended.await.unwrap()
                })
            }
        });
        Relay { board, signals, thread: Some(thread), _config: dir }
    }

    /// Drains it and says how that ended.
    pub(crate) async fn stop(mut self, within: Duration) -> Exit {
        self.signals.drain(within);
        let thread = self.thread.take().unwrap();
        tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.signals.drain(Duration::ZERO);
    }
}

/// A config directory with these files; each tenant's database is in its file.
pub(crate) fn config_dir(root: &str, tenants: &[&Tenant]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tenants")).unwrap();
    std::fs::write(dir.path().join("outrider.toml"), root).unwrap();
    for tenant in tenants {
        let file = dir.path().join(format!("tenants/{}.toml", tenant.name));
        std::fs::write(file, tenant.file()).unwrap();
    }
    dir
}

/// The real program with this config, not started.
pub(crate) fn program(root: &str, tenants: &[&Tenant]) -> Daemon {
    let daemon = Daemon::new(Path::new(env!("CARGO_BIN_EXE_outrider"))).unwrap();
    let files: Vec<(&str, String)> =
        tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.file())).collect();
    daemon.write(root, &files).unwrap();
    daemon
}

/// A proxy before the server of a URL, and the URL that leads through it.
pub(crate) async fn proxied(url: &str) -> (Proxy, String) {
    let start = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[start..].find('/').map_or(url.len(), |at| start + at);
    let host = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    let server = url[host..end].to_socket_addrs().unwrap().next().unwrap();
    let proxy = Proxy::start(server).await.unwrap();
    let through = format!("{}{}{}", &url[..host], proxy.address(), &url[end..]);
    (proxy, through)
}

/// Waits until `holds`, and fails with `what` if it does not soon.
pub(crate) async fn until(what: &str, holds: impl AsyncFnMut() -> bool) {
    until_within(SOON, what, holds).await;
}

pub(crate) async fn until_within(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + limit;
    let mut pause = Duration::from_millis(10);
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(pause).await;
        // Most look at a database: asked all the time by a dozen tests, it would have time for little else.
        pause = (pause * 5 / 4).min(Duration::from_millis(100));
    }
}
