//! C60: five ways for a publish to fail, none of which may be taken for success. Each leaves a reason and a count.

use std::time::Duration;

use outrider_memory::Behaviour;
use outrider_servers::address;
use outrider_test_support::consume::{nats, rabbitmq};
use uuid::Uuid;

use super::STOP;
use crate::recorder::metric;
use crate::relay::{MemoryBroker, Relay, Tenant, until};
use crate::script::{Script, Scripted};

/// Publishes of this broker that ended without a confirm, by class.
fn failures(broker: &str, class: &str) -> f64 {
    metric("outrider_publish_failures_total", &[("broker", broker), ("class", class)])
}

// C60
#[tokio::test]
async fn nothing_is_sent_to_an_address_where_nobody_listens() {
    let tenant = Tenant::new("nobody-listens").await;
    let seq = tenant.insert("orders", Some("k"), b"").await;
    let root = "[brokers.nobody-listens]\nkind = \"kafka\"\nconnect_timeout = \"1s\"
                params = { \"bootstrap.servers\" = \"127.0.0.1:1\" }
                [[routes]]\ntopic = \"*\"\nbroker = \"nobody-listens\"\n";
    let relay = Relay::start(root, &[&tenant]);
    let tries = || metric("outrider_broker_troubles_total", &[("broker", "nobody-listens")]);
    until("it was tried more than once", async || tries() >= 2.0).await;
    let unreachable = [("broker", "nobody-listens"), ("class", "unreachable")];
    // It goes on trying meanwhile.
    until("each time with the true reason", async || {
        metric("outrider_broker_troubles_total", &unreachable) == tries()
    })
    .await;
    assert_eq!(metric("outrider_breaker_open", &[("broker", "nobody-listens")]), 1.0);
    assert_eq!(tenant.event(seq).await, ("pending".to_owned(), 0, 0, None));
    assert!(tenant.receipts().await.is_empty());
    relay.stop(STOP).await;
}

// C60
#[tokio::test]
async fn what_rabbitmq_nacks_is_not_sent() {
    let tenant = Tenant::new("nacks").await;
    tenant.insert_many("orders", 4, 0).await;
    let (url, name) = (address::rabbitmq(), format!("nacks-{}", Uuid::new_v4().simple()));
    rabbitmq::declare_bounded(&url, &name, &name, 1).await.unwrap();
    let root = format!(
        "[brokers.nacks]\nkind = \"rabbitmq\"\nparams = {{ url = \"{url}\" }}
         [[routes]]\ntopic = \"*\"\nbroker = \"nacks\"\nto = {{ exchange = \"{name}\", routing_key = \"any\" }}\n"
    );
    let relay = Relay::start(&root, &[&tenant]);
    until("it said no, and no again", async || failures("nacks", "unavailable") >= 4.0).await;
    // The queue has room for few; only those are sent, and the others have lost nothing.
    relay.stop(STOP).await;
    let (sent, unsent) = (tenant.receipts().await.len() as i64, tenant.unsent().await);
    assert_eq!(sent + unsent, 4);
    assert!((1..4).contains(&unsent), "{unsent} of 4 are not sent");
    assert_eq!(tenant.states().await, [("pending".to_owned(), unsent), ("sent".to_owned(), sent)]);
    assert_eq!(rabbitmq::length(&url, &name).await.unwrap(), u32::try_from(sent).unwrap());
    rabbitmq::delete(&url, &name, &name).await.unwrap();
}

// C60
#[tokio::test]
async fn what_jetstream_answers_with_an_error_is_not_sent() {
    let tenant = Tenant::new("error-replies").await;
    tenant.insert_many("orders", 4, 0).await;
    let (url, name) = (address::nats(), format!("error-replies-{}", Uuid::new_v4().simple()));
    nats::create_bounded_stream(&url, &name, &name, 1).await.unwrap();
    let root = format!(
        "[brokers.error-replies]\nkind = \"nats\"\nparams = {{ url = \"{url}\" }}
         [[routes]]\ntopic = \"*\"\nbroker = \"error-replies\"\nto = {{ subject = \"{name}\" }}\n"
    );
    let relay = Relay::start(&root, &[&tenant]);
    until("it said no, and no again", async || failures("error-replies", "unavailable") >= 4.0).await;
    relay.stop(STOP).await;
    assert_eq!(tenant.receipts().await.len(), 1, "the stream has room for one");
    assert_eq!(tenant.states().await, [("pending".to_owned(), 3), ("sent".to_owned(), 1)]);
    nats::delete_stream(&url, &name).await.unwrap();
}

// C60
#[tokio::test]
async fn a_panic_in_a_publish_is_no_success() {
    let tenant = Tenant::new("panics").await;
    let broker = MemoryBroker::new("panics", "", "");
    let rule = broker.store.tell(|_| true, Behaviour::Panic);
    let seq = tenant.insert("orders", Some("k"), b"").await;
    let relay = Relay::start(&broker.root("backoff = { base = \"50ms\", max = \"100ms\" }"), &[&tenant]);
    until("it panicked twice", async || failures("panics", "client_fatal") >= 2.0).await;
    let (state, attempts, refusals, error) = tenant.event(seq).await;
    assert_ne!(state, "sent");
    assert!(attempts >= 1 && refusals == 0);
    assert_eq!(error.as_deref(), Some("the plugin panicked"));
    assert!(tenant.receipts().await.is_empty());
    broker.store.take_back(rule);
    tenant.drained().await;
    assert_eq!(broker.seqs(), [seq]);
    relay.stop(STOP).await;
}

// C60
#[tokio::test]
async fn a_publish_that_is_cancelled_is_no_success() {
    let tenant = Tenant::new("cancelled").await;
    let seq = tenant.insert("orders", Some("k"), b"").await;
    let root = "[brokers.hangs]\nkind = \"script\"\npublish_deadline = \"200ms\"
                [delivery]\nbackoff = { base = \"50ms\", max = \"100ms\" }
                [[routes]]\ntopic = \"*\"\nbroker = \"hangs\"\n";
    // Longer than anybody waits.
    let never = Scripted::new(Script { flight: Duration::from_secs(3_600), ..Script::default() });
    let relay = Relay::with_brokers(&never.registry(), "cancels", root, &[&tenant]);
    until("it was cut off twice", async || failures("hangs", "client_fatal") >= 2.0).await;
    let (state, attempts, refusals, error) = tenant.event(seq).await;
    assert_ne!(state, "sent");
    assert!(attempts >= 1 && refusals == 0);
    assert_eq!(error.as_deref(), Some("the plugin did not return by the deadline"));
    assert!(tenant.receipts().await.is_empty());
    relay.stop(STOP).await;
}
