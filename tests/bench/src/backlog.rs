//! The backlog of one run: a database of its own, outrider's schema, and events that were committed before the
//! daemon starts.

use anyhow::{Context, Result, ensure};
use outrider_test_support::daemon::Daemon;
use outrider_test_support::database::TestDatabase;
use outrider_test_support::verify::Written;
use sqlx::postgres::PgConnection;
use sqlx::{Connection, Row};

use crate::config::{BROKER, TENANT, TOPIC};

/// Keys of a keyed backlog. An event's is picked by a hash, so that one key's events come in clusters as well as far
/// apart, as they do in life.
const KEYS: i32 = 1_000;

/// Events in one transaction while loading.
const LOAD: i32 = 10_000;

/// Bytes of one SHA-512, of which payloads are made: incompressible.
const HASH: i32 = 64;

const INSERT: &str = "
INSERT INTO outrider.outbox (topic, key, type, content_type, payload)
SELECT $1, CASE WHEN $4 > 0 THEN 'key-' || (hashint4(n) & 2147483647) % $4 END, 'bench.event.v1',
       'application/octet-stream', substring(p.bytes FROM 1 FOR $5)
  FROM generate_series($2::int, $3::int) AS n
 CROSS JOIN LATERAL (SELECT string_agg(sha512(convert_to(n || ':' || i, 'UTF8')), '' ORDER BY i) AS bytes
                       FROM generate_series(1, $6::int) AS i) AS p";

/// What the events of a backlog are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// No key: no order.
    Unkeyed,
    /// [`KEYS`] keys, each in order.
    Keyed,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Unkeyed => "unkeyed",
            Kind::Keyed => "keyed",
        }
    }

    fn keys(self) -> i32 {
        match self {
            Kind::Unkeyed => 0,
            Kind::Keyed => KEYS,
        }
    }
}

/// Installs the schema and inserts the events. Ends with a checkpoint, so that each run writes its pages for the
/// first time after one.
pub(crate) async fn load(
    database: &TestDatabase,
    daemon: &Daemon,
    kind: Kind,
    events: u32,
    payload: u32,
) -> Result<Vec<Written>> {
    daemon.migrate().await?;
    let mut connection = database.connect().await?;
    let (events, payload) = (i32::try_from(events)?, i32::try_from(payload)?);
    let mut first = 1;
    while first <= events {
        let last = events.min(first + LOAD - 1);
        sqlx::query(INSERT)
            .bind(TOPIC)
            .bind(first)
            .bind(last)
            .bind(kind.keys())
            .bind(payload)
            .bind(payload.div_euclid(HASH) + 1)
            .execute(&mut connection)
            .await
            .context("insert events")?;
        first = last + 1;
    }
    sqlx::raw_sql("ANALYZE outrider.outbox, outrider.delivery; CHECKPOINT")
        .execute(&mut connection)
        .await
        .context("prepare the tables")?;
    let written = written(&mut connection).await?;
    ensure!(written.len() == usize::try_from(events)?, "insert {events} events: {} are there", written.len());
    connection.close().await?;
    Ok(written)
}

async fn written(connection: &mut PgConnection) -> Result<Vec<Written>> {
    let rows =
        sqlx::query("SELECT id, seq, key FROM outrider.outbox ORDER BY seq").fetch_all(connection).await;
    let written = rows.context("read the events back")?.into_iter().map(|row| {
        Ok(Written {
            id: row.try_get(0)?,
            seq: row.try_get(1)?,
            tenant: TENANT.to_owned(),
            broker: BROKER.to_owned(),
            topic: TOPIC.to_owned(),
            key: row.try_get(2)?,
        })
    });
    written.collect()
}
