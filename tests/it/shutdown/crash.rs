//! SIGKILL: no chance to do anything. RabbitMQ, for it stores a second copy as it stores the first.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outrider_servers::address;
use outrider_test_support::consume::{rabbitmq, read};
use outrider_test_support::proxy::Mode;
use uuid::Uuid;

use crate::relay::{Tenant, program, proxied, until};

/// The bound on what may be in flight, and so on what may come twice.
const OUT: usize = 40;

/// Within this the copies that are on their way have come.
const QUIET: Duration = Duration::from_secs(2);

// Contract: after a crash at most what was handed over and not settled is sent again, and nothing is lost.
#[tokio::test]
async fn after_a_kill_everything_arrives_and_only_what_was_out_comes_twice() {
    let run = format!("crash-{}", Uuid::new_v4().simple());
    rabbitmq::declare(&address::rabbitmq(), &run, &run, "#").await.unwrap();
    let (broker, url) = proxied(&address::rabbitmq()).await;
    let tenant = Tenant::new("acme").await;
    let root = format!(
        "[replica]\nname = \"one\"\n[delivery]\nlease = \"6s\"\n\
         [brokers.rabbitmq]\nkind = \"rabbitmq\"\npublish_deadline = \"3s\"\n\
         max_in_flight = {{ events = {OUT}, bytes = \"1MiB\" }}\nparams = {{ url = \"{url}\" }}\n\
         [[routes]]\ntopic = \"*\"\nbroker = \"rabbitmq\"\nto = {{ exchange = \"{run}\" }}\n"
    );
    let program = program(&root, &[&tenant]);
    let mut daemon = program.start().await.unwrap();
    tenant.insert_many("orders", 100, 0).await;
    tenant.drained().await;
    // From here on no confirm comes back.
    broker.set(Mode::BlackHole);
    tenant.insert_many("orders", 100, 0).await;
    let claimed = "SELECT s FROM outrider.claim c, unnest(c.seqs) AS s ORDER BY s";
    let claimed = async || sqlx::query_scalar::<_, i64>(claimed).fetch_all(&tenant.pool).await.unwrap();
    until("the broker has its fill", async || claimed().await.len() == OUT).await;
    daemon.kill().await.unwrap();
    // The broker gets what was on its way, and nobody is there to hear its confirms.
    broker.set(Mode::Pass);
    let out = claimed().await;
    assert_eq!(out.len(), OUT, "the claim stands, and says what was in flight");

    let daemon = program.start().await.unwrap();
    tenant.drained().await;
    assert_eq!(daemon.end().await.unwrap().code(), Some(0));
    let mut consumer = rabbitmq::Consumer::open(&address::rabbitmq(), &run).await.unwrap();
    let messages = read(&mut consumer, 200 + OUT, Instant::now() + QUIET).await.unwrap();
    let mut copies: BTreeMap<i64, usize> = BTreeMap::new();
    for message in &messages {
        *copies.entry(message.seq().unwrap()).or_default() += 1;
    }
    assert_eq!(
        copies.keys().copied().collect::<Vec<i64>>(),
        (1..=200).collect::<Vec<i64>>(),
        "nothing is lost"
    );
    println!("{} events came twice", messages.len() - copies.len());
    for (seq, copies) in copies {
        assert!(copies == 1 || copies == 2 && out.contains(&seq), "event {seq} came {copies} times");
    }
    drop(consumer);
    rabbitmq::delete(&address::rabbitmq(), &run, &run).await.unwrap();
}
