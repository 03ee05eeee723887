//! The memory plugin keeps the contract, and the suite notices when a plugin does not.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use outrider_broker::{
    Broker, Cause, ConnectError, ConnectOptions, Connection, ErrorClass, Facts, Fault, Message, Outcome,
    Params, Plugin, Receipt, async_trait,
};
use outrider_broker_testkit::{Features, Harness, MARKER, Received, Spoil, To, exercise, exercise_only};
use outrider_memory::{Memory, Store};
use serde_json::json;

static NAMES: AtomicUsize = AtomicUsize::new(0);

const LIMIT: usize = 100_000;

struct MemoryHarness<P> {
    plugin: P,
    store: String,
}

impl<P> MemoryHarness<P> {
    fn new(plugin: P) -> Self {
        MemoryHarness { plugin, store: unique("conformance") }
    }
}

fn unique(prefix: &str) -> String {
    format!("{prefix}-{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

#[async_trait]
impl<P: Plugin> Harness for MemoryHarness<P> {
    fn plugin(&self) -> &dyn Plugin {
        &self.plugin
    }

    fn features(&self) -> Features {
        Features { removes_duplicates: false, missing_destination: false, ..Features::ALL }
    }

    fn params(&self) -> Params {
        let params = json!({
            "store": self.store,
            "keep": true,
            "capacity": 10_000,
            "latency": "2ms",
            "max_message_bytes": LIMIT,
        });
        params.as_object().expect("a table").clone()
    }

    fn new_destination(&self) -> To {
        To::from([("name".to_owned(), unique("place"))])
    }

    async fn create(&self, _: &To) {}

    async fn read(&self, to: &To, count: usize, deadline: Instant) -> Vec<Received> {
        let store = Store::named(&self.store);
        let here = |store: &Store| -> Vec<Message> {
            store.messages().into_iter().filter(|message| *message.destination == *to).collect()
        };
        // What was confirmed is in the store already: waiting the whole time for what is lost helps nobody.
        let deadline = deadline.min(Instant::now() + Duration::from_millis(500));
        store.wait_until(deadline, |store| here(store).len() >= count).await;
        let received = |message: Message| Received {
            id: Some(message.id.to_string()),
            key: message.key.as_deref().map(str::to_owned),
            kind: Some(message.kind.to_string()),
            content_type: Some(message.content_type.to_string()),
            headers: message.headers.iter().map(|(name, value)| (name.to_string(), value.clone())).collect(),
            payload: message.payload,
        };
        here(&store).into_iter().map(received).collect()
    }

    fn size_limit(&self) -> Option<usize> {
        Some(LIMIT)
    }

    fn invalid(&self) -> Vec<(&'static str, Spoil)> {
        vec![("empty name", |message| {
            message.destination = Arc::new(BTreeMap::from([("name".to_owned(), String::new())]));
        })]
    }
}

#[tokio::test]
async fn keeps_the_contract() {
    exercise(&MemoryHarness::new(Memory)).await;
}

/// What a plugin could do wrong, done on purpose around the real one.
#[derive(Clone, Copy, Debug)]
enum Sabotage {
    AcceptsAnyParameter,
    ChangesDestination,
    LosesOne,
    SendsTwice,
    SwapsOutcomes,
    DropsAnOutcome,
    Reverses,
    CutsPayload,
    DropsHeader,
    NewIdEachTime,
    SendsAfterDeadline,
    IgnoresClose,
    HangsInPublish,
    RefusesNeighbours,
    ShowsHeaderValue,
    ConfirmsOversized,
}

#[derive(Debug)]
struct Saboteur(Sabotage);

#[derive(Debug)]
struct SabotagedBroker(Sabotage, Arc<dyn Broker>);

struct SabotagedConnection(Sabotage, Arc<dyn Connection>);

impl Plugin for Saboteur {
    fn kind(&self) -> &'static str {
        "saboteur"
    }

    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        let mut params = params.clone();
        if matches!(self.0, Sabotage::AcceptsAnyParameter) {
            params.retain(|key, value| key == "store" && value.is_string());
        }
        Ok(Arc::new(SabotagedBroker(self.0, Memory.parse(&params)?)))
    }
}

#[async_trait]
impl Broker for SabotagedBroker {
    fn destination(&self, to: &To) -> Result<To, Vec<Fault>> {
        let mut full = self.1.destination(to)?;
        if matches!(self.0, Sabotage::ChangesDestination) {
            full.insert("name".to_owned(), "elsewhere".to_owned());
        }
        Ok(full)
    }

    fn facts(&self) -> Facts {
        self.1.facts()
    }

    async fn connect(&self, options: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        Ok(Arc::new(SabotagedConnection(self.0, self.1.connect(options).await?)))
    }
}

#[async_trait]
impl Connection for SabotagedConnection {
    async fn publish(&self, mut batch: Vec<Message>, mut deadline: Instant) -> Vec<Outcome> {
        let confirmed = Outcome::Confirmed(Receipt::default());
        match self.0 {
            Sabotage::LosesOne if batch.len() > 1 => {
                batch.remove(1);
                let mut outcomes = self.1.publish(batch, deadline).await;
                outcomes.insert(1, confirmed);
                return outcomes;
            }
            Sabotage::SendsTwice => {
                self.1.publish(batch.clone(), deadline).await;
            }
            Sabotage::SwapsOutcomes => {
                let mut outcomes = self.1.publish(batch, deadline).await;
                outcomes.rotate_left(1);
                return outcomes;
            }
            Sabotage::DropsAnOutcome => {
                let mut outcomes = self.1.publish(batch, deadline).await;
                outcomes.pop();
                return outcomes;
            }
            Sabotage::Reverses => {
                batch.reverse();
                let mut outcomes = self.1.publish(batch, deadline).await;
                outcomes.reverse();
                return outcomes;
            }
            Sabotage::CutsPayload => batch.iter_mut().for_each(|message| {
                message.payload.truncate(200);
            }),
            Sabotage::DropsHeader => batch.iter_mut().for_each(|message| {
                message.headers.retain(|(_, value)| !value.is_empty());
            }),
            Sabotage::NewIdEachTime => {
                batch.iter_mut().filter(|message| message.redelivery).for_each(|message| {
                    message.id = uuid::Uuid::now_v7();
                })
            }
            Sabotage::SendsAfterDeadline => deadline += Duration::from_secs(10),
            Sabotage::HangsInPublish => std::future::pending().await,
            Sabotage::RefusesNeighbours => {
                let outcomes = self.1.publish(batch, deadline).await;
                let refused = outcomes.iter().find(|outcome| matches!(outcome, Outcome::Refused(_))).cloned();
                return refused.map_or(outcomes.clone(), |refused| vec![refused; outcomes.len()]);
            }
            Sabotage::ShowsHeaderValue => {
                let mut outcomes = self.1.publish(batch, deadline).await;
                for outcome in &mut outcomes {
                    if let Outcome::NotSent(cause) = outcome {
                        *cause = Cause::broker(ErrorClass::Other, format!("could not send `{MARKER}`"));
                    }
                }
                return outcomes;
            }
            Sabotage::ConfirmsOversized => {
                let outcomes = self.1.publish(batch, deadline).await;
                let forgive = |outcome| match outcome {
                    Outcome::Refused(_) => Outcome::Confirmed(Receipt::default()),
                    outcome => outcome,
                };
                return outcomes.into_iter().map(forgive).collect();
            }
            _ => {}
        }
        self.1.publish(batch, deadline).await
    }

    async fn probe(&self, deadline: Instant) -> Result<(), Cause> {
        self.1.probe(deadline).await
    }

    fn alive(&self) -> bool {
        self.1.alive()
    }

    async fn close(&self, deadline: Instant) {
        if !matches!(self.0, Sabotage::IgnoresClose) {
            self.1.close(deadline).await;
        }
    }
}

/// Each check fails for the fault that it is there for.
#[tokio::test]
async fn the_suite_notices() {
    for (sabotage, check) in [
        (Sabotage::AcceptsAnyParameter, "parse"),
        (Sabotage::ChangesDestination, "destination"),
        (Sabotage::LosesOne, "batch"),
        (Sabotage::SendsTwice, "batch"),
        (Sabotage::Reverses, "batch"),
        (Sabotage::CutsPayload, "batch"),
        (Sabotage::DropsHeader, "batch"),
        (Sabotage::DropsAnOutcome, "batch"),
        (Sabotage::Reverses, "concurrent"),
        (Sabotage::LosesOne, "concurrent"),
        (Sabotage::SwapsOutcomes, "oversized"),
        (Sabotage::RefusesNeighbours, "oversized"),
        (Sabotage::ConfirmsOversized, "oversized"),
        (Sabotage::ConfirmsOversized, "invalid"),
        (Sabotage::RefusesNeighbours, "invalid"),
        (Sabotage::NewIdEachTime, "duplicate"),
        (Sabotage::SendsAfterDeadline, "expired_deadline"),
        (Sabotage::ShowsHeaderValue, "expired_deadline"),
        (Sabotage::HangsInPublish, "expired_deadline"),
        (Sabotage::IgnoresClose, "close"),
    ] {
        let harness = MemoryHarness::new(Saboteur(sabotage));
        let result = AssertUnwindSafe(exercise_only(&harness, &[check])).catch_unwind().await;
        assert!(result.is_err(), "check `{check}` did not notice {sabotage:?}");
    }
}

/// Without a server there is nothing at an address; the suite leaves those checks out.
#[test]
fn has_no_server() {
    assert!(MemoryHarness::new(Memory).params_at(SocketAddr::from(([127, 0, 0, 1], 1))).is_none());
}
