//! What a refusal does to an event, and what it does not do to its neighbours. Outcomes without a word from the broker
//! are in [`crate::unknown`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outrider_broker::{Cause, ErrorClass, Outcome, Refusal};
use outrider_memory::Behaviour;
use outrider_servers::address;
use outrider_test_support::consume::{kafka, nats};
use sqlx::postgres::types::PgInterval;
use uuid::Uuid;

use crate::relay::{MemoryBroker, Relay, Tenant, until};

fn refused(text: &str) -> Outcome {
    let cause = Cause::event(ErrorClass::Other, text);
    Outcome::Refused(Refusal { cause, permanent: false })
}

/// A config with one broker for every topic.
fn root(broker: &MemoryBroker, delivery: &str) -> String {
    format!("{}\n[delivery]\n{delivery}\n[[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n", broker.section)
}

/// Lets PostgreSQL write down the delay of each failure: it is at least `least` and at most `most`.
async fn watch_delays(tenant: &Tenant) {
    let script = "
        CREATE TABLE public.delays (refusals int, hold smallint, least interval, most interval);
        CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          INSERT INTO public.delays
            VALUES (new.refusals, new.hold, new.due_at - clock_timestamp(), new.due_at - statement_timestamp());
          RETURN new;
        END $$;
        CREATE TRIGGER watch BEFORE UPDATE ON outrider.delivery FOR EACH ROW EXECUTE FUNCTION public.watch();";
    sqlx::raw_sql(script).execute(&tenant.pool).await.unwrap();
}

fn milliseconds(interval: &PgInterval) -> f64 {
    assert_eq!((interval.months, interval.days), (0, 0));
    interval.microseconds as f64 / 1_000.0
}

// Contract: refused: retried with backoff up to `max_refusals`, then dead with the reason. Backoff is exponential with
// jitter.
#[tokio::test]
async fn three_refusals_at_max_refusals_3_are_dead_with_the_reason_after_growing_delays() {
    const EVENTS: usize = 40;
    let tenant = Tenant::new("acme").await;
    watch_delays(&tenant).await;
    tenant.insert_many("orders", 40, 0).await;
    let broker = MemoryBroker::new("hub", "", "");
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    broker.store.tell(
        move |_| count.fetch_add(1, Ordering::SeqCst) < usize::MAX,
        Behaviour::Answer(refused("no such customer")),
    );
    let delivery = "max_refusals = 3\nbackoff = { base = \"400ms\", max = \"10s\" }";
    let relay = Relay::start(&root(&broker, delivery), &[&tenant]);
    until("all are dead", async || tenant.states().await == [("dead".to_owned(), 40)]).await;
    relay.stop(Duration::from_secs(5)).await;

    assert_eq!(tries.load(Ordering::SeqCst), 3 * EVENTS, "a dead event is not tried again");
    let ends: Vec<(i32, i32, Option<String>, bool)> = sqlx::query_as(
        "SELECT DISTINCT attempts, refusals, last_error, dead_at IS NOT NULL FROM outrider.delivery",
    )
    .fetch_all(&tenant.pool)
    .await
    .unwrap();
    assert_eq!(ends, [(3, 3, Some("refused 3 times: no such customer".to_owned()), true)]);

    for (refusals, step) in [(1, 400.0), (2, 800.0)] {
        let delays: Vec<(PgInterval, PgInterval)> =
            sqlx::query_as("SELECT least, most FROM public.delays WHERE refusals = $1 AND hold = 1")
                .bind(refusals)
                .fetch_all(&tenant.pool)
                .await
                .unwrap();
        assert_eq!(delays.len(), EVENTS, "one delay an event");
        for (least, most) in &delays {
            assert!(milliseconds(least) <= step, "{refusals}: {least:?} is longer than the step");
            assert!(milliseconds(most) >= step / 2.0 - 1.0, "{refusals}: {most:?} is under half the step");
        }
        let middle = step * 0.75;
        assert!(delays.iter().any(|(_, most)| milliseconds(most) < middle), "jitter reaches the lower part");
        assert!(delays.iter().any(|(least, _)| milliseconds(least) > middle), "and the upper one");
    }
}

// Contract: refused: dead at once where it can never work.
#[tokio::test]
async fn a_payload_over_the_brokers_limit_is_dead_at_once_with_size_and_limit() {
    let tenant = Tenant::new("acme").await;
    tenant.insert_many("orders", 5, 0).await;
    let large = tenant.insert("orders", None, &[7; 6_000]).await;
    tenant.insert_many("orders", 5, 0).await;
    let broker = MemoryBroker::new("hub", "", ", max_message_bytes = 5000");
    let relay = Relay::start(&root(&broker, ""), &[&tenant]);
    until("only the large one is left", async || tenant.unsent().await == 1).await;
    until("it is dead", async || tenant.event(large).await.0 == "dead").await;
    let (_, attempts, refusals, error) = tenant.event(large).await;
    assert_eq!((attempts, refusals), (1, 1));
    let error = error.unwrap();
    // What counts is the message: the payload, and the headers that outrider adds.
    let size: usize = error.split(' ').find_map(|word| word.parse().ok()).unwrap();
    assert!((6_001..7_000).contains(&size) && error.contains("5000"), "{error}");
    assert_eq!(broker.store.messages().len(), 10);
    relay.stop(Duration::from_secs(5)).await;
}

// C32, C53
#[tokio::test]
async fn a_payload_over_the_limit_of_nats_and_of_kafka_is_dead_at_once_and_its_neighbours_are_sent() {
    let name = format!("limit-{}", Uuid::new_v4().simple());
    let (kafka_server, nats_server) = (address::kafka(), address::nats());
    kafka::create_topics(&kafka_server, &[&name], 1).await.unwrap();
    nats::create_stream(&nats_server, &name, &[&name], Duration::from_secs(60)).await.unwrap();
    let tenant = Tenant::new("acme").await;
    let mut large = Vec::new();
    for topic in ["kafka", "nats"] {
        tenant.insert_many(topic, 5, 0).await;
        // NATS takes 1 MiB with headers, Kafka a million bytes.
        large.push(tenant.insert(topic, None, &vec![b'x'; 1_048_570]).await);
        tenant.insert_many(topic, 5, 0).await;
    }
    let root = format!(
        "[brokers.kafka]\nkind = \"kafka\"\nparams = {{ \"bootstrap.servers\" = \"{kafka_server}\" }}\n\
         [brokers.nats]\nkind = \"nats\"\nparams = {{ url = \"{nats_server}\" }}\n\
         [[routes]]\ntopic = \"kafka\"\nbroker = \"kafka\"\nto = {{ topic = \"{name}\" }}\n\
         [[routes]]\ntopic = \"nats\"\nbroker = \"nats\"\nto = {{ subject = \"{name}\" }}\n"
    );
    let relay = Relay::start(&root, &[&tenant]);
    until("only the large ones are left", async || tenant.unsent().await == 2).await;
    for (seq, limit) in large.into_iter().zip(["1000000", "1048576"]) {
        until("it is dead", async || tenant.event(seq).await.0 == "dead").await;
        let (_, attempts, refusals, error) = tenant.event(seq).await;
        assert_eq!((attempts, refusals), (1, 1));
        let error = error.unwrap();
        let numbers: Vec<&str> = error.split(|c: char| !c.is_ascii_digit()).collect();
        let over = numbers.iter().filter_map(|number| number.parse().ok()).any(|size: u64| size > 1_048_570);
        assert!(over && numbers.contains(&limit), "size and limit {limit}: {error}");
    }
    relay.stop(Duration::from_secs(5)).await;
    kafka::delete_topics(&kafka_server, &[&name]).await.unwrap();
    nats::delete_stream(&nats_server, &name).await.unwrap();
}

// Contract: refused: invalid headers. C74: a NUL cannot be in the column at all.
#[tokio::test]
async fn garbage_in_headers_makes_that_event_dead_with_a_reason_and_its_batch_goes_on() {
    let tenant = Tenant::new("acme").await;
    let insert = "INSERT INTO outrider.outbox (topic, type, payload, headers) VALUES ('orders', 'test', 'x', $1::text::jsonb) RETURNING seq";
    let deep = format!(r#"{{"deep": {}7{}}}"#, "[".repeat(3_000), "]".repeat(3_000));
    let garbage = [
        r#"["secret"]"#,
        r#""secret""#,
        "7",
        "true",
        r#"{"nested": {"a": "secret"}}"#,
        r#"{"list": ["secret"]}"#,
        r#"{"": "secret"}"#,
        r#"{"control": "secret\u0007"}"#,
        r#"{"line": "secret\r\nce_id: secret"}"#,
        r#"{"na\nme": "secret"}"#,
        &deep,
    ];
    let mut bad = Vec::new();
    for headers in garbage {
        tenant.insert_many("orders", 2, 0).await;
        let seq: i64 = sqlx::query_scalar(insert).bind(headers).fetch_one(&tenant.pool).await.unwrap();
        bad.push((seq, headers));
    }
    let nul = sqlx::query(insert).bind(r#"{"nul": "\u0000"}"#).execute(&tenant.pool).await;
    assert_eq!(nul.unwrap_err().as_database_error().unwrap().code().unwrap(), "22P05");
    // Odd, and nothing wrong with it.
    for headers in ["null", "{}", r#"{"a": null, "b": 1e400, "c": true, "d": "ü"}"#] {
        sqlx::query(insert).bind(headers).execute(&tenant.pool).await.unwrap();
    }
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&root(&broker, ""), &[&tenant]);
    until("the others are sent", async || broker.store.messages().len() == 2 * garbage.len() + 3).await;
    for (seq, headers) in bad {
        until("it is dead", async || tenant.event(seq).await.0 == "dead").await;
        let (_, attempts, refusals, error) = tenant.event(seq).await;
        assert_eq!((attempts, refusals), (1, 1), "{headers}");
        let error = error.unwrap();
        assert!(error.contains("header"), "{headers}: {error}");
        assert!(!error.contains("secret"), "a header's value is in the error text: {error}");
    }
    relay.stop(Duration::from_secs(5)).await;
}

// C13
#[tokio::test]
async fn three_hundred_old_poison_events_do_not_hold_up_a_good_one_of_another_topic() {
    let tenant = Tenant::new("acme").await;
    // Due again at once, all the time: each claim of retries is full.
    tenant.insert_many("refusing", 300, 0).await;
    tenant.insert_many("missing", 300, 0).await;
    let broker = MemoryBroker::new("hub", "", "");
    let tries = Arc::new(AtomicUsize::new(0));
    let count = tries.clone();
    let is =
        |name: &'static str| move |message: &outrider_broker::Message| message.destination["name"] == name;
    let refusing = is("refusing");
    broker.store.tell(
        move |message| refusing(message) && count.fetch_add(1, Ordering::SeqCst) < usize::MAX,
        Behaviour::Answer(refused("no")),
    );
    let gone = Cause::destination(ErrorClass::UnknownDestination, "there is no such topic");
    let missing_tries = Arc::new(AtomicUsize::new(0));
    let (count, missing) = (missing_tries.clone(), is("missing"));
    broker.store.tell(
        move |message| missing(message) && count.fetch_add(1, Ordering::SeqCst) < usize::MAX,
        Behaviour::Answer(Outcome::Retry(gone)),
    );
    let delivery = "batch_events = 100\nmax_refusals = 1000000\nbackoff = { base = \"1ms\", max = \"1ms\" }";
    let relay = Relay::start(&root(&broker, delivery), &[&tenant]);
    until("poison fills the batches", async || tries.load(Ordering::SeqCst) > 600).await;
    until("a destination is in trouble", async || missing_tries.load(Ordering::SeqCst) > 0).await;
    for _ in 0..3 {
        let begun = Instant::now();
        let good = tenant.insert("good", None, b"x").await;
        until("the good one is sent", async || broker.seqs().contains(&good)).await;
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "sent after {took:?}, with a poll of at most 1 s");
    }
    // The destination backs off as a group: after the first claims a single event asks for all.
    let asked = missing_tries.load(Ordering::SeqCst);
    assert!(asked < 250, "{asked} of 300 events were handed over to a destination that is not there");
    broker.store.take_all_back();
    tenant.drained().await;
    relay.stop(Duration::from_secs(5)).await;
}

// Contract: a delivery row whose payload row is gone is settled dead, never skipped.
#[tokio::test]
async fn an_event_whose_payload_row_is_gone_ends_dead_and_holds_back_its_key() {
    let tenant = Tenant::new("acme").await;
    let gone = tenant.insert("orders", Some("k"), b"x").await;
    let later = tenant.insert("orders", Some("k"), b"x").await;
    tenant.insert_many("orders", 5, 0).await;
    sqlx::query("DELETE FROM outrider.outbox WHERE seq = $1").bind(gone).execute(&tenant.pool).await.unwrap();
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&root(&broker, ""), &[&tenant]);
    let row =
        "SELECT hold, attempts, refusals, coalesce(last_error, '') FROM outrider.delivery WHERE seq = $1";
    let row = async || -> (i16, i32, i32, String) {
        sqlx::query_as(row).bind(gone).fetch_one(&tenant.pool).await.unwrap()
    };
    until("it is dead", async || row().await.0 == 3).await;
    let (_, attempts, refusals, error) = row().await;
    assert_eq!((attempts, refusals), (1, 1));
    assert!(error.contains("payload row is gone"), "{error}");
    until("the others are sent", async || tenant.unsent().await == 2).await;
    assert_eq!(tenant.event(later).await.0, "blocked");
    relay.stop(Duration::from_secs(5)).await;
}

// C05
#[tokio::test]
async fn absurd_counts_of_attempts_and_refusals_neither_crash_nor_hold_up_the_batch() {
    let tenant = Tenant::new("acme").await;
    let mut rows = Vec::new();
    for count in [31, 63, 64, 1_100, 2_000_000_000, i32::MAX] {
        for (attempts, refusals) in [(count, 0), (count, count), (0, count)] {
            let seq = tenant.insert("orders", None, b"x").await;
            sqlx::query("UPDATE outrider.delivery SET attempts = $2, refusals = $3 WHERE seq = $1")
                .bind(seq)
                .bind(attempts)
                .bind(refusals)
                .execute(&tenant.pool)
                .await
                .unwrap();
            rows.push((seq, attempts, refusals));
        }
    }
    watch_delays(&tenant).await;
    let broker = MemoryBroker::new("hub", "", "");
    broker.store.tell_times(rows.len(), |_| true, Behaviour::Answer(refused("no")));
    let delivery = "max_refusals = 1000000\nbackoff = { base = \"500ms\", max = \"2s\" }";
    let relay = Relay::start(&root(&broker, delivery), &[&tenant]);
    let dead = rows.iter().filter(|(_, _, refusals)| *refusals >= 1_000_000).count();
    until("what is not dead is sent after its one failure", async || {
        tenant.unsent().await == i64::try_from(dead).unwrap() && broker.seqs().len() == rows.len() - dead
    })
    .await;
    for (seq, attempts, refusals) in rows.iter().filter(|(_, _, refusals)| *refusals >= 1_000_000) {
        let event = tenant.event(*seq).await;
        assert_eq!(
            (event.0.as_str(), event.1, event.2),
            ("dead", attempts.saturating_add(1), refusals.saturating_add(1))
        );
    }
    let delays: Vec<(PgInterval, PgInterval)> =
        sqlx::query_as("SELECT least, most FROM public.delays WHERE hold = 1")
            .fetch_all(&tenant.pool)
            .await
            .unwrap();
    assert_eq!(delays.len(), rows.len() - dead, "each failed once");
    for (least, most) in delays {
        let (least, most) = (milliseconds(&least), milliseconds(&most));
        assert!(least <= 2_000.0 && most >= 249.0, "a delay between {least} and {most} ms");
    }
    relay.stop(Duration::from_secs(5)).await;
}

// C74
#[tokio::test]
async fn an_error_text_that_no_column_takes_is_stored_cleaned_and_cut() {
    let tenant = Tenant::new("acme").await;
    let (nul, long) = (tenant.insert("nul", None, b"x").await, tenant.insert("long", None, b"x").await);
    let (dead, unknown) =
        (tenant.insert("dead", None, b"x").await, tenant.insert("unknown", None, b"x").await);
    tenant.insert_many("fine", 5, 0).await;
    let broker = MemoryBroker::new("hub", "", "");
    let text = format!("a\0b \u{1F600} {}", "é".repeat(1_000_000));
    let permanent = Refusal { cause: Cause::event(ErrorClass::Other, text.clone()), permanent: true };
    let lost = Outcome::Unknown(Cause::event(ErrorClass::Timeout, text.clone()));
    for (topic, outcome) in [
        ("nul", refused("a\0b")),
        ("long", refused(&text)),
        ("dead", Outcome::Refused(permanent)),
        ("unknown", lost),
    ] {
        broker.store.tell(move |message| message.destination["name"] == topic, Behaviour::Answer(outcome));
    }
    let relay = Relay::start(&root(&broker, "backoff = { base = \"1h\", max = \"1h\" }"), &[&tenant]);
    until("the neighbours are sent", async || tenant.unsent().await == 4).await;
    for (seq, state, begins, characters) in [
        (nul, "backing off", "ab", 2),
        (long, "backing off", "ab \u{1F600} éé", 500),
        (dead, "dead", "ab \u{1F600} éé", 500),
        (unknown, "backing off", "ab \u{1F600} éé", 500),
    ] {
        until("it is settled", async || tenant.event(seq).await.0 == state).await;
        let error = tenant.event(seq).await.3.unwrap();
        assert!(error.starts_with(begins) && error.chars().count() == characters, "{error}");
    }
    relay.stop(Duration::from_secs(5)).await;
}
