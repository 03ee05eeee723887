//! C93: what an application writes and what a config keeps secret is in no log line, metric or error text, with the log
//! turned up as far as it goes and everything going wrong that can.

use std::time::Duration;

use outrider_servers::address;
use outrider_test_support::consume::{kafka, nats, rabbitmq};
use uuid::Uuid;

use crate::relay::{Tenant, program, until};

const PASSWORD: &str = "s3cr3t/m@rker";
const ENCODED: &str = "s3cr3t%2Fm%40rker";
const PAYLOAD: &str = "payl0ad m4rker";
const KEY: &str = "k3y-m4rker";
const HEADER: &str = "h3ader-m4rker";

/// More than Kafka, RabbitMQ and NATS take in one message here.
const TOO_LARGE: usize = 2 << 20;

// Contract: no log line, trace, metric or error text holds a payload.
#[tokio::test]
async fn no_content_and_no_password_is_in_the_log_the_metrics_or_an_error_text() {
    let run = format!("secrets-{}", Uuid::new_v4().simple());
    let (kafka, rabbitmq, nats) = (address::kafka(), address::rabbitmq(), address::nats());
    let (topics, subjects) = ([run.as_str()], format!("{run}.>"));
    let subjects = [subjects.as_str()];
    tokio::try_join!(
        kafka::create_topics(&kafka, &topics, 1),
        rabbitmq::declare(&rabbitmq, &run, &run, "bound.#"),
        nats::create_stream(&nats, &run, &subjects, Duration::from_secs(120)),
    )
    .unwrap();
    let tenant = Tenant::new("acme").await;
    let stranger = with_password(&tenant.database.url());
    let barred = Tenant::new("barred").await.at(&stranger);
    let program = program(&root(&run), &[&tenant, &barred]);
    for topic in ["kafka.ok", "bound.ok", "nats.ok"] {
        insert(&tenant, topic, PAYLOAD.as_bytes()).await;
        insert(&tenant, topic, &PAYLOAD.repeat(TOO_LARGE / PAYLOAD.len()).into_bytes()).await;
    }
    // No queue is bound for it, no stream takes it, no login succeeds.
    for topic in ["returned", "astray", "barred.kafka", "barred.rabbitmq", "barred.nats"] {
        insert(&tenant, topic, PAYLOAD.as_bytes()).await;
    }
    let daemon = program.start().await.unwrap();
    let log = || std::fs::read_to_string(program.log()).unwrap();
    until("three are sent and three too large", async || {
        let states = tenant.states().await;
        let count =
            |state: &str| states.iter().find(|(found, _)| found == state).map_or(0, |(_, count)| *count);
        count("sent") == 3 && count("dead") == 3
    })
    .await;
    until("everything that is wrong was said", async || {
        let log = log();
        let down = |broker: &str| {
            log.lines().any(|line| line.contains("broker is down") && line.contains(&format!("\"{broker}\"")))
        };
        let waits = |topic: &str| {
            log.lines().any(|line| line.contains("topic waits") && line.contains(&format!("\"{topic}\"")))
        };
        let tenant = log.lines().any(|line| line.contains("tenant waits") && line.contains("\"barred\""));
        tenant
            && waits("returned")
            && waits("astray")
            && ["xkafka", "xrabbitmq", "xnats"].iter().all(|x| down(x))
    })
    .await;
    let metrics = program.ask("/metrics").await.unwrap();
    assert_eq!(daemon.end().await.unwrap().code(), Some(0));
    let log = log();
    assert!(log.contains(" TRACE ") || log.contains(" DEBUG "), "the log is not turned up");
    let errors: Vec<String> =
        sqlx::query_scalar("SELECT last_error FROM outrider.delivery WHERE last_error IS NOT NULL")
            .fetch_all(&tenant.pool)
            .await
            .unwrap();
    assert!(errors.len() >= 3, "{errors:?}");
    assert_clean("/metrics", &metrics);
    assert_clean("an error text", &errors.join("\n"));
    assert_clean("the log", &log);
    tokio::try_join!(
        kafka::delete_topics(&kafka, &topics),
        rabbitmq::delete(&rabbitmq, &run, &run),
        nats::delete_stream(&nats, &run),
    )
    .unwrap();
}

fn root(run: &str) -> String {
    let (kafka, rabbitmq, nats) = (address::kafka(), address::rabbitmq(), address::nats());
    let (bad_rabbitmq, bad_nats) = (with_password(&rabbitmq), with_password("nats://127.0.0.1:1"));
    format!(
        "[log]\nfilter = \"trace,lapin=trace,lapin::returned_messages=trace,async_nats=trace,rdkafka=trace\"\n\
         [brokers.kafka]\nkind = \"kafka\"\nparams = {{ \"bootstrap.servers\" = \"{kafka}\" }}\n\
         [brokers.rabbitmq]\nkind = \"rabbitmq\"\nparams = {{ url = \"{rabbitmq}\", max_message_bytes = \"1MiB\" }}\n\
         [brokers.nats]\nkind = \"nats\"\nparams = {{ url = \"{nats}\" }}\n\
         [brokers.xkafka]\nkind = \"kafka\"\nconnect_timeout = \"5s\"\n\
         params = {{ \"bootstrap.servers\" = \"{kafka}\", \"security.protocol\" = \"sasl_plaintext\", \
         \"sasl.mechanism\" = \"PLAIN\", \"sasl.username\" = \"u\", \"sasl.password\" = \"{PASSWORD}\" }}\n\
         [brokers.xrabbitmq]\nkind = \"rabbitmq\"\nparams = {{ url = \"{bad_rabbitmq}\" }}\n\
         [brokers.xnats]\nkind = \"nats\"\nparams = {{ url = \"{bad_nats}\" }}\n\
         [[routes]]\ntopic = \"kafka.*\"\nbroker = \"kafka\"\nto = {{ topic = \"{run}\" }}\n\
         [[routes]]\ntopic = \"bound.*\"\nbroker = \"rabbitmq\"\nto = {{ exchange = \"{run}\" }}\n\
         [[routes]]\ntopic = \"returned\"\nbroker = \"rabbitmq\"\nto = {{ exchange = \"{run}\" }}\n\
         [[routes]]\ntopic = \"nats.*\"\nbroker = \"nats\"\nto = {{ subject = \"{run}.{{topic}}\" }}\n\
         [[routes]]\ntopic = \"astray\"\nbroker = \"nats\"\nto = {{ subject = \"{run}-nowhere\" }}\n\
         [[routes]]\ntopic = \"barred.kafka\"\nbroker = \"xkafka\"\n\
         [[routes]]\ntopic = \"barred.rabbitmq\"\nbroker = \"xrabbitmq\"\n\
         [[routes]]\ntopic = \"barred.nats\"\nbroker = \"xnats\"\n"
    )
}

/// The same server, and a stranger with the marked password.
fn with_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{scheme}://stranger:{ENCODED}@{}", &rest[host..])
}

async fn insert(tenant: &Tenant, topic: &str, payload: &[u8]) {
    sqlx::query(
        "INSERT INTO outrider.outbox (topic, key, type, payload, headers)
         VALUES ($1, $2 || gen_random_uuid(), 'test', $3, jsonb_build_object('source', $4::text))",
    )
    .bind(topic)
    .bind(KEY)
    .bind(payload)
    .bind(HEADER)
    .execute(&tenant.pool)
    .await
    .unwrap();
}

/// None of the markers, as text or as the list of bytes that a `Debug` of bytes is.
fn assert_clean(what: &str, text: &str) {
    for marker in [PASSWORD, ENCODED, PAYLOAD, KEY, HEADER] {
        let bytes = format!("{:?}", marker.as_bytes());
        for form in [marker, bytes.trim_matches(['[', ']'])] {
            if let Some(line) = text.lines().find(|line| line.contains(form)) {
                let start: String = line.chars().take(300).collect();
                panic!("{what} shows `{marker}`: {start}");
            }
        }
    }
}
