//! What an idle tenant costs its database, and how long an event waits that ends the idleness.

use std::time::Duration;

use crate::relay::{Tenant, program, until};

/// The claim is about a minute of idleness, so nothing shorter shows it.
const WINDOW: Duration = Duration::from_secs(60);

/// How often the sessions are looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(10);

const STATEMENTS_A_SECOND: i64 = 2;

/// One for the lane, which stays; one for the janitor, which comes and goes.
const CONNECTIONS: i64 = 2;

const ROOT: &str = "[brokers.memory]\nkind = \"memory\"\n[[routes]]\ntopic = \"*\"\nbroker = \"memory\"\n";

#[tokio::test]
async fn an_idle_tenant_costs_two_statements_a_second_and_wakes_within_two_seconds() {
    let tenant = Tenant::new("acme").await;
    let program = program(ROOT, &[&tenant]);
    let daemon = program.start().await.unwrap();
    tenant.insert("orders", Some("k"), b"x").await;
    tenant.drained().await;
    // The test's own sessions would count as well.
    tenant.pool.close().await;
    let mut server = tenant.database.admin().await.unwrap();
    // What the server itself does in a database (autovacuum comes once a minute) is not the relay's. It does as much in
    // one that nobody uses.
    let unused = Tenant::new("unused").await;
    unused.pool.close().await;
    // A statement outside a transaction is one of its own; so is a log-in, which is no statement. The server publishes the figures of a session about once a
    // second, so what is asked here is right to within two or three.
    let transactions =
        "SELECT xact_commit + xact_rollback - sessions FROM pg_stat_database WHERE datname = $1";
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'";
    let mut ask = async |sql: &'static str, of: &Tenant| -> i64 {
        sqlx::query_scalar(sql).bind(of.database.name()).fetch_one(&mut server).await.unwrap()
    };
    // Idle is who has had nothing to do for a while: the pauses have grown to their maximum by now.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (before, server_before) = (ask(transactions, &tenant).await, ask(transactions, &unused).await);
    let mut most_sessions = 0;
    let mut left = WINDOW;
    while !left.is_zero() {
        tokio::time::sleep(LOOK_EVERY).await;
        left = left.saturating_sub(LOOK_EVERY);
        most_sessions = most_sessions.max(ask(sessions, &tenant).await);
    }
    let of_server = ask(transactions, &unused).await - server_before;
    let statements = ask(transactions, &tenant).await - before - of_server;
    let seconds = i64::try_from(WINDOW.as_secs()).unwrap();
    println!(
        "{statements} statements in {seconds} s ({of_server} of the server itself left out), at most {most_sessions} connections"
    );
    assert!(statements > seconds / 2, "{statements}: nobody looked");
    assert!(statements <= STATEMENTS_A_SECOND * seconds, "{statements} statements in {seconds} s");
    assert!(most_sessions <= CONNECTIONS, "{most_sessions} connections");

    let pool = tenant.database.pool(1).await.unwrap();
    let seq: i64 = sqlx::query_scalar(
        "INSERT INTO outrider.outbox (topic, type, payload) VALUES ('orders', 'test', 'x') RETURNING seq",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    // By the server's clock: how long this test takes to look is no part of it.
    let waited = "SELECT extract(epoch FROM e.settled_at - e.occurred_at)::float8 FROM outrider.events e WHERE seq = $1";
    let mut seconds = None;
    until("the event is sent", async || {
        seconds = sqlx::query_scalar::<_, Option<f64>>(waited).bind(seq).fetch_one(&pool).await.unwrap();
        seconds.is_some()
    })
    .await;
    assert!(seconds.unwrap() < 2.0, "{seconds:?}");
    assert_eq!(daemon.end().await.unwrap().code(), Some(0));
}
