//! C34: names that lead nowhere when the program starts, and brokers that come back at other addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use outrider_servers::{address, left_out};
use outrider_test_support::consume::{self, kafka, nats, rabbitmq};
use outrider_test_support::hosts::Hosts;
use outrider_test_support::proxy::{Mode, Proxy};
use rdkafka::mocking::MockCluster;
use uuid::Uuid;

use crate::broker_outage::{authority, daemon, logged, spent};
use crate::recorder::metric;
use crate::relay::{Relay, Tenant, until, until_within};

/// Of a name that is right again, or a broker that is where it was said to be.
const RECOVERY: Duration = Duration::from_secs(60);

/// Loopback addresses besides the one where the servers are.
const OLD: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const NEW: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));

/// The server behind a URL, under a name, at a port.
fn named(url: &str, name: &str, port: u16) -> String {
    url.replacen(authority(url), &format!("{name}:{port}"), 1)
}

async fn server(authority: &str) -> SocketAddr {
    tokio::net::lookup_host(authority).await.unwrap().next().unwrap()
}

#[tokio::test]
async fn names_that_lead_nowhere_hold_up_nobody_else_and_what_is_behind_them_flows_once_they_are_right() {
    let Some(hosts) = Hosts::new(&[("nats.test", OLD)]).unwrap() else {
        left_out::tell("libnss-wrapper is not installed");
        return;
    };
    let name = format!("named-{}", Uuid::new_v4().simple());
    let (kafka_server, nats_server, rabbit) = (address::kafka(), address::nats(), address::rabbitmq());
    kafka::create_topics(&kafka_server, &[&name], 1).await.unwrap();
    nats::create_stream(&nats_server, &name, &[&name], Duration::from_secs(60)).await.unwrap();
    rabbitmq::declare(&rabbit, &name, &name, "#").await.unwrap();
    let (kafka_at, nats_at, rabbit_at) = (
        server(&kafka_server).await,
        server(authority(&nats_server)).await,
        server(authority(&rabbit)).await,
    );
    let old_rabbit = Proxy::start_at((OLD, 0).into(), rabbit_at).await.unwrap();
    let rabbit_port = old_rabbit.address().port();
    let hole = Proxy::start_at((OLD, 0).into(), nats_at).await.unwrap();
    hole.set(Mode::BlackHole);
    let nats_port = hole.address().port();
    let _nats = Proxy::start_at((NEW, nats_port).into(), nats_at).await.unwrap();

    let (tenant, other) = (Tenant::new("acme").await, Tenant::new("other").await);
    let main = format!(
        "[delivery]\nmax_refusals = 1\nmax_unknown = 1\n\
         [brokers.kafka]\nkind = \"kafka\"\nconnect_timeout = \"1s\"\nparams = {{ \"bootstrap.servers\" = \"kafka.test:{}\" }}\n\
         [brokers.nats]\nkind = \"nats\"\nconnect_timeout = \"1s\"\nparams = {{ url = \"env:NATS_URL\" }}\n\
         [brokers.rabbit]\nkind = \"rabbitmq\"\nconnect_timeout = \"1s\"\nparams = {{ url = \"env:RABBIT_URL\" }}\n\
         [brokers.hub]\nkind = \"memory\"\n\
         [[routes]]\ntopic = \"kafka\"\nbroker = \"kafka\"\nto = {{ topic = \"{name}\" }}\n\
         [[routes]]\ntopic = \"nats\"\nbroker = \"nats\"\nto = {{ subject = \"{name}\" }}\n\
         [[routes]]\ntopic = \"rabbit\"\nbroker = \"rabbit\"\nto = {{ exchange = \"{name}\", routing_key = \"x\" }}\n\
         [[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n",
        kafka_at.port()
    );
    let [library, table] = hosts.variables();
    let daemon = daemon(
        &main,
        &[
            ("acme", "database = { url = \"env:ACME_URL\" }\n".to_owned()),
            ("other", "database = { url = \"env:OTHER_URL\" }\n".to_owned()),
        ],
        &[
            (&library.0, &library.1),
            (&table.0, &table.1),
            ("ACME_URL", &tenant.database.url()),
            ("OTHER_URL", &other.database.url()),
            ("NATS_URL", &named(&nats_server, "nats.test", nats_port)),
            ("RABBIT_URL", &named(&rabbit, "rabbit.test", rabbit_port)),
        ],
    );
    let topics = ["kafka", "nats", "rabbit"];
    for topic in topics {
        tenant.insert_many(topic, 10, 2).await;
    }
    let running = daemon.start().await.unwrap();
    for tenant in [&tenant, &other] {
        tenant.insert_many("elsewhere", 10, 2).await;
    }
    other.drained().await;
    until("the same tenant's other events flow", async || tenant.unsent().await == 30).await;
    for broker in topics {
        let said = || logged(&daemon, "broker is down", "broker", broker);
        until("it is said", async || !said().is_empty()).await;
        assert!(said()[0].contains(&format!("{broker}.test")), "{:?}", said());
        assert_eq!(spent(&tenant, broker).await, (0, 0, false, 10), "{broker}");
    }

    hosts.are(&[("kafka.test", kafka_at.ip()), ("nats.test", NEW), ("rabbit.test", OLD)]).unwrap();
    until_within(RECOVERY, "all of it flows", async || tenant.unsent().await == 0).await;

    // It moves, and at first the name does not.
    drop(old_rabbit);
    let _rabbit = Proxy::start_at((NEW, rabbit_port).into(), rabbit_at).await.unwrap();
    let ups = || logged(&daemon, "broker is up", "broker", "rabbit").len();
    let downs = logged(&daemon, "broker is down", "broker", "rabbit").len();
    tenant.insert_many("rabbit", 10, 2).await;
    until("it is gone", async || logged(&daemon, "broker is down", "broker", "rabbit").len() > downs).await;
    assert_eq!(spent(&tenant, "rabbit").await, (0, 0, false, 10));
    hosts.are(&[("rabbit.test", NEW)]).unwrap();
    until_within(RECOVERY, "what waited for it flows", async || tenant.unsent().await == 0).await;
    assert_eq!(ups(), 2);
    assert!(running.end().await.unwrap().success());
    kafka::delete_topics(&kafka_server, &[&name]).await.unwrap();
    nats::delete_stream(&nats_server, &name).await.unwrap();
    rabbitmq::delete(&rabbit, &name, &name).await.unwrap();
}

// Kafka's clients learn addresses from the cluster itself. All that they learnt are gone, and the list in the config has
// one that is right.
#[tokio::test]
async fn kafka_brokers_that_came_back_at_new_addresses_are_found_by_the_same_bootstrap_list() {
    let name = format!("moved-{}", Uuid::new_v4().simple());
    let kafka_server = address::kafka();
    kafka::create_topics(&kafka_server, &[&name], 1).await.unwrap();
    let old = MockCluster::new(1).unwrap();
    old.create_topic(&name, 1, 1).unwrap();
    let new = Proxy::start(server(&kafka_server).await).await.unwrap();
    new.set(Mode::Refuse);
    let tenant = Tenant::new("moved").await;
    let root = format!(
        "[delivery]\nmax_refusals = 1\n\
         [brokers.moved]\nkind = \"kafka\"\nconnect_timeout = \"2s\"\npublish_deadline = \"2s\"\n\
         params = {{ \"bootstrap.servers\" = \"{},{}\" }}\n\
         [[routes]]\ntopic = \"*\"\nbroker = \"moved\"\nto = {{ topic = \"{name}\" }}\n",
        old.bootstrap_servers(),
        new.address()
    );
    let relay = Relay::start(&root, &[&tenant]);
    tenant.insert_many("orders", 20, 3).await;
    tenant.drained().await;

    drop(old);
    tenant.insert_many("orders", 20, 3).await;
    let open = async || metric("outrider_breaker_open", &[("broker", "moved")]) > 0.0;
    until("it is gone", open).await;
    // Some may have been handed over before the client saw that nobody is there.
    let (_, refusals, dead, waiting) = spent(&tenant, "orders").await;
    assert_eq!((refusals, dead, waiting), (0, false, 20));
    new.set(Mode::Pass);
    until_within(RECOVERY, "what waited for it flows", async || tenant.unsent().await == 0).await;
    let mut consumer = kafka::Consumer::open(&kafka_server, &[&name]).await.unwrap();
    let arrived = consume::read(&mut consumer, 20, Instant::now() + Duration::from_secs(20)).await.unwrap();
    let seqs: BTreeSet<i64> = arrived.iter().map(|message| message.seq().unwrap()).collect();
    assert_eq!(seqs, (21..=40).collect());
    relay.stop(Duration::from_secs(5)).await;
    kafka::delete_topics(&kafka_server, &[&name]).await.unwrap();
}
