//! The services: each transaction changes the business's own tables and inserts one event, and commits or not.
//!
//! A writer takes its customer's row lock before the event gets its `seq`. That is what order within a key asks of
//! writers; everything else is left to chance.

use std::sync::Arc;

use anyhow::{Context, Result};
use outrider_test_support::verify::Written;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use sqlx::{Connection, PgConnection};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::stage::{CUSTOMERS, Stage, TENANTS, TOPICS};
use crate::tally::Tally;

/// Writers of a tenant, each with a connection of its own.
const WRITERS: u64 = 4;

/// About one transaction in ten is rolled back.
const ROLLED_BACK: f64 = 0.1;

/// One statement only to save round trips: three in one transaction do the same. The customer's row is locked first, and
/// the event is made from what that returned.
const ORDER_WITH_EVENT: &str = "
WITH customer AS (UPDATE customers SET orders = orders + 1 WHERE id = $1 RETURNING orders AS number),
placed AS (INSERT INTO orders (customer, number, step, cents) SELECT $1, number, $2, $3 FROM customer)
INSERT INTO outrider.outbox (topic, id, key, type, headers, payload)
SELECT $2, $4, $5, $6, $7,
       convert_to(json_build_object('customer', $1, 'number', number, 'cents', $3, 'currency', 'EUR')::text, 'UTF8')
  FROM customer RETURNING seq";

/// Starts all writers; together they commit exactly `events`.
pub(crate) fn start(stage: &Stage, tally: &Arc<Tally>, events: u64) -> Result<JoinSet<Result<()>>> {
    let mut writers = JoinSet::new();
    let all = TENANTS.len() as u64 * WRITERS;
    for number in 0..all {
        let tenant = TENANTS[usize::try_from(number).context("count writers")? % TENANTS.len()];
        let share = events / all + u64::from(number < events % all);
        let url = stage.database_url(tenant);
        let tally = Arc::clone(tally);
        writers.spawn(async move {
            let database = PgConnection::connect(&url).await.context("connect a writer")?;
            Writer { tenant, database, tally }
                .write(share)
                .await
                .with_context(|| format!("write for `{tenant}`"))
        });
    }
    Ok(writers)
}

struct Writer {
    tenant: &'static str,
    database: PgConnection,
    tally: Arc<Tally>,
}

impl Writer {
    async fn write(mut self, share: u64) -> Result<()> {
        let mut chance = StdRng::from_os_rng();
        let mut committed = 0;
        while committed < share {
            let rolled_back = chance.random_bool(ROLLED_BACK);
            self.transaction(&mut chance, rolled_back).await?;
            committed += u64::from(!rolled_back);
        }
        self.database.close().await.context("disconnect")
    }

    async fn transaction(&mut self, chance: &mut StdRng, rolled_back: bool) -> Result<()> {
        let (topic, kind, broker) = TOPICS[chance.random_range(0..TOPICS.len())];
        let customer = chance.random_range(1..=CUSTOMERS);
        let cents: i64 = chance.random_range(100..100_000);
        let id = Uuid::new_v4();
        let key = format!("customer-{customer}");

        let headers = json!({ "traceparent": format!("00-{}-00f067aa0ba902b7-01", id.simple()) });
        let mut transaction = self.database.begin().await.context("begin")?;
        let seq: i64 = sqlx::query_scalar(ORDER_WITH_EVENT)
            .bind(customer)
            .bind(topic)
            .bind(cents)
            .bind(id)
            .bind(&key)
            .bind(kind)
            .bind(headers)
            .fetch_one(&mut *transaction)
            .await
            .context("insert an order and its event")?;

        let event = Written {
            id,
            seq,
            tenant: self.tenant.to_owned(),
            broker: broker.to_owned(),
            topic: topic.to_owned(),
            key: Some(key),
        };
        if rolled_back {
            transaction.rollback().await.context("roll back")?;
            self.tally.rolled_back(event);
        } else {
            transaction.commit().await.context("commit")?;
            self.tally.committed(event);
        }
        Ok(())
    }
}
