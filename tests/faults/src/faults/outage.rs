//! A broker is away for long with a large backlog. What that may cost is measured against the same relay without it,
//! with nobody else on the ground.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outrider_test_support::proxy::Mode;
use sqlx::PgConnection;

use super::servers::refuse;
use crate::ground::Kind;
use crate::scene::{Scene, TENANTS};

/// Events that wait.
const BACKLOG: i32 = 100_000;

/// Events by which the usual rate is measured.
const SAMPLE: i32 = 20_000;

/// Events to another broker, with and without the outage.
const OTHERS: i32 = 10_000;

const AWAY: Duration = Duration::from_secs(600);

/// After the broker went, until what was in flight has ended and the backlog was looked at.
const SETTLED: Duration = Duration::from_secs(10);

/// Statements a second while it is away, of the usual.
const STATEMENTS: f64 = 0.02;

/// How much memory may grow while it is away.
const GROWTH_KIB: u64 = 16 * 1024;

/// The rate afterwards, of the usual.
const RECOVERY: f64 = 0.85;

/// The time that others take, of the usual.
const OTHERS_SLOWER: f64 = 1.2;

const INSERT: &str = "INSERT INTO outrider.outbox (topic, key, type, payload)
    SELECT $1, 'k' || g % 500, 'faults.happened.v1', convert_to(repeat('x', 100), 'UTF8') FROM generate_series(1, $2) g";

/// By indexes that begin with the lane, of which there is one: the backlog of another topic is not counted through.
const WAITING: &str = "WITH l AS (SELECT min(lane) AS lane FROM outrider.lane)
    SELECT (SELECT count(*) FROM outrider.delivery d, l WHERE d.lane = l.lane AND d.topic = $1 AND d.hold = 0)
         + (SELECT count(*) FROM outrider.delivery d, l WHERE d.lane = l.lane AND d.topic = $1 AND d.hold IN (1, 2, 3))";

pub(super) async fn with_backlog(scene: &Scene) -> Result<()> {
    scene.with_load(|load| load.pause(true))?;
    scene.caught_up().await?;
    let mut database = scene.connect(TENANTS[0]).await?;

    // What is usual, twice: the first time warms.
    let mut usual = Duration::MAX;
    let mut usual_statements = 0.0;
    for _ in 0..2 {
        let before = statements(&mut database).await?;
        let took = drained(scene, &mut database, "billing.invoiced", SAMPLE).await?;
        usual_statements = (statements(&mut database).await? - before) / took.as_secs_f64();
        usual = took.min(usual);
    }
    let others = fastest_of_others(scene, &mut database).await?;

    refuse(scene, Kind::Rabbitmq);
    let gone = Instant::now();
    insert(&mut database, "billing.invoiced", BACKLOG).await?;
    tokio::time::sleep(SETTLED).await;
    let (memory, before, begun) = (resident(scene).await?, statements(&mut database).await?, Instant::now());
    tokio::time::sleep(Duration::from_secs(20)).await;
    let while_away = (statements(&mut database).await? - before) / begun.elapsed().as_secs_f64();
    // Nothing is measured for some minutes, in which other faults may have the servers.
    scene.let_others().await;
    tokio::time::sleep(AWAY.saturating_sub(gone.elapsed())).await;
    scene.be_alone().await;
    let mut database = scene.connect(TENANTS[0]).await?;
    let others_then = fastest_of_others(scene, &mut database).await?;
    let grown = resident(scene).await?.saturating_sub(memory);

    scene.ways(Kind::Rabbitmq, Mode::Pass);
    // The breaker may rest a little longer.
    until(&mut database, "billing.invoiced", i64::from(BACKLOG) - 1).await?;
    let begun = Instant::now();
    until(&mut database, "billing.invoiced", 0).await?;
    let rate = f64::from(BACKLOG) / begun.elapsed().as_secs_f64();
    let usual_rate = f64::from(SAMPLE) / usual.as_secs_f64();
    eprintln!(
        "    usual: {usual_rate:.0} events/s, {usual_statements:.0} transactions/s; while away: {while_away:.1} \
         transactions/s, memory +{grown} KiB, others took {:.2} of the usual; afterwards {rate:.0} events/s",
        others_then.as_secs_f64() / others.as_secs_f64()
    );
    ensure!(
        while_away <= STATEMENTS * usual_statements,
        "be quiet while a broker is away: {while_away:.1} transactions/s, and {usual_statements:.0} usually"
    );
    ensure!(grown <= GROWTH_KIB, "keep memory flat while a broker is away: it grew by {grown} KiB");
    ensure!(
        others_then.as_secs_f64() <= OTHERS_SLOWER * others.as_secs_f64(),
        "go on with other brokers: {OTHERS} events took {others_then:?}, and {others:?} usually"
    );
    ensure!(
        rate >= RECOVERY * usual_rate,
        "recover: {rate:.0} events/s after the outage, and {usual_rate:.0} usually"
    );
    scene.with_load(|load| load.pause(false))?;
    Ok(())
}

async fn insert(database: &mut PgConnection, topic: &str, count: i32) -> Result<()> {
    sqlx::query(INSERT).bind(topic).bind(count).execute(database).await.context("insert a backlog")?;
    Ok(())
}

/// Inserts and waits until all is sent. Returns how long the second took.
async fn drained(scene: &Scene, database: &mut PgConnection, topic: &str, count: i32) -> Result<Duration> {
    insert(database, topic, count).await?;
    let begun = Instant::now();
    until(database, topic, 0).await?;
    scene.look_after().await?;
    Ok(begun.elapsed())
}

/// The least of three, for it takes less than a second and machines stumble.
async fn fastest_of_others(scene: &Scene, database: &mut PgConnection) -> Result<Duration> {
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        fastest = drained(scene, database, "orders.placed", OTHERS).await?.min(fastest);
    }
    Ok(fastest)
}

/// Waits until at most `left` events of the topic wait.
async fn until(database: &mut PgConnection, topic: &str, left: i64) -> Result<()> {
    let deadline = Instant::now() + crate::scene::PATIENCE;
    loop {
        let count: i64 = sqlx::query_scalar(WAITING).bind(topic).fetch_one(&mut *database).await?;
        if count <= left {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "drain `{topic}`: {count} events are left");
        // Asked seldom, for it costs what is measured; and dearer with a large backlog.
        tokio::time::sleep(Duration::from_millis(if count > 5_000 { 250 } else { 50 })).await;
    }
}

/// Transactions of the tenant's database so far, this connection's included.
async fn statements(database: &mut PgConnection) -> Result<f64> {
    // Sessions report now and then: within a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let sql = "SELECT xact_commit::float8 FROM pg_stat_database WHERE datname = current_database()";
    Ok(sqlx::query_scalar(sql).fetch_one(database).await?)
}

/// Resident memory of the first replica, in KiB.
async fn resident(scene: &Scene) -> Result<u64> {
    let pid = scene.replicas[0].with(|running| running.pid().context("find the relay's process")).await?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("read the relay's memory")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).context("read VmRSS")
}
