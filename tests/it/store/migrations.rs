//! `migrate`: twice, dry, by two at once, in any schema, never backwards.

use std::time::Duration;

use outrider::store::migrate::{self, MIGRATIONS, MigrateError, SchemaState};
use outrider::store::{Schema, Store, StoreOptions};
use outrider_test_support::database::{Server, TestDatabase};
use sqlx::ConnectOptions;
use tokio::time::Instant;
use uuid::Uuid;

use super::fixture::*;
use crate::database::{empty_on, on_both_servers};

on_both_servers!(empty:
    a_second_run_changes_nothing,
    a_plan_changes_nothing,
    two_runners_apply_each_once,
    the_script_does_the_same,
    a_newer_schema_is_refused,
    a_changed_migration_is_refused,
    any_schema_name_works,
    two_schemas_live_in_one_database,
    a_schema_that_its_owner_made_is_taken,
    without_the_right_to_make_roles_it_says_so,
    a_lock_is_waited_for_in_short_turns,
    a_failed_migration_leaves_nothing_of_itself,
    a_server_that_is_not_there_is_told,
);

const PATIENCE: Duration = Duration::from_secs(20);

async fn empty(server: Server) -> Option<TestDatabase> {
    empty_on(server).await
}

async fn a_second_run_changes_nothing(db: TestDatabase) {
    let schema = Schema::default();
    assert_eq!(migrate::status(&db.options(), &schema).await.unwrap(), SchemaState::Missing);
    let report = migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap();
    assert_eq!(report.applied.len(), MIGRATIONS.len());
    assert_eq!(report.notes, Vec::<String>::new());
    assert_eq!(migrate::status(&db.options(), &schema).await.unwrap(), SchemaState::Current);
    let mut sql = db.connect().await.unwrap();
    let dump = "SELECT md5(string_agg(c::text, '' ORDER BY oid)) FROM pg_class c";
    let before: String = one(&mut sql, dump).await;
    let report = migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap();
    assert!(report.applied.is_empty());
    assert_eq!(one::<String>(&mut sql, dump).await, before);
}

async fn a_plan_changes_nothing(db: TestDatabase) {
    let schema = Schema::default();
    let planned = migrate::plan(&db.options(), &schema).await.unwrap();
    assert_eq!(planned, MIGRATIONS.iter().collect::<Vec<_>>());
    assert!(planned.iter().all(|m| !m.purpose().is_empty()));
    assert_eq!(migrate::status(&db.options(), &schema).await.unwrap(), SchemaState::Missing);
    migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap();
    let mut sql = db.connect().await.unwrap();
    run(&mut sql, "DELETE FROM outrider.migration WHERE version = 8").await;
    let planned = migrate::plan(&db.options(), &schema).await.unwrap();
    assert_eq!(planned.iter().map(|m| m.version).collect::<Vec<_>>(), [8]);
    let behind = SchemaState::Behind { version: 7, latest: 8 };
    assert_eq!(migrate::status(&db.options(), &schema).await.unwrap(), behind);
}

async fn two_runners_apply_each_once(db: TestDatabase) {
    let runners: Vec<_> = (0..4)
        .map(|_| {
            let options = db.options();
            tokio::spawn(async move { migrate::apply(&options, &Schema::default(), PATIENCE).await.unwrap() })
        })
        .collect();
    let mut applied = 0;
    for runner in runners {
        applied += runner.await.unwrap().applied.len();
    }
    assert_eq!(applied, MIGRATIONS.len());
    let mut sql = db.connect().await.unwrap();
    assert_eq!(
        one::<i64>(&mut sql, "SELECT count(*) FROM outrider.migration").await,
        MIGRATIONS.len() as i64
    );
}

async fn the_script_does_the_same(db: TestDatabase) {
    let schema = Schema::default();
    let mut sql = db.connect().await.unwrap();
    run(&mut sql, &format!("BEGIN; {}; COMMIT", migrate::sql(&schema))).await;
    assert_eq!(migrate::status(&db.options(), &schema).await.unwrap(), SchemaState::Current);
    assert!(migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap().applied.is_empty());
}

async fn a_newer_schema_is_refused(db: TestDatabase) {
    let schema = Schema::default();
    migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap();
    let mut sql = db.connect().await.unwrap();
    run(&mut sql, "INSERT INTO outrider.migration (version, name, checksum) VALUES (4711, 'later', 'x')")
        .await;
    let known = MIGRATIONS.len() as i32;
    assert_eq!(
        migrate::status(&db.options(), &schema).await.unwrap(),
        SchemaState::Newer { version: 4711, known }
    );
    for error in [
        migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap_err(),
        migrate::plan(&db.options(), &schema).await.unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("4711") && text.contains(&known.to_string()), "{text}");
    }
}

async fn a_changed_migration_is_refused(db: TestDatabase) {
    let schema = Schema::default();
    migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap();
    let mut sql = db.connect().await.unwrap();
    run(&mut sql, "UPDATE outrider.migration SET checksum = 'x' WHERE version = 2; DELETE FROM outrider.migration WHERE version = 8").await;
    let error = migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap_err();
    assert!(matches!(error, MigrateError::Changed { version: 2, .. }), "{error}");
    assert_eq!(
        one::<i64>(&mut sql, "SELECT count(*) FROM outrider.migration").await,
        MIGRATIONS.len() as i64 - 1
    );
}

async fn any_schema_name_works(db: TestDatabase) {
    for name in ["Out rider-1", "a\"b", "schéma", "select", "x.y", "outrider;--", "a:b"] {
        let schema = Schema::new(name).unwrap();
        migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap();
        assert_eq!(migrate::status(&db.options(), &schema).await.unwrap(), SchemaState::Current, "{name}");
        let mut sql = db.connect().await.unwrap();
        run(
            &mut sql,
            &format!("SET ROLE outrider_app; SELECT {}.publish('t', 'k', NULL, 'x')", schema.quoted()),
        )
        .await;
        let mut store = Store::new(StoreOptions::new(db.options(), schema));
        assert_eq!(store.stats().await.unwrap().ready, 1, "{name}");
        assert!(store.take(LANE, Uuid::new_v4(), "x", LEASE, false).await.unwrap().is_some());
        store.trigger_state().await.unwrap();
    }
}

async fn two_schemas_live_in_one_database(db: TestDatabase) {
    let (one_schema, other_schema) = (Schema::default(), Schema::new("other").unwrap());
    migrate::apply(&db.options(), &one_schema, PATIENCE).await.unwrap();
    assert_eq!(migrate::status(&db.options(), &other_schema).await.unwrap(), SchemaState::Missing);
    migrate::apply(&db.options(), &other_schema, PATIENCE).await.unwrap();
    let mut sql = db.connect().await.unwrap();
    run(&mut sql, "SELECT other.publish('t', 'k', NULL, 'x')").await;
    assert_eq!(one::<i64>(&mut sql, "SELECT count(*) FROM outrider.delivery").await, 0);
    assert_eq!(one::<i64>(&mut sql, "SELECT count(*) FROM other.delivery").await, 1);
}

/// A login role of its own, which owns the schema and may do nothing else; dropped with the database's objects.
async fn owner(db: &TestDatabase, rights: &str) -> String {
    let name = format!("outrider_owner_{}", Uuid::new_v4().simple());
    let mut sql = db.connect().await.unwrap();
    run(
        &mut sql,
        &format!("CREATE ROLE {name} LOGIN {rights}; GRANT CREATE ON DATABASE {} TO {name}", db.name()),
    )
    .await;
    name
}

async fn drop_owner(db: TestDatabase, name: &str) {
    let mut admin = db.admin().await.unwrap();
    db.remove();
    run(&mut admin, &format!("DROP ROLE {name}")).await;
}

async fn a_schema_that_its_owner_made_is_taken(db: TestDatabase) {
    let name = owner(&db, "").await;
    let mut sql = db.connect().await.unwrap();
    run(
        &mut sql,
        &format!(
            "REVOKE CREATE ON DATABASE {} FROM {name}; CREATE SCHEMA outrider AUTHORIZATION {name}",
            db.name()
        ),
    )
    .await;
    drop(sql);
    let options = db.options().username(&name);
    migrate::apply(&options, &Schema::default(), PATIENCE).await.unwrap();
    assert_eq!(migrate::status(&options, &Schema::default()).await.unwrap(), SchemaState::Current);
    drop_owner(db, &name).await;
}

async fn without_the_right_to_make_roles_it_says_so(db: TestDatabase) {
    // The roles exist on a server that other tests use, so names that do not are put into the text.
    let name = owner(&db, "NOCREATEROLE").await;
    let missing = format!("missing_{}", Uuid::new_v4().simple());
    let options = db.options().username(&name);
    let mut sql = options.connect().await.unwrap();
    let script = migrate::sql(&Schema::default())
        .replace("outrider_app", &format!("{missing}_app"))
        .replace("outrider_relay", &format!("{missing}_relay"));
    run(&mut sql, &format!("BEGIN; {script}; COMMIT")).await;
    let rights = "SELECT count(*) FROM information_schema.role_table_grants WHERE table_schema = 'outrider' AND grantee <> current_user";
    assert_eq!(one::<i64>(&mut sql, rights).await, 0);
    // Made later by an administrator, they get their rights from the owner.
    let mut admin = db.connect().await.unwrap();
    run(&mut admin, &format!("CREATE ROLE {missing}_app; CREATE ROLE {missing}_relay")).await;
    run(&mut sql, "SELECT outrider.grant_rights()").await;
    assert!(one::<i64>(&mut sql, rights).await > 5);
    drop((sql, admin));
    let mut admin = db.admin().await.unwrap();
    db.remove();
    run(&mut admin, &format!("DROP ROLE {name}; DROP ROLE {missing}_app; DROP ROLE {missing}_relay")).await;
}

// C78
async fn a_lock_is_waited_for_in_short_turns(db: TestDatabase) {
    let schema = Schema::default();
    migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap();
    let mut sql = db.connect().await.unwrap();
    // The last one again.
    run(&mut sql, "DELETE FROM outrider.migration WHERE version = 8; DROP VIEW outrider.blocked_keys").await;
    let mut locker = db.connect().await.unwrap();
    run(&mut locker, "BEGIN; LOCK TABLE outrider.migration IN ACCESS EXCLUSIVE MODE").await;
    let begun = Instant::now();
    let error = migrate::apply(&db.options(), &schema, Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(error, MigrateError::Locked { .. }), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    run(&mut locker, "ROLLBACK").await;
    assert_eq!(migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap().applied.len(), 1);
}

async fn a_failed_migration_leaves_nothing_of_itself(db: TestDatabase) {
    let mut sql = db.connect().await.unwrap();
    run(&mut sql, "CREATE SCHEMA outrider; CREATE TABLE outrider.receipt (x int)").await;
    let schema = Schema::default();
    let error = migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap_err();
    assert!(matches!(error, MigrateError::Statement { version: 3, .. }), "{error}");
    assert!(error.to_string().contains("receipt"), "{error}");
    let latest = MIGRATIONS.len() as i32;
    assert_eq!(
        migrate::status(&db.options(), &schema).await.unwrap(),
        SchemaState::Behind { version: 2, latest }
    );
    assert!(!one::<bool>(&mut sql, "SELECT to_regclass('outrider.lane') IS NOT NULL").await);
    run(&mut sql, "DROP TABLE outrider.receipt").await;
    assert_eq!(migrate::apply(&db.options(), &schema, PATIENCE).await.unwrap().applied.len(), 6);
}

async fn a_server_that_is_not_there_is_told(db: TestDatabase) {
    let error = migrate::status(&db.options().port(1), &Schema::default()).await.unwrap_err();
    assert!(matches!(&error, MigrateError::Connect(cause) if cause.is_connect()), "{error}");
}
