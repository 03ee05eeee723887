//! Brokers that are away, and destinations that are not there: nothing dies, nobody else waits, and the log says once
//! what to do.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use outrider_broker::{Cause, ErrorClass};
use outrider_servers::address;
use outrider_test_support::consume::{self, Delivered, kafka, nats, rabbitmq};
use outrider_test_support::daemon::Daemon;
use outrider_test_support::proxy::{Mode, Proxy};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use uuid::Uuid;

use crate::relay::{MemoryBroker, Relay, Tenant, until, until_within};

/// How long a broker is away. The claim is about a minute, so a minute is waited.
const OUTAGE: Duration = Duration::from_secs(60);

/// A session that is idle tells PostgreSQL's counters what it did after at most 10 s; before that, what the test itself
/// asked for is still being counted.
const REPORTED: Duration = Duration::from_secs(12);

/// Most time that another broker's event may take meanwhile.
const FLOWS: Duration = Duration::from_secs(10);

/// The real program, with a log that can be read by a program.
pub(crate) fn daemon(main: &str, tenants: &[(&str, String)], variables: &[(&str, &str)]) -> Daemon {
    let daemon = Daemon::new(Path::new(env!("CARGO_BIN_EXE_outrider"))).unwrap();
    daemon.write(&format!("[log]\nformat = \"json\"\n{main}"), tenants).unwrap();
    daemon.tell(variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect());
    daemon
}

/// Messages of a daemon's log that begin like this and have this value in this field.
pub(crate) fn logged(daemon: &Daemon, begins: &str, field: &str, value: &str) -> Vec<String> {
    let log = std::fs::read_to_string(daemon.log()).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lines = lines.filter(|line| line[field] == value);
    let messages = lines.filter_map(|line| Some(line["message"].as_str()?.to_owned()));
    messages.filter(|message| message.starts_with(begins)).collect()
}

/// A proxy before the server of a URL, and the URL that leads through it.
pub(crate) async fn proxied(url: &str) -> (Proxy, String) {
    let authority = authority(url);
    let target: SocketAddr = tokio::net::lookup_host(authority).await.unwrap().next().unwrap();
    let proxy = Proxy::start(target).await.unwrap();
    let through = url.replacen(authority, &proxy.address().to_string(), 1);
    (proxy, through)
}

/// `host:port` of a URL that names both.
pub(crate) fn authority(url: &str) -> &str {
    let rest = url.split_once("://").unwrap().1;
    let rest = rest.split(['/', '?']).next().unwrap();
    rest.rsplit('@').next().unwrap()
}

async fn metric(daemon: &Daemon, series: &str) -> Option<f64> {
    let text = daemon.ask("/metrics").await.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map(|value| value.trim().parse().unwrap())
}

/// Most attempts and refusals of the unsent events of a topic, whether one is dead, and how many there are.
pub(crate) async fn spent(tenant: &Tenant, topic: &str) -> (i32, i32, bool, i64) {
    sqlx::query_as(
        "SELECT coalesce(max(attempts), 0), coalesce(max(refusals), 0), coalesce(bool_or(hold = 3), false), count(*)
           FROM outrider.delivery WHERE topic = $1",
    )
    .bind(topic)
    .fetch_one(&tenant.pool)
    .await
    .unwrap()
}

// C07. Contract: an outage of any length leaves zero dead events; claiming for that route pauses, other routes and
// tenants go on.
#[tokio::test]
async fn a_broker_that_is_down_for_a_minute_costs_no_attempt_and_next_to_no_statements() {
    let (waiting, mixed) = (Tenant::new("waiting").await, Tenant::new("mixed").await);
    let (down, up) = (MemoryBroker::new("down", "", ""), MemoryBroker::new("up", "", ""));
    let root = format!(
        "{}{}\n[delivery]\nmax_refusals = 1\nmax_unknown = 1\n\
         [[routes]]\ntopic = \"down\"\nbroker = \"down\"\n[[routes]]\ntopic = \"*\"\nbroker = \"up\"\n",
        down.section, up.section
    );
    for tenant in [&waiting, &mixed] {
        tenant.insert("down", None, b"before").await;
    }
    // Autovacuum's transactions would be counted as the relay's.
    let quiet = "ALTER TABLE outrider.outbox SET (autovacuum_enabled = off); \
                 ALTER TABLE outrider.delivery SET (autovacuum_enabled = off)";
    sqlx::raw_sql(quiet).execute(&waiting.pool).await.unwrap();
    let relay = Relay::start(&root, &[&waiting, &mixed]);
    waiting.drained().await;
    mixed.drained().await;

    down.store.go_down(Cause::broker(ErrorClass::Unreachable, "it is away"));
    waiting.insert_many("down", 100, 10).await;
    mixed.insert_many("down", 100, 10).await;
    let mut admin = waiting.database.admin().await.unwrap();
    let mut transactions = async || -> i64 {
        sqlx::query_scalar("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1")
            .bind(waiting.database.name())
            .fetch_one(&mut admin)
            .await
            .unwrap()
    };
    let begun = Instant::now();
    let mut counted = None;
    while begun.elapsed() < OUTAGE {
        if counted.is_none() && begun.elapsed() > REPORTED {
            counted = Some((transactions().await, Instant::now()));
        }
        let seq = mixed.insert("up", None, b"x").await;
        until_within(FLOWS, "the other broker's events flow", async || up.seqs().contains(&seq)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let (before, since) = counted.unwrap();
    let (made, seconds) = (transactions().await - before, since.elapsed().as_secs_f64());
    // Everything is among them: looking for work, renewing the lease, heartbeats, the janitor with its connections.
    assert!(made as f64 <= 2.0 * seconds, "{made} transactions in {seconds} s of waiting");
    for tenant in [&waiting, &mixed] {
        assert_eq!(spent(tenant, "down").await, (0, 0, false, 100));
    }
    assert_eq!(down.store.messages().len(), 2);

    down.store.come_up();
    waiting.drained().await;
    mixed.drained().await;
    assert_eq!(down.store.messages().len(), 202, "each was delivered once");
    relay.stop(Duration::from_secs(5)).await;
}

// C07, C99, on real servers: the log and the metrics of the real program.
#[tokio::test]
async fn rabbitmq_away_for_a_minute_is_said_once_and_kafka_and_nats_go_on_with_the_same_tenant() {
    let name = format!("outage-{}", Uuid::new_v4().simple());
    let (kafka_server, nats_server, rabbit) = (address::kafka(), address::nats(), address::rabbitmq());
    kafka::create_topics(&kafka_server, &[&name], 1).await.unwrap();
    nats::create_stream(&nats_server, &name, &[&name], Duration::from_secs(60)).await.unwrap();
    rabbitmq::declare(&rabbit, &name, &name, "#").await.unwrap();
    let (proxy, through) = proxied(&rabbit).await;
    let tenant = Tenant::new("acme").await;
    let main = format!(
        "[delivery]\nmax_refusals = 1\nmax_unknown = 1\n\
         [brokers.kafka]\nkind = \"kafka\"\nparams = {{ \"bootstrap.servers\" = \"{kafka_server}\" }}\n\
         [brokers.nats]\nkind = \"nats\"\nparams = {{ url = \"env:NATS_URL\" }}\n\
         [brokers.rabbit]\nkind = \"rabbitmq\"\nparams = {{ url = \"env:RABBIT_URL\" }}\n\
         [[routes]]\ntopic = \"orders\"\nbroker = \"kafka\"\nto = {{ topic = \"{name}\" }}\n\
         [[routes]]\ntopic = \"shipping\"\nbroker = \"nats\"\nto = {{ subject = \"{name}\" }}\n\
         [[routes]]\ntopic = \"billing\"\nbroker = \"rabbit\"\nto = {{ exchange = \"{name}\", routing_key = \"x\" }}\n"
    );
    let daemon = daemon(
        &main,
        &[("acme", "database = { url = \"env:ACME_URL\" }\n".to_owned())],
        &[("ACME_URL", &tenant.database.url()), ("NATS_URL", &nats_server), ("RABBIT_URL", &through)],
    );
    let mut billing = BTreeSet::new();
    for topic in ["orders", "shipping", "billing"] {
        let seq = tenant.insert(topic, None, b"before").await;
        billing.extend((topic == "billing").then_some(seq));
    }
    let running = daemon.start().await.unwrap();
    tenant.drained().await;

    let open = |broker| format!("outrider_breaker_open{{broker=\"{broker}\"}}");
    proxy.set(Mode::Refuse);
    proxy.cut();
    until("the breaker opens", async || metric(&daemon, &open("rabbit")).await == Some(1.0)).await;
    for _ in 0..50 {
        billing.insert(tenant.insert("billing", Some("k"), b"x").await);
    }
    let begun = Instant::now();
    while begun.elapsed() < OUTAGE {
        tenant.insert("orders", None, b"x").await;
        tenant.insert("shipping", None, b"x").await;
        until_within(FLOWS, "the other brokers' events flow", async || tenant.unsent().await == 50).await;
        assert_eq!(metric(&daemon, &open("rabbit")).await, Some(1.0));
        assert_eq!(metric(&daemon, &open("kafka")).await, Some(0.0));
        for path in ["/healthz", "/readyz"] {
            assert!(daemon.ask(path).await.unwrap().starts_with("HTTP/1.1 200"), "{path}");
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(spent(&tenant, "billing").await, (0, 0, false, 50));
    let reasons = logged(&daemon, "broker is down", "broker", "rabbit");
    let distinct: BTreeSet<&String> = reasons.iter().collect();
    assert!(!reasons.is_empty() && distinct.len() == reasons.len(), "one line a reason: {reasons:#?}");

    proxy.set(Mode::Pass);
    tenant.drained().await;
    assert_eq!(metric(&daemon, &open("rabbit")).await, Some(0.0));
    let ups = logged(&daemon, "broker is up", "broker", "rabbit");
    assert_eq!(ups.len(), 2, "at the start, and after the outage: {ups:?}");
    let mut queue = rabbitmq::Consumer::open(&rabbit, &name).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let arrived = consume::read(&mut queue, billing.len(), deadline).await.unwrap();
    let seqs: BTreeSet<i64> = arrived.iter().map(|message| Delivered::seq(message).unwrap()).collect();
    assert_eq!(seqs, billing, "each arrived, and none twice before all had");
    drop(queue);
    assert!(running.end().await.unwrap().success());
    kafka::delete_topics(&kafka_server, &[&name]).await.unwrap();
    nats::delete_stream(&nats_server, &name).await.unwrap();
    rabbitmq::delete(&rabbit, &name, &name).await.unwrap();
}

// C29, C41, C51. Contract: unknown topic, no stream, auth: broker trouble; the event is not to blame.
#[tokio::test]
async fn a_missing_topic_exchange_stream_or_user_kills_nothing_is_said_once_and_flows_when_it_is_there() {
    let name = format!("missing-{}", Uuid::new_v4().simple());
    let (kafka_server, nats_server, rabbit) = (address::kafka(), address::nats(), address::rabbitmq());
    let stranger = format!("amqp://{name}:s3cret@{}/%2f", authority(&rabbit));
    let stranger_queue = format!("{name}-stranger");
    rabbitmq::declare(&rabbit, &stranger_queue, &stranger_queue, "#").await.unwrap();
    let tenant = Tenant::new("acme").await;
    let main = format!(
        "[delivery]\nmax_refusals = 1\nmax_unknown = 1\n\
         [brokers.kafka]\nkind = \"kafka\"\nparams = {{ \"bootstrap.servers\" = \"{kafka_server}\" }}\n\
         [brokers.nats]\nkind = \"nats\"\nparams = {{ url = \"env:NATS_URL\" }}\n\
         [brokers.rabbit]\nkind = \"rabbitmq\"\nparams = {{ url = \"env:RABBIT_URL\" }}\n\
         [brokers.stranger]\nkind = \"rabbitmq\"\nparams = {{ url = \"env:STRANGER_URL\" }}\n\
         [[routes]]\ntopic = \"kafka\"\nbroker = \"kafka\"\nto = {{ topic = \"{name}\" }}\n\
         [[routes]]\ntopic = \"nats\"\nbroker = \"nats\"\nto = {{ subject = \"{name}\" }}\n\
         [[routes]]\ntopic = \"rabbit\"\nbroker = \"rabbit\"\nto = {{ exchange = \"{name}\", routing_key = \"x\" }}\n\
         [[routes]]\ntopic = \"stranger\"\nbroker = \"stranger\"\nto = {{ exchange = \"{stranger_queue}\", routing_key = \"x\" }}\n"
    );
    let daemon = daemon(
        &main,
        &[("acme", "database = { url = \"env:ACME_URL\" }\n".to_owned())],
        &[
            ("ACME_URL", &tenant.database.url()),
            ("NATS_URL", &nats_server),
            ("RABBIT_URL", &rabbit),
            ("STRANGER_URL", &stranger),
        ],
    );
    let topics = ["kafka", "nats", "rabbit", "stranger"];
    for topic in topics {
        tenant.insert_many(topic, 20, 3).await;
    }
    let running = daemon.start().await.unwrap();
    // What went wrong, and the words by which one knows what to do.
    let said = [
        ("topic waits", "topic", "kafka", "topic"),
        ("topic waits", "topic", "nats", "add the subject to a stream"),
        ("topic waits", "topic", "rabbit", "declare the exchange"),
        ("broker is down", "broker", "stranger", "check user and password"),
    ];
    for (begins, field, value, remedy) in said {
        until("the reason is in the log", async || !logged(&daemon, begins, field, value).is_empty()).await;
        let reason = &logged(&daemon, begins, field, value)[0];
        assert!(reason.contains(remedy) && (reason.contains(&name) || value == "stranger"), "{reason}");
    }
    // That nothing more is said is the claim: several rounds of trying fit into this time.
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (begins, field, value, _) in said {
        let lines = logged(&daemon, begins, field, value);
        assert_eq!(lines.len(), 1, "{lines:#?}");
    }
    for topic in topics {
        assert_eq!(spent(&tenant, topic).await, (0, 0, false, 20), "{topic}");
    }

    kafka::create_topics(&kafka_server, &[&name], 1).await.unwrap();
    nats::create_stream(&nats_server, &name, &[&name], Duration::from_secs(60)).await.unwrap();
    rabbitmq::declare(&rabbit, &name, &name, "#").await.unwrap();
    manage("PUT", &format!("/api/users/{name}"), r#"{"password": "s3cret", "tags": ""}"#).await;
    let rights = r#"{"configure": "", "write": ".*", "read": ""}"#;
    manage("PUT", &format!("/api/permissions/%2F/{name}"), rights).await;
    until_within(Duration::from_secs(60), "all flows without a restart", async || tenant.unsent().await == 0)
        .await;
    assert!(running.end().await.unwrap().success());
    assert!(!std::fs::read_to_string(daemon.log()).unwrap().contains("s3cret"));
    manage("DELETE", &format!("/api/users/{name}"), "").await;
    kafka::delete_topics(&kafka_server, &[&name]).await.unwrap();
    nats::delete_stream(&nats_server, &name).await.unwrap();
    rabbitmq::delete(&rabbit, &name, &name).await.unwrap();
    rabbitmq::delete(&rabbit, &stranger_queue, &stranger_queue).await.unwrap();
}

/// Asks RabbitMQ's management API for something, which has to succeed.
async fn manage(method: &str, path: &str, body: &str) {
    let url = address::rabbitmq_management();
    let (credentials, server) = url.split_once("://").unwrap().1.rsplit_once('@').unwrap();
    let (credentials, length) = (BASE64_STANDARD.encode(credentials), body.len());
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {server}\r\nAuthorization: Basic {credentials}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    let mut socket = TcpStream::connect(server).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{method} {path}: {answer}");
}
