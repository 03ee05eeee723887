//! Databases that are away, wrong or empty when the daemon starts: their tenants wait, and nobody else does.

use std::collections::BTreeSet;

use outrider::store::{Schema, migrate};
use outrider_servers::address;
use outrider_test_support::daemon::Daemon;
use outrider_test_support::database::TestDatabase;
use outrider_test_support::proxy::Mode;
use sqlx::AssertSqlSafe;

use crate::broker_outage::{daemon, logged, proxied};
use crate::relay::{Tenant, until};

const MAIN: &str = "[brokers.hub]\nkind = \"memory\"\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n";

fn tenant_file(variable: &str) -> String {
    format!("database = {{ url = \"env:{variable}\" }}\n")
}

/// Status and body of an admin path. `/healthz` has to be fine whenever anything is asked.
async fn ask(daemon: &Daemon, path: &str) -> Option<(u16, String)> {
    // The port is not open yet.
    let health = daemon.ask("/healthz").await.ok()?;
    assert!(health.starts_with("HTTP/1.1 200"), "a process that waits is healthy: {health}");
    let answer = daemon.ask(path).await.ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

// C99
#[tokio::test]
async fn a_database_that_is_down_at_start_is_retried_and_the_other_tenants_run() {
    let (up, down) = (Tenant::new("up").await, Tenant::new("down").await);
    let (proxy, through) = proxied(&down.database.url()).await;
    proxy.set(Mode::Refuse);
    up.insert_many("orders", 20, 0).await;
    down.insert_many("orders", 20, 0).await;
    let daemon = daemon(
        MAIN,
        &[("up", tenant_file("UP_URL")), ("down", tenant_file("DOWN_URL"))],
        &[("UP_URL", &up.database.url()), ("DOWN_URL", &through)],
    );
    let running = daemon.start().await.unwrap();
    up.drained().await;
    until("the log says what is wrong", async || {
        !logged(&daemon, "tenant waits", "tenant", "down").is_empty()
    })
    .await;
    up.insert_many("orders", 20, 0).await;
    up.drained().await;
    assert_eq!(ask(&daemon, "/readyz").await.unwrap().0, 200, "one tenant works");
    assert_eq!(down.unsent().await, 20);
    proxy.set(Mode::Pass);
    down.drained().await;
    let reasons = logged(&daemon, "tenant waits", "tenant", "down");
    let distinct: BTreeSet<&String> = reasons.iter().collect();
    assert_eq!(distinct.len(), reasons.len(), "one line a reason: {reasons:#?}");
    assert!(reasons.iter().all(|reason| reason.contains(&proxy.address().to_string())), "{reasons:#?}");
    assert!(running.end().await.unwrap().success());
}

// C94: no password anywhere, whatever is wrong with the URL that holds it.
#[tokio::test]
async fn readyz_says_why_no_tenant_works_names_migrate_and_never_the_password() {
    let server = address::postgres();
    let empty = TestDatabase::empty_at(&server).await.unwrap();
    let with_password = |url: &str, user: &str| {
        let (scheme, rest) = url.split_once("://").unwrap();
        format!("{scheme}://{user}:m4rk3r%2Fpa%40ss@{}", rest.split_once('@').map_or(rest, |(_, rest)| rest))
    };
    let bare = with_password(&empty.url(), "postgres");
    let stranger = with_password(&empty.url(), "no_such_role");
    // Nobody listens on port 1.
    let away = "postgres://postgres:m4rk3r%2Fpa%40ss@127.0.0.1:1/nothing".to_owned();
    let lost = format!("{}_lost", bare.split('?').next().unwrap());
    let tenants = ["bare", "stranger", "away", "lost"];
    let files = tenants.map(|name| (name, tenant_file(&format!("{}_URL", name.to_uppercase()))));
    let daemon = daemon(
        MAIN,
        &files,
        &[("BARE_URL", &bare), ("STRANGER_URL", &stranger), ("AWAY_URL", &away), ("LOST_URL", &lost)],
    );
    let running = daemon.launch().unwrap();
    let mut body = String::new();
    until("each tenant's reason is there", async || {
        let Some((status, text)) = ask(&daemon, "/readyz").await else { return false };
        assert_eq!(status, 503, "no tenant works: {text}");
        body = text;
        !body.contains("starting") && tenants.iter().all(|tenant| body.contains(&format!("{tenant}: ")))
    })
    .await;
    let reason = |tenant: &str| {
        let line = body.lines().find_map(|line| line.strip_prefix(&format!("{tenant}: ")));
        line.unwrap_or_else(|| panic!("nothing about {tenant}: {body}")).to_owned()
    };
    assert!(reason("bare").contains("run `outrider migrate --tenant bare`"), "{body}");
    assert!(reason("stranger").contains("as `no_such_role`"), "{body}");
    assert!(reason("away").contains("127.0.0.1:1"), "{body}");
    assert!(reason("lost").contains("there is no database `"), "{body}");
    for tenant in tenants {
        let said = || logged(&daemon, "tenant waits", "tenant", tenant);
        // The port answers on a thread of its own, and may do so a moment before the log does.
        until("it is in the log", async || !said().is_empty()).await;
        let said = said();
        assert!(said.len() == 1 && said[0].ends_with(&reason(tenant)), "{said:?}");
    }

    let mut inside = empty.connect().await.unwrap();
    let script = migrate::sql(&Schema::default());
    sqlx::raw_sql(AssertSqlSafe(format!("BEGIN;\n{script}\nCOMMIT;"))).execute(&mut inside).await.unwrap();
    until("it is ready with one tenant that works", async || {
        ask(&daemon, "/readyz").await.is_some_and(|(status, _)| status == 200)
    })
    .await;
    sqlx::query("INSERT INTO outrider.outbox (topic, type, payload) VALUES ('orders', 'test', 'x')")
        .execute(&mut inside)
        .await
        .unwrap();
    until("its event is sent", async || {
        let unsent: i64 = sqlx::query_scalar("SELECT count(*) FROM outrider.delivery")
            .fetch_one(&mut inside)
            .await
            .unwrap();
        unsent == 0
    })
    .await;
    let metrics = daemon.ask("/metrics").await.unwrap();
    assert!(running.end().await.unwrap().success());
    let log = std::fs::read_to_string(daemon.log()).unwrap();
    for text in [&log, &metrics, &body] {
        assert!(!text.contains("m4rk3r"), "the password is in it: {text}");
    }
}
