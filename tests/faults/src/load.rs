//! The services under test: writers at a steady pace that go on whatever happens to their database.
//!
//! A writer locks its key before the event gets its `seq`, and leaves some time between insert and commit, so that of
//! two keys the later `seq` often commits first. What committed is read from the database in the end: a writer whose
//! connection broke at the commit does not know.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

/// Writers of each tenant, each with a connection of its own.
const WRITERS: usize = 3;

/// Between two transactions of a writer, on average.
const PACE: Duration = Duration::from_millis(40);

/// Longest time between insert and commit, in milliseconds; of one transaction in so many a longer one, so that others
/// with a later `seq` commit first and are sent meanwhile.
const LINGER_MS: u64 = 20;
const LONG_LINGER_MS: u64 = 500;
const LONG_ONE_IN: u32 = 20;

/// Ordering keys of a tenant.
const KEYS: u32 = 12;

/// Of all transactions.
const ROLLED_BACK: f64 = 0.1;

/// One in so many is poison, while poison is on.
const POISON: u32 = 50;

/// Before a writer connects again.
const RECONNECT: Duration = Duration::from_millis(200);

/// Above what Kafka and NATS take by default (1 MiB).
const TOO_LARGE: usize = 1_300_000;

/// Topics, with the broker of each.
pub(crate) const TOPICS: [(&str, &str); 3] =
    [("orders.placed", "kafka"), ("billing.invoiced", "rabbitmq"), ("shipping.requested", "nats")];

const LOCK_KEY: &str = "SELECT pg_advisory_xact_lock(hashtext($1))";
const INSERT: &str = "INSERT INTO outrider.outbox (topic, id, key, type, headers, payload) VALUES ($1, $2, $3, 'faults.happened.v1', $4, $5)";

/// What writers tell.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Rolled back for certain.
    pub(crate) rolled_back: Vec<(usize, Uuid, &'static str)>,
    /// Made so that no broker takes it.
    pub(crate) poison: HashSet<Uuid>,
}

/// Running writers.
#[derive(Debug)]
pub(crate) struct Load {
    told: Arc<Mutex<Told>>,
    poisoned: watch::Sender<bool>,
    paused: watch::Sender<bool>,
    stop: watch::Sender<bool>,
    writers: JoinSet<()>,
}

impl Load {
    /// Starts the writers of tenants with these databases.
    pub(crate) fn start(databases: &[String], seed: u64) -> Load {
        let (stop, stopped) = watch::channel(false);
        let (poisoned, poison) = watch::channel(false);
        let (paused, pause) = watch::channel(false);
        let told = Arc::new(Mutex::new(Told::default()));
        let mut writers = JoinSet::new();
        for (tenant, url) in databases.iter().enumerate() {
            for number in 0..WRITERS {
                let chance = StdRng::seed_from_u64(seed.wrapping_add((tenant * WRITERS + number) as u64));
                let writer = Writer {
                    tenant,
                    url: url.clone(),
                    told: told.clone(),
                    stopped: stopped.clone(),
                    poison: poison.clone(),
                    pause: pause.clone(),
                    chance,
                };
                writers.spawn(writer.run());
            }
        }
        Load { told, poisoned, paused, stop, writers }
    }

    /// From now on, or no longer, some events can't be published.
    pub(crate) fn poison(&self, on: bool) {
        self.poisoned.send_replace(on);
    }

    /// An event that somebody else wrote, and that can't be published.
    pub(crate) fn count_as_poison(&self, id: Uuid) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).poison.insert(id);
    }

    /// The writers rest from now on, or no longer.
    pub(crate) fn pause(&self, on: bool) {
        self.paused.send_replace(on);
    }

    /// Stops them in good order.
    pub(crate) async fn stop(mut self) -> Result<Told> {
        self.stop.send_replace(true);
        while let Some(ended) = self.writers.join_next().await {
            ended.context("join a writer")?;
        }
        Ok(std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

struct Writer {
    tenant: usize,
    url: String,
    told: Arc<Mutex<Told>>,
    stopped: watch::Receiver<bool>,
    poison: watch::Receiver<bool>,
    pause: watch::Receiver<bool>,
    chance: StdRng,
}

/// What a transaction is to do.
struct Draft {
    id: Uuid,
    topic: &'static str,
    key: String,
    headers: serde_json::Value,
    payload: Vec<u8>,
    rolled_back: bool,
}

impl Writer {
    async fn run(mut self) {
        let mut database = None;
        while !*self.stopped.borrow() {
            if *self.pause.borrow() {
                tokio::time::sleep(PACE).await;
                continue;
            }
            let draft = self.draft();
            let done = match &mut database {
                Some(connection) => self.transaction(connection, &draft).await,
                None => match PgConnection::connect(&self.url).await {
                    Ok(connection) => {
                        database = Some(connection);
                        continue;
                    }
                    Err(_) => {
                        tokio::time::sleep(RECONNECT).await;
                        continue;
                    }
                },
            };
            if done.is_err() {
                // Whether it committed is for the database to say.
                database = None;
                continue;
            }
            tokio::time::sleep(PACE.mul_f64(self.chance.random_range(0.5..1.5))).await;
        }
        if let Some(connection) = database {
            let _ = connection.close().await;
        }
    }

    fn draft(&mut self) -> Draft {
        let (topic, _) = TOPICS[self.chance.random_range(0..TOPICS.len())];
        let key = self.chance.random_range(0..KEYS);
        let poison = *self.poison.borrow() && self.chance.random_ratio(1, POISON);
        let id = Uuid::from_u128(self.chance.random());
        let rolled_back = self.chance.random_bool(ROLLED_BACK);
        let mut draft = Draft {
            id,
            topic,
            key: format!("key-{key}"),
            headers: json!({}),
            payload: id.to_string().into_bytes(),
            rolled_back: rolled_back && !poison,
        };
        if poison {
            // A key of its own: what waits behind it is not this kit's question.
            draft.key = format!("poison-{id}");
            match topic {
                "billing.invoiced" => draft.headers = json!({ "nested": { "is": "no text" } }),
                _ => draft.payload = vec![b'x'; TOO_LARGE],
            }
            self.told().poison.insert(id);
        }
        draft
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn transaction(&mut self, database: &mut PgConnection, draft: &Draft) -> Result<()> {
        let mut transaction = database.begin().await?;
        sqlx::query(LOCK_KEY)
            .bind(format!("{}/{}", draft.topic, draft.key))
            .execute(&mut *transaction)
            .await?;
        sqlx::query(INSERT)
            .bind(draft.topic)
            .bind(draft.id)
            .bind(&draft.key)
            .bind(&draft.headers)
            .bind(&draft.payload)
            .execute(&mut *transaction)
            .await?;
        let longest = if self.chance.random_ratio(1, LONG_ONE_IN) { LONG_LINGER_MS } else { LINGER_MS };
        tokio::time::sleep(Duration::from_millis(self.chance.random_range(0..longest))).await;
        if draft.rolled_back {
            transaction.rollback().await?;
            self.told().rolled_back.push((self.tenant, draft.id, draft.topic));
        } else {
            transaction.commit().await?;
        }
        Ok(())
    }
}
