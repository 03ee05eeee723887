//! The commands on a real database: migrate, check, publish, run, and what they say when something is amiss.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use outrider_test_support::database::{Server, TestDatabase};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{AssertSqlSafe, Row};

use crate::cli_fixture::{Cli, Ended};
use crate::database::empty_on;

const PATIENCE: Duration = Duration::from_secs(30);

/// An empty database and a config for it.
async fn empty() -> (TestDatabase, Cli) {
    let database = empty_on(Server::Postgres15).await.expect("PostgreSQL 15 is always there");
    let cli = Cli::new(&database.url());
    (database, cli)
}

async fn migrated() -> (TestDatabase, Cli) {
    let (database, cli) = empty().await;
    let ended = cli.run(&["migrate"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    (database, cli)
}

async fn execute(database: &TestDatabase, sql: &str) {
    let mut connection = database.connect().await.unwrap();
    sqlx::query(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
}

fn tenant_line(ended: &Ended) -> &str {
    ended.out.lines().find(|line| line.contains("tenant")).unwrap_or_else(|| panic!("{ended:?}"))
}

#[tokio::test]
async fn a_database_without_tables_names_the_command_that_makes_them() {
    let (_database, cli) = empty().await;
    let ended = cli.run(&["check"]);
    assert_eq!(ended.code, 1);
    assert!(tenant_line(&ended).contains("run `outrider migrate --tenant acme`"), "{ended:?}");
    let ended = cli.run(&["publish", "--tenant", "acme", "--topic", "orders.new", "--payload", "x"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("outrider migrate"), "{ended:?}");

    let planned = cli.run(&["migrate", "--dry-run"]);
    assert_eq!(planned.code, 0);
    assert!(planned.out.contains("acme: would apply 0001 outbox to schema `outrider`"), "{planned:?}");
    assert_eq!(cli.run(&["check", "--json"]).json()["tenants"][0]["schema"], "missing", "nothing was done");

    let done = cli.run(&["migrate", "--json"]);
    assert_eq!((done.code, &done.json()[0]["error"]), (0, &serde_json::Value::Null), "{done:?}");
    assert_eq!(done.json()[0]["migrations"][0]["name"], "outbox");
    let again = cli.run(&["migrate"]);
    assert_eq!((again.code, again.out.trim()), (0, "acme: schema `outrider` is up to date"));
    let ended = cli.run(&["check"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(tenant_line(&ended).contains("ok") && tenant_line(&ended).contains("is current"), "{ended:?}");
}

#[tokio::test]
async fn the_printed_script_makes_what_migrate_makes() {
    let (database, cli) = empty().await;
    let script = cli.run(&["migrate", "--sql"]);
    let mut connection = database.connect().await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("BEGIN;\n{}\nCOMMIT;", script.out)))
        .execute(&mut connection)
        .await
        .unwrap();
    assert_eq!(cli.run(&["migrate"]).out.trim(), "acme: schema `outrider` is up to date");
    assert_eq!(cli.run(&["check"]).code, 0);
}

#[tokio::test]
async fn one_bad_tenant_keeps_no_other_from_being_migrated() {
    let (_database, cli) = empty().await;
    let cli = cli.file("tenants/a-down.toml", "database = { url = \"postgres://127.0.0.1:1/none\" }\n");
    let ended = cli.run(&["migrate"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("127.0.0.1:1") && ended.err.contains("tenant `a-down`"), "{ended:?}");
    assert!(ended.out.contains("acme: applied 0001"), "{ended:?}");
}

#[tokio::test]
async fn publish_inserts_what_it_was_given() {
    let (database, cli) = migrated().await;
    let payload = [0, 0xff, b'\n', b'\'', b'"', 0xc3, 0x28];
    let args = [
        "publish",
        "--tenant",
        "acme",
        "--topic",
        "orders.new",
        "--key",
        "42",
        "--type",
        "order.v1",
        "--header",
        "source=shop=eu",
        "--header",
        "trace=",
    ];
    let ended = cli.run_with_input(&args, &payload);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{ended:?}");
    let mut connection = database.connect().await.unwrap();
    let row = sqlx::query(
        "SELECT id::text, topic, key, type, payload, headers->>'source' AS source, headers->>'trace' AS trace \
         FROM outrider.outbox JOIN outrider.delivery USING (seq, topic, key)",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    let text = |column: &str| row.get::<String, _>(column);
    assert_eq!(text("id"), ended.out.trim());
    assert_eq!(
        (text("topic"), text("key"), text("type")),
        ("orders.new".into(), "42".into(), "order.v1".into())
    );
    assert_eq!((text("source"), text("trace")), ("shop=eu".into(), String::new()));
    assert_eq!(row.get::<Vec<u8>, _>("payload"), payload);

    let file = cli.path().join("payload");
    std::fs::write(&file, "from a file").unwrap();
    let args = ["publish", "--json", "--tenant", "acme", "--topic", "orders.new", "--payload-file"];
    let ended = cli.run(&[args.map(str::to_owned).as_slice(), &[file.display().to_string()]].concat());
    assert_eq!(ended.code, 0, "{ended:?}");
    let id = ended.json()["id"].as_str().unwrap().to_owned();
    let found: Vec<u8> =
        sqlx::query_scalar("SELECT payload FROM outrider.outbox WHERE id = $1::uuid AND key IS NULL")
            .bind(id)
            .fetch_one(&mut connection)
            .await
            .unwrap();
    assert_eq!(found, b"from a file");
}

#[tokio::test]
async fn a_topic_without_a_route_is_held_and_shown() {
    let (_database, cli) = migrated().await;
    for topic in ["invoices", "orders.new", "refunds"] {
        let ended = cli.run(&["publish", "--tenant", "acme", "--topic", topic, "--payload", "x"]);
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.err.contains("has no route"), topic != "orders.new", "{ended:?}");
    }
    let ended = cli.run(&["check"]);
    assert_eq!(ended.code, 0, "held is not failed: {ended:?}");
    let line = tenant_line(&ended);
    assert!(line.contains("warning") && line.contains("2 topics have events and no route"), "{ended:?}");
    let json = cli.run(&["check", "--json"]).json();
    assert_eq!(json["tenants"][0]["unrouted"], serde_json::json!(["invoices", "refunds"]));
}

#[tokio::test]
async fn a_trigger_that_does_not_fire_is_a_failure() {
    let (database, cli) = migrated().await;
    execute(&database, "ALTER TABLE outrider.outbox DISABLE TRIGGER outbox_delivery").await;
    let ended = cli.run(&["check"]);
    assert_eq!(ended.code, 1);
    let remedy = "ALTER TABLE outrider.outbox ENABLE TRIGGER outbox_delivery";
    assert!(tenant_line(&ended).contains(remedy), "{ended:?}");
    execute(&database, remedy).await;
    assert_eq!(cli.run(&["check"]).code, 0);
    execute(&database, "DROP TRIGGER outbox_delivery ON outrider.outbox").await;
    assert_eq!(cli.run(&["check", "--json"]).json()["tenants"][0]["trigger"], "missing");
}

#[tokio::test]
async fn a_schema_of_a_newer_program_is_refused() {
    let (database, cli) = migrated().await;
    execute(
        &database,
        "INSERT INTO outrider.migration (version, name, checksum) VALUES (9999, 'later', 'x')",
    )
    .await;
    for args in [&["check"][..], &["migrate"], &["migrate", "--dry-run"]] {
        let ended = cli.run(args);
        assert_eq!(ended.code, 1, "{args:?}");
        assert!(format!("{ended:?}").contains("use a newer outrider"), "{args:?}: {ended:?}");
    }
}

/// A child that is killed if the test ends before it.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        // It has usually ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn run_relays_until_it_is_told_to_stop_and_ends_with_0() {
    let (database, cli) = migrated().await;
    let mut command = cli.command(&["run"]);
    let mut daemon = Daemon(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let (lines, log) = mpsc::channel();
    let mut stderr = BufReader::new(daemon.0.stderr.take().unwrap());
    std::thread::spawn(move || {
        let mut line = String::new();
        while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
            if lines.send(std::mem::take(&mut line)).is_err() {
                let _ = stderr.read_to_end(&mut Vec::new());
            }
        }
    });
    while !log.recv_timeout(PATIENCE).expect("it starts").contains("outrider starts") {}
    let ended = cli.run(&["publish", "--tenant", "acme", "--topic", "orders.new", "--payload", "x"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let sent = async {
        let mut connection = database.connect().await.unwrap();
        let receipts = "SELECT count(*) FROM outrider.receipt WHERE outcome = 'sent'";
        while sqlx::query_scalar::<_, i64>(receipts).fetch_one(&mut connection).await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, sent).await.expect("the event is sent");
    let pid = Pid::from_child(&daemon.0);
    kill_process(pid, Signal::TERM).unwrap();
    let ended = tokio::task::spawn_blocking(move || daemon.0.wait());
    let ended = tokio::time::timeout(PATIENCE, ended).await.expect("it ends").unwrap().unwrap();
    assert_eq!(ended.code(), Some(0));
}
