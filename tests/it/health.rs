//! `/healthz` names who makes no progress while it has work, and nobody else: a broker or a database that is down or slow
//! is no reason.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outrider::api;
use outrider::telemetry::metrics;
use outrider_broker::{Outcome, Receipt};
use outrider_memory::Behaviour;
use outrider_test_support::proxy::Mode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::recorder::{self, Gate};
use crate::relay::{MemoryBroker, Relay, Tenant, proxied, until, until_within};
use crate::script::{Script, Scripted};

const STOP: Duration = Duration::from_secs(10);

/// Longest that a child may be silent, and what a loaded machine adds.
const NOTICED: Duration = Duration::from_secs(60);

const SCRIPTED: &str = "[brokers.hub]\nkind = \"script\"\npublish_deadline = \"1s\"\nconnect_timeout = \"1s\"\n\
                        [[routes]]\ntopic = \"*\"\nbroker = \"hub\"\n";

/// The admin port of a relay.
struct Admin(std::net::SocketAddr);

impl Admin {
    async fn of(relay: &Relay) -> Self {
        let listener = api::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(api::serve(listener, relay.board.clone(), recorder::handle()));
        Admin(address)
    }

    /// Status and text of `/healthz`.
    async fn health(&self) -> (u16, String) {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Waits until it answers so, and names nobody else.
    async fn says(&self, status: u16, who: &str) {
        let what = format!("/healthz answers {status} and names {who:?}");
        until_within(NOTICED, &what, async || {
            let (found, text) = self.health().await;
            (found, text.lines().count()) == (status, 1) && text.contains(who)
        })
        .await;
    }
}

fn shut() -> Arc<Gate> {
    let gate = Arc::new(Gate::default());
    gate.shut();
    gate
}

#[tokio::test]
async fn a_link_that_sticks_is_named_until_it_goes_on() {
    let (tenant, gate) = (Tenant::new("acme").await, shut());
    let asked = gate.clone();
    let script = Scripted::new(Script {
        alive: Box::new(move || {
            asked.pass();
            true
        }),
        ..Script::default()
    });
    let relay = Relay::with_brokers(&script.registry(), "stuck-link", SCRIPTED, &[&tenant]);
    let admin = Admin::of(&relay).await;
    admin.says(503, "the link to `hub` has not acted for ").await;
    gate.open();
    admin.says(200, "ok").await;
    relay.stop(STOP).await;
}

#[tokio::test]
async fn a_plugin_that_keeps_its_thread_past_the_deadline_is_named_until_it_lets_go() {
    let (tenant, gate) = (Tenant::new("acme").await, shut());
    let asked = gate.clone();
    let script = Scripted::new(Script {
        answer: Box::new(move |_| {
            asked.pass();
            Outcome::Confirmed(Receipt::default())
        }),
        ..Script::default()
    });
    let tenant = tenant.with("delivery = { backoff = { base = \"1h\", max = \"1h\" } }\n");
    let seq = tenant.insert("orders", None, b"x").await;
    let relay = Relay::with_brokers(&script.registry(), "stuck-publish", SCRIPTED, &[&tenant]);
    let admin = Admin::of(&relay).await;
    admin.says(503, "the plugin of `hub`, in a publish past its deadline, has not acted for ").await;
    assert_eq!(tenant.event(seq).await.0, "backing off", "the claimer goes on meanwhile");
    gate.open();
    admin.says(200, "ok").await;
    relay.stop(STOP).await;
}

#[tokio::test]
async fn a_claimer_that_sticks_is_named_until_it_goes_on() {
    let tenant = Tenant::new("stuck-claimer").await;
    tenant.insert_many("orders", 5, 0).await;
    let gate = recorder::gate(metrics::EVENTS_CLAIMED, "stuck-claimer");
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    let admin = Admin::of(&relay).await;
    admin.says(503, "the claimer of `stuck-claimer` in lane 0 has not acted for ").await;
    gate.open();
    admin.says(200, "ok").await;
    tenant.drained().await;
    relay.stop(STOP).await;
}

#[tokio::test]
async fn a_janitor_that_sticks_is_named_until_it_goes_on() {
    let tenant = Tenant::new("stuck-janitor").await;
    let gate = recorder::gate(metrics::TENANT_MEASURED, "stuck-janitor");
    let broker = MemoryBroker::new("hub", "", "");
    let relay = Relay::start(&broker.root(""), &[&tenant]);
    let admin = Admin::of(&relay).await;
    admin.says(503, "the janitor has not acted for ").await;
    tenant.insert_many("orders", 5, 0).await;
    tenant.drained().await;
    gate.open();
    admin.says(200, "ok").await;
    relay.stop(STOP).await;
}

// For longer than any child may be silent.
#[tokio::test]
async fn neither_a_database_nor_a_broker_that_does_not_answer_is_a_reason() {
    const LONG: Duration = Duration::from_secs(40);
    let (deaf, mute) = (Tenant::new("deaf").await, Tenant::new("mute").await);
    let (database, url) = proxied(&deaf.database.url()).await;
    let deaf = deaf.at(&url);
    let broker = MemoryBroker::new("hub", "publish_deadline = \"2s\"", "");
    broker.store.tell(|_| true, Behaviour::Stall);
    mute.insert_many("orders", 20, 2).await;
    let relay = Relay::start(&broker.root("lease = \"5s\""), &[&deaf, &mute]);
    let admin = Admin::of(&relay).await;
    until("both are there", async || deaf.owner().await.is_some() && mute.owner().await.is_some()).await;
    database.set(Mode::BlackHole);
    let end = Instant::now() + LONG;
    until_within(2 * LONG, "it stayed healthy for long", async || {
        assert_eq!(admin.health().await, (200, "ok\n".to_owned()));
        Instant::now() > end
    })
    .await;
    relay.stop(STOP).await;
}
