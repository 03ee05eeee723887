//! The store's one connection: what each fault is called, and that the next statement gets a good connection.

use std::net::SocketAddr;
use std::time::Duration;

use outrider::store::{NewEvent, Schema, Store, StoreError, StoreOptions};
use outrider_test_support::proxy::{Mode, Proxy};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    sessions_have_the_settings_that_the_statements_need,
    a_terminated_session_is_a_lost_reply,
    a_statement_that_is_terminated_while_it_runs_is_a_lost_reply,
    a_silent_server_is_a_lost_reply_within_the_deadline,
    a_call_that_is_dropped_takes_its_connection_along,
    a_lock_makes_it_busy_and_nothing_is_done,
    a_lock_that_goes_away_is_not_noticed,
    a_slow_statement_is_cancelled_by_the_server,
    a_read_only_server_is_told_and_left,
    a_session_that_becomes_read_only_is_told_and_left,
    what_is_not_migrated_names_the_command,
    a_missing_right_names_the_remedy,
    refusals_to_connect_are_told_apart,
    a_table_that_changed_under_prepared_statements_is_met_again,
    secrets_are_in_no_text,
);

fn options(f: &Fixture) -> StoreOptions {
    StoreOptions::new(f.database.options(), Schema::default())
}

/// Ends the store's session from outside.
async fn terminate(f: &mut Fixture) {
    f.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND application_name LIKE 'outrider/%'",
    )
    .await;
    let left = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'outrider/%'";
    let deadline = Instant::now() + Duration::from_secs(10);
    while f.one::<i64>(left).await > 0 {
        assert!(Instant::now() < deadline);
    }
}

async fn sessions_have_the_settings_that_the_statements_need(mut f: Fixture) {
    let name = f.database.name().to_owned();
    f.run(&format!(
        "ALTER DATABASE {name} SET default_transaction_isolation = 'serializable';
         ALTER DATABASE {name} SET enable_seqscan = on; ALTER DATABASE {name} SET timezone = 'Asia/Kolkata'"
    ))
    .await;
    // The settings of a session cannot be read from another one, so a function of ours tells them.
    f.run(
        "CREATE FUNCTION public.told() RETURNS text LANGUAGE sql AS $$ SELECT string_agg(name || '=' || setting, ' ' ORDER BY name)
           FROM pg_settings WHERE name IN ('enable_seqscan', 'jit', 'lock_timeout', 'statement_timeout',
             'idle_in_transaction_session_timeout', 'default_transaction_isolation', 'search_path', 'TimeZone', 'application_name') $$;
         CREATE OR REPLACE FUNCTION outrider.publish(topic text, key text, type text, payload bytea, headers jsonb DEFAULT NULL,
           available_at timestamptz DEFAULT NULL, serialize_key boolean DEFAULT false) RETURNS uuid LANGUAGE plpgsql
         AS $$ BEGIN RAISE EXCEPTION '%', public.told(); END $$",
    )
    .await;
    let mut told = options(&f);
    told.application = "replica-7".into();
    told.statement_timeout = Duration::from_secs(3);
    let error = Store::new(told).publish(&NewEvent::default()).await.unwrap_err().to_string();
    for setting in [
        "application_name=outrider/replica-7",
        "default_transaction_isolation=read committed",
        "enable_seqscan=off",
        "idle_in_transaction_session_timeout=4000",
        "jit=off",
        "lock_timeout=200",
        "search_path=pg_catalog",
        "statement_timeout=3000",
        "TimeZone=UTC",
    ] {
        assert!(error.contains(setting), "{setting}: {error}");
    }
}

async fn a_terminated_session_is_a_lost_reply(mut f: Fixture) {
    assert!(f.store.is_connected());
    terminate(&mut f).await;
    let error = f.store.lanes().await.unwrap_err();
    assert!(matches!(error, StoreError::LostReply { .. }) && error.outcome_unknown(), "{error}");
    assert!(!f.store.is_connected());
    f.store.lanes().await.unwrap();
}

// C64
async fn a_statement_that_is_terminated_while_it_runs_is_a_lost_reply(mut f: Fixture) {
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, "BEGIN; SELECT FROM outrider.lane FOR UPDATE").await;
    let (owner, mut store) = (f.owner, store(&f.database));
    store.connect().await.unwrap();
    let renewal = tokio::spawn(async move { store.renew(LANE, owner, &[owner], LEASE).await });
    // It waits for the lock, is cancelled by the lock timeout and sent again, until it is met while it runs.
    while !renewal.is_finished() {
        f.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").await;
    }
    let error = renewal.await.unwrap().unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
}

// C69
async fn a_silent_server_is_a_lost_reply_within_the_deadline(f: Fixture) {
    let server: SocketAddr =
        format!("{}:{}", f.database.options().get_host(), f.database.options().get_port()).parse().unwrap();
    let proxy = Proxy::start(server).await.unwrap();
    let through = f.database.options().host("127.0.0.1").port(proxy.address().port());
    let mut options = StoreOptions::new(through, Schema::default());
    options.statement_timeout = Duration::from_millis(200);
    options.connect_timeout = Duration::from_millis(500);
    let mut store = Store::new(options);
    store.lanes().await.unwrap();

    proxy.set(Mode::BlackHole);
    let begun = Instant::now();
    let error = store.lanes().await.unwrap_err();
    assert!(error.outcome_unknown(), "{error}");
    let error = store.lanes().await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }) && !error.outcome_unknown(), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    proxy.set(Mode::Pass);
    store.lanes().await.unwrap();
}

// C68
async fn a_call_that_is_dropped_takes_its_connection_along(mut f: Fixture) {
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, "BEGIN; SELECT FROM outrider.lane FOR UPDATE").await;
    for _ in 0..20 {
        let dropped =
            timeout(Duration::from_millis(20), f.store.renew(LANE, f.owner, &[f.owner], LEASE)).await;
        assert!(dropped.is_err());
        assert!(!f.store.is_connected());
    }
    run(&mut locker, "ROLLBACK").await;
    assert!(f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap().is_some());
    let stuck = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'";
    assert_eq!(f.one::<i64>(stuck).await, 0);
}

async fn a_lock_makes_it_busy_and_nothing_is_done(mut f: Fixture) {
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, "BEGIN; SELECT FROM outrider.lane FOR UPDATE").await;
    let begun = Instant::now();
    let error = f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }) && !error.outcome_unknown(), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(5), "bounded: {:?}", begun.elapsed());
    assert!(f.store.is_connected() && f.store.resent() > 0);
}

async fn a_lock_that_goes_away_is_not_noticed(mut f: Fixture) {
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, "BEGIN; SELECT FROM outrider.lane FOR UPDATE").await;
    let (owner, mut store) = (f.owner, store(&f.database));
    let renewal = tokio::spawn(async move { store.renew(LANE, owner, &[owner], LEASE).await });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !f.one::<bool>(waits).await {}
    run(&mut locker, "ROLLBACK").await;
    assert!(renewal.await.unwrap().unwrap().is_some());
}

async fn a_slow_statement_is_cancelled_by_the_server(mut f: Fixture) {
    let mut locker = f.database.connect().await.unwrap();
    run(&mut locker, "BEGIN; SELECT FROM outrider.lane FOR UPDATE").await;
    let mut options = options(&f);
    options.statement_timeout = Duration::from_millis(50);
    f.store = Store::new(options);
    let error = f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap_err();
    assert!(matches!(error, StoreError::Timeout { .. }) && !error.outcome_unknown(), "{error}");
}

// C67
async fn a_read_only_server_is_told_and_left(mut f: Fixture) {
    let name = f.database.name().to_owned();
    f.run(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    let mut demoted = store(&f.database);
    let error = demoted.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }) && !error.outcome_unknown(), "{error}");
    assert!(!demoted.is_connected(), "the next statement looks for the primary");
    f.run(&format!(
        "SET default_transaction_read_only = off; ALTER DATABASE {name} RESET default_transaction_read_only"
    ))
    .await;
    assert!(demoted.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap().is_some());
}

// C67: one that is open already.
async fn a_session_that_becomes_read_only_is_told_and_left(mut f: Fixture) {
    f.run(
        "CREATE FUNCTION public.demote() RETURNS trigger LANGUAGE plpgsql
           AS $$ BEGIN PERFORM set_config('default_transaction_read_only', 'on', false); RETURN NULL; END $$;
         CREATE TRIGGER demote AFTER UPDATE ON outrider.lane FOR EACH ROW EXECUTE FUNCTION public.demote()",
    )
    .await;
    for _ in 0..3 {
        assert!(f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap().is_some());
        f.store.lanes().await.unwrap();
        assert!(f.store.is_connected(), "reading tells nothing");
        let error = f.store.renew(LANE, f.owner, &[f.owner], LEASE).await.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }) && !error.outcome_unknown(), "{error}");
        assert!(!f.store.is_connected());
    }
}

async fn what_is_not_migrated_names_the_command(mut f: Fixture) {
    let mut elsewhere = options(&f);
    elsewhere.schema = Schema::new("not there").unwrap();
    let error = Store::new(elsewhere).take(LANE, f.owner, "x", LEASE, false).await.unwrap_err();
    assert!(error.is_schema() && !error.outcome_unknown());
    let text = error.to_string();
    assert!(text.contains("outrider migrate") && text.contains("`not there`"), "{text}");
    f.run("ALTER TABLE outrider.lane DROP COLUMN owner_name").await;
    let error = f.store.take(LANE, f.owner, "x", LEASE, true).await.unwrap_err();
    assert!(matches!(error, StoreError::NotMigrated { .. }), "{error}");
}

async fn a_missing_right_names_the_remedy(mut f: Fixture) {
    f.run("REVOKE SELECT ON outrider.claim FROM outrider_relay").await;
    let relay = f.database.options().options([("role", "outrider_relay")]);
    let mut relay = Store::new(StoreOptions::new(relay, Schema::default()));
    relay.lanes().await.unwrap();
    let error = relay.stats().await.unwrap_err();
    assert!(matches!(error, StoreError::Denied { .. }) && error.is_schema());
    assert!(error.to_string().contains("grant_rights"), "{error}");
}

async fn refusals_to_connect_are_told_apart(f: Fixture) {
    let of = |connect| Store::new(StoreOptions::new(connect, Schema::default()));
    let nobody = format!("nobody_{}", Uuid::new_v4().simple());
    let error = of(f.database.options().username(&nobody)).connect().await.unwrap_err();
    assert!(matches!(error, StoreError::Credentials { .. }), "{error}");
    assert!(error.to_string().contains(&nobody));
    let error = of(f.database.options().database(&nobody)).connect().await.unwrap_err();
    assert!(matches!(error, StoreError::NoDatabase { .. }), "{error}");
    assert!(error.to_string().contains(&nobody));
    let error = of(f.database.options().port(1)).connect().await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable { .. }), "{error}");
    assert!(error.is_connect() && !error.outcome_unknown());
}

async fn a_table_that_changed_under_prepared_statements_is_met_again(mut f: Fixture) {
    let seqs = f.insert("t", None, 1).await;
    let (token, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), seqs);
    f.store.settle_sent("b", Uuid::new_v4(), &seqs, &[token]).await.unwrap();
    f.run("DROP VIEW outrider.events, outrider.blocked_keys; ALTER TABLE outrider.outbox ALTER COLUMN type TYPE varchar(200)").await;
    let seqs = f.insert("t", None, 1).await;
    assert_eq!(claimed_seqs(&f.claim("t").await.1), seqs);
    assert_eq!(f.store.resent(), 1, "the cached plan no longer fitted, and a new connection was made");
}

// C93
async fn secrets_are_in_no_text(f: Fixture) {
    let secret = "hunter2-very-secret";
    let mut options = options(&f);
    options.connect = options.connect.password(secret).port(1);
    let mut store = Store::new(options);
    let error = store.connect().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains(secret));
    assert!(!format!("{store:?}").contains(secret), "not in debug output either");
}
