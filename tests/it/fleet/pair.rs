//! Two relays, as programs, on one tenant and one RabbitMQ queue, which keeps every copy.

use std::time::{Duration, Instant};

use outrider::outbox::share::share;
use outrider_servers::address;
use outrider_test_support::consume::{self, Consume, Delivered, rabbitmq};
use outrider_test_support::daemon::Daemon;
use outrider_test_support::proxy::Proxy;
use uuid::Uuid;

use crate::relay::{SOON, Tenant, program, proxied, until, until_within};

/// Longer than a replica counts as alive after its last heartbeat, so that nobody waits for a dead one.
pub(super) const LEASE: Duration = Duration::from_secs(12);

/// How long whoever wants a lane may look the other way, and what a loaded machine adds.
pub(super) const LOOK: Duration = Duration::from_secs(3);

/// Within this a message that should not be there would have come.
const QUIET: Duration = Duration::from_secs(1);

pub(super) struct Pair {
    pub(super) tenant: Tenant,
    /// The one whose share the tenant is; it reaches the broker by the proxy.
    pub(super) first: Daemon,
    pub(super) second: Daemon,
    /// Their names.
    pub(super) names: [String; 2],
    pub(super) proxy: Proxy,
    url: String,
    queue: String,
}

impl Pair {
    pub(super) async fn new(name: &str) -> Self {
        let tenant = Tenant::new(name).await;
        let (url, queue) = (address::rabbitmq(), format!("{name}-{}", Uuid::new_v4().simple()));
        rabbitmq::declare(&url, &queue, &queue, "#").await.unwrap();
        let (proxy, through) = proxied(&url).await;
        let replicas = ["a", "b"].map(|letter| format!("{name}-{letter}"));
        let first = share(&[name], &[replicas[0].as_str(), &replicas[1]])[name].to_owned();
        let second = replicas.into_iter().find(|replica| *replica != first).unwrap();
        Pair {
            first: daemon(&first, &through, &queue, &tenant),
            second: daemon(&second, &url, &queue, &tenant),
            names: [first, second],
            tenant,
            proxy,
            url,
            queue,
        }
    }

    /// Waits until a replica has the lane.
    pub(super) async fn owned_by(&self, name: &str, within: Duration) {
        let what = format!("{name} has the lane");
        until_within(within, &what, async || self.tenant.owner().await.as_deref() == Some(name)).await;
    }

    pub(super) async fn one<T>(&self, sql: &'static str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        sqlx::query_scalar(sql).fetch_one(&self.tenant.pool).await.unwrap()
    }

    pub(super) async fn in_flight(&self) -> Vec<i64> {
        let claimed = "SELECT unnest(seqs) FROM outrider.claim ORDER BY 1";
        sqlx::query_scalar(claimed).fetch_all(&self.tenant.pool).await.unwrap()
    }

    pub(super) async fn consumer(&self) -> rabbitmq::Consumer {
        rabbitmq::Consumer::open(&self.url, &self.queue).await.unwrap()
    }

    /// Reads `count` messages, soon.
    pub(super) async fn read(&self, consumer: &mut rabbitmq::Consumer, count: usize) -> Vec<Delivered> {
        consume::read(consumer, count, Instant::now() + SOON).await.unwrap()
    }

    /// Reads what else there is. Everything that is sent has been confirmed, so it is in the queue.
    pub(super) async fn rest(&self, consumer: &mut rabbitmq::Consumer) -> Vec<Delivered> {
        until("this consumer was given all of it", async || {
            rabbitmq::length(&self.url, &self.queue).await.unwrap() == 0
        })
        .await;
        let mut messages = Vec::new();
        while let Some(message) = consumer.next(Instant::now() + QUIET).await.unwrap() {
            messages.push(message);
        }
        messages
    }

    pub(super) async fn clear(self) {
        rabbitmq::delete(&self.url, &self.queue, &self.queue).await.unwrap();
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for (name, daemon) in self.names.iter().zip([&self.first, &self.second]) {
                eprintln!("the last words of {name}:\n{}", daemon.quote());
            }
        }
    }
}

fn daemon(replica: &str, rabbitmq: &str, exchange: &str, tenant: &Tenant) -> Daemon {
    let root = format!(
        "[replica]\nname = \"{replica}\"\n[delivery]\nlease = \"{}s\"
         [brokers.rabbit]\nkind = \"rabbitmq\"\npublish_deadline = \"6s\"\nparams = {{ url = \"{rabbitmq}\" }}
         [[routes]]\ntopic = \"*\"\nbroker = \"rabbit\"\nto = {{ exchange = \"{exchange}\", routing_key = \"{{topic}}\" }}\n",
        LEASE.as_secs()
    );
    program(&root, &[tenant])
}
