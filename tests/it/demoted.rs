//! C67: after a failover the sessions that are open are on a server that is read-only now, and for a while new ones may
//! get there too.

use std::time::Duration;

use outrider_memory::Behaviour;
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use crate::recorder::metric;
use crate::relay::{MemoryBroker, Relay, Tenant, insert, until};

const STOP: Duration = Duration::from_secs(5);
const LEASE: &str = "lease = \"4s\"";
const DEADLINE: &str = "publish_deadline = \"2s\"";

/// The session of each claim finds itself on a read-only server from then on.
const DEMOTE: &str = "
    CREATE TABLE public.demoted (pid int);
    CREATE FUNCTION public.demote() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      PERFORM set_config('default_transaction_read_only', 'on', false);
      INSERT INTO public.demoted VALUES (pg_backend_pid());
      RETURN NULL;
    END $$;
    CREATE TRIGGER demote AFTER INSERT ON outrider.claim FOR EACH STATEMENT EXECUTE FUNCTION public.demote();";

async fn run(connection: &mut PgConnection, sql: &str) {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.unwrap();
}

async fn one<T>(tenant: &Tenant, sql: &'static str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    sqlx::query_scalar(sql).fetch_one(&tenant.pool).await.unwrap()
}

const EPOCH: &str = "SELECT epoch FROM outrider.lane";

#[tokio::test]
async fn an_open_session_that_became_read_only_is_left_for_one_that_is_not() {
    let tenant = Tenant::new("demoted").await;
    let broker = MemoryBroker::new("hub", DEADLINE, "");
    let relay = Relay::start(&broker.root(LEASE), &[&tenant]);
    tenant.insert("orders", Some("k"), b"before").await;
    tenant.drained().await;
    let mut primary = tenant.pool.acquire().await.unwrap();
    run(&mut primary, DEMOTE).await;
    // Each settle, claim and renewal after a claim meets a session that can't write.
    for _ in 0..3 {
        for _ in 0..5 {
            insert(&mut primary, "orders", Some("k"), b"x").await;
        }
        tenant.drained().await;
    }
    let sessions: i64 = one(&tenant, "SELECT count(DISTINCT pid) FROM public.demoted").await;
    assert!(sessions >= 3, "{sessions} sessions were left");
    assert_eq!(broker.seqs(), (1..=16).collect::<Vec<i64>>(), "each once");
    assert_eq!(tenant.receipts().await, broker.seqs());
    assert_eq!(one::<i64>(&tenant, EPOCH).await, 1, "the lane stayed");
    relay.stop(STOP).await;
}

#[tokio::test]
async fn while_there_is_no_writable_server_nothing_is_spent_and_readiness_says_why() {
    const EVENTS: i64 = 6;
    let tenant = Tenant::new("reader").await;
    let broker = MemoryBroker::new("hub", DEADLINE, "");
    let relay = Relay::start(&broker.root(LEASE), &[&tenant]);
    until("it is ready", async || relay.board.ready().is_ok()).await;
    let mut primary = tenant.pool.acquire().await.unwrap();
    run(&mut primary, DEMOTE).await;
    let stalled = broker.store.tell(|_| true, Behaviour::Stall);
    for number in 0..EVENTS {
        insert(&mut primary, "orders", Some(&format!("k{}", number % 2)), b"x").await;
    }
    until("some are in flight", async || broker.store.in_flight() > 0).await;
    // Names still lead to the one that was demoted: new sessions are read-only as well.
    let name = tenant.database.name();
    run(&mut primary, &format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    broker.store.take_back(stalled);
    until("readiness says why", async || relay.board.ready().is_err_and(|text| text.contains("read-only")))
        .await;
    assert_eq!(metric("outrider_tenant_up", &[("tenant", "reader")]), 0.0);
    until("the lease is over", async || {
        one(&tenant, "SELECT until < clock_timestamp() FROM outrider.lane").await
    })
    .await;
    let (attempts, unsent): (i64, i64) =
        sqlx::query_as("SELECT coalesce(sum(attempts + refusals), 0), count(*) FROM outrider.delivery")
            .fetch_one(&tenant.pool)
            .await
            .unwrap();
    assert_eq!((attempts, unsent), (0, EVENTS), "nothing could be written");

    run(
        &mut primary,
        &format!(
            "ALTER DATABASE {name} RESET default_transaction_read_only; DROP TRIGGER demote ON outrider.claim"
        ),
    )
    .await;
    tenant.drained().await;
    until("it is ready again", async || relay.board.ready().is_ok()).await;
    let mut seqs = broker.seqs();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=EVENTS).collect::<Vec<i64>>(), "what was confirmed meanwhile is not sent again");
    assert_eq!(tenant.receipts().await, seqs);
    assert_eq!(one::<i64>(&tenant, EPOCH).await, 1, "nobody else could take the lane");
    relay.stop(STOP).await;
}
