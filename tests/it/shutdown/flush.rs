//! An orderly end amid traffic to all three brokers: their clients' buffers are empty, and the receipts are right.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outrider_servers::address;
use outrider_test_support::consume::{Consume, kafka, nats, rabbitmq, read};
use uuid::Uuid;

use crate::relay::{SOON, Tenant, program, until};

const BROKERS: [&str; 3] = ["kafka", "rabbitmq", "nats"];

/// Each broker has confirmed so many before the end.
const ENOUGH: i64 = 60;

/// Within this a message that should not be there would have come.
const QUIET: Duration = Duration::from_millis(300);

// C100: producers are flushed.
// Contract: a drained shutdown sends nothing again: what a broker has is what is marked sent.
#[tokio::test]
async fn after_a_drain_the_brokers_have_exactly_what_is_marked_sent() {
    let run = format!("flush-{}", Uuid::new_v4().simple());
    let (kafka, rabbitmq, nats) = (address::kafka(), address::rabbitmq(), address::nats());
    let (topics, subjects) = ([run.as_str()], format!("{run}.>"));
    let subjects = [subjects.as_str()];
    tokio::try_join!(
        kafka::create_topics(&kafka, &topics, 3),
        rabbitmq::declare(&rabbitmq, &run, &run, "#"),
        nats::create_stream(&nats, &run, &subjects, Duration::from_secs(120)),
    )
    .unwrap();
    let tenant = Tenant::new("acme").await;
    let root = format!(
        "[delivery]\nbatch_events = 20\n\
         [brokers.kafka]\nkind = \"kafka\"\nparams = {{ \"bootstrap.servers\" = \"{kafka}\" }}\n\
         [brokers.rabbitmq]\nkind = \"rabbitmq\"\nparams = {{ url = \"{rabbitmq}\" }}\n\
         [brokers.nats]\nkind = \"nats\"\nparams = {{ url = \"{nats}\" }}\n\
         [[routes]]\ntopic = \"kafka\"\nbroker = \"kafka\"\nto = {{ topic = \"{run}\" }}\n\
         [[routes]]\ntopic = \"rabbitmq\"\nbroker = \"rabbitmq\"\nto = {{ exchange = \"{run}\" }}\n\
         [[routes]]\ntopic = \"nats\"\nbroker = \"nats\"\nto = {{ subject = \"{run}.{{topic}}\" }}\n"
    );
    let program = program(&root, &[&tenant]);
    let daemon = program.start().await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let writer = write(&tenant, over.clone());
    let ended = async {
        until("each broker has confirmed some", async || {
            let mut least = i64::MAX;
            for broker in BROKERS {
                least = least.min(i64::try_from(sent(&tenant, broker).await.len()).unwrap());
            }
            least >= ENOUGH
        })
        .await;
        let status = daemon.end().await;
        over.store(true, Ordering::Relaxed);
        status
    };
    let (status, ()) = tokio::join!(ended, writer);
    assert_eq!(status.unwrap().code(), Some(0), "{}", program.quote());
    assert!(tenant.unsent().await > 0, "the end came amid traffic");
    let claims: i64 =
        sqlx::query_scalar("SELECT count(*) FROM outrider.claim").fetch_one(&tenant.pool).await.unwrap();
    assert_eq!(claims, 0);
    for broker in BROKERS {
        let mut consumer: Box<dyn Consume> = match broker {
            "kafka" => Box::new(kafka::Consumer::open(&kafka, &topics).await.unwrap()),
            "rabbitmq" => Box::new(rabbitmq::Consumer::open(&rabbitmq, &run).await.unwrap()),
            _ => Box::new(nats::Consumer::open(&nats, &run).await.unwrap()),
        };
        let sent = sent(&tenant, broker).await;
        assert_eq!(everything(&mut *consumer, sent.len()).await, sent, "{broker}");
    }
    tokio::try_join!(
        kafka::delete_topics(&kafka, &topics),
        rabbitmq::delete(&rabbitmq, &run, &run),
        nats::delete_stream(&nats, &run),
    )
    .unwrap();
}

/// Inserts events of all three topics until told that it is over.
async fn write(tenant: &Tenant, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        for topic in BROKERS {
            tenant.insert_many(topic, 10, 5).await;
        }
    }
}

/// `seq`s with a receipt of that broker, in order.
async fn sent(tenant: &Tenant, broker: &str) -> Vec<i64> {
    sqlx::query_scalar("SELECT s FROM outrider.receipt r, unnest(r.seqs) AS s WHERE r.broker = $1 ORDER BY s")
        .bind(broker)
        .fetch_all(&tenant.pool)
        .await
        .unwrap()
}

/// `seq`s of `count` messages, and of one too many if there is one, in order.
async fn everything(consumer: &mut dyn Consume, count: usize) -> Vec<i64> {
    let mut messages = read(consumer, count, Instant::now() + SOON).await.unwrap();
    messages.extend(consumer.next(Instant::now() + QUIET).await.unwrap());
    let mut seqs: Vec<i64> = messages.iter().map(|message| message.seq().unwrap()).collect();
    seqs.sort_unstable();
    seqs
}
