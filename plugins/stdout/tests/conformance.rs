//! The stdout plugin keeps the contract, and an output that nobody reads stops nobody.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrider_broker::{ConnectOptions, Connection, Message, Outcome, Params, Plugin, async_trait};
use outrider_broker_testkit::{Features, Harness, Received, To, exercise};
use outrider_stdout::Stdout;
use serde_json::Value;
use uuid::Uuid;

/// What was printed so far.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Printed {
    fn lines(&self) -> Vec<Value> {
        let bytes = self.0.lock().expect("no panic while printing");
        let text = std::str::from_utf8(&bytes).expect("JSON is UTF-8");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic while printing").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct StdoutHarness {
    plugin: Stdout,
    printed: Printed,
    names: AtomicUsize,
}

impl StdoutHarness {
    fn new() -> Self {
        let printed = Printed::default();
        let output = printed.clone();
        let plugin = Stdout::writing_to(move || Box::new(output.clone()));
        StdoutHarness { plugin, printed, names: AtomicUsize::new(0) }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn received(line: &Value) -> Received {
    let headers = line["headers"].as_object().expect("headers are an object");
    let payload = match &line["payload"] {
        Value::String(payload) => payload.clone().into_bytes(),
        _ => STANDARD.decode(line["payload_base64"].as_str().expect("one of the two")).expect("base64"),
    };
    Received {
        id: text(&line["id"]),
        key: text(&line["key"]),
        kind: text(&line["type"]),
        content_type: text(&line["content_type"]),
        headers: headers
            .iter()
            .map(|(name, value)| (name.clone(), text(value).expect("a header is text")))
            .collect(),
        payload: payload.into(),
    }
}

#[async_trait]
impl Harness for StdoutHarness {
    fn plugin(&self) -> &dyn Plugin {
        &self.plugin
    }

    fn features(&self) -> Features {
        // serde_json's objects are sorted, so the order can't be seen in here.
        Features {
            removes_duplicates: false,
            missing_destination: false,
            header_order: false,
            ..Features::ALL
        }
    }

    fn params(&self) -> Params {
        Params::new()
    }

    fn new_destination(&self) -> To {
        To::from([("name".to_owned(), format!("place-{}", self.names.fetch_add(1, Ordering::Relaxed)))])
    }

    async fn create(&self, _: &To) {}

    async fn read(&self, to: &To, _: usize, _: Instant) -> Vec<Received> {
        // A confirm means that the line is out, so there is nothing to wait for.
        let lines = self.printed.lines();
        lines.iter().filter(|line| line["destination"]["name"] == to["name"].as_str()).map(received).collect()
    }
}

#[tokio::test]
async fn keeps_the_contract() {
    exercise(&StdoutHarness::new()).await;
}

const SOON: Duration = Duration::from_secs(10);

async fn connect(plugin: &Stdout) -> Arc<dyn Connection> {
    let broker = plugin.parse(&Params::new()).expect("no parameters are needed");
    let options = ConnectOptions { client_name: "test".to_owned(), timeout: SOON, publish_deadline: SOON };
    broker.connect(options).await.expect("there is always an output")
}

fn message(seq: i64) -> Message {
    Message {
        id: Uuid::now_v7(),
        seq,
        destination: Arc::new(BTreeMap::from([("name".to_owned(), "place".to_owned())])),
        key: None,
        kind: "kind".into(),
        content_type: "text/plain".into(),
        occurred_at: SystemTime::now(),
        headers: Vec::new(),
        payload: "payload".into(),
        redelivery: false,
    }
}

/// Blocks in its first write until it is told to go on.
struct Clogged {
    unclog: mpsc::Receiver<()>,
    printed: Printed,
}

impl Write for Clogged {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.unclog.recv(); // an error, once the other end is gone: unclogged for good
        self.printed.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// On a runtime of one thread, which a blocking write would stop.
#[tokio::test]
async fn an_output_that_blocks_stops_nobody() {
    let (go_on, unclog) = mpsc::channel();
    let printed = Printed::default();
    let clogged = Mutex::new(Some(Clogged { unclog, printed: printed.clone() }));
    let plugin = Stdout::writing_to(move || Box::new(clogged.lock().expect("once").take().expect("once")));
    let connection = connect(&plugin).await;

    let soon = || Instant::now() + Duration::from_millis(200);
    let first = connection.publish(vec![message(1)], soon()).await;
    assert!(matches!(first[0], Outcome::Unknown(_)), "writing has begun: {first:?}");
    let (second, third) = tokio::join!(
        connection.publish(vec![message(2)], soon()),
        connection.publish(vec![message(3)], soon())
    );
    assert!(matches!(second[0], Outcome::NotSent(_)), "it was only queued: {second:?}");
    assert!(matches!(third[0], Outcome::NotSent(_)), "it was not even queued: {third:?}");
    assert!(connection.probe(soon()).await.is_err());

    drop(go_on);
    assert_eq!(connection.probe(Instant::now() + SOON).await, Ok(()));
    let fourth = connection.publish(vec![message(4)], Instant::now() + SOON).await;
    assert!(matches!(fourth[0], Outcome::Confirmed(_)), "{fourth:?}");
    let seqs: Vec<_> = printed.lines().iter().map(|line| line["seq"].as_i64()).collect();
    assert_eq!(seqs, [Some(1), Some(4)], "what was reported as not sent never leaves");
}

/// A reader that went away, as with `outrider run | head`.
struct Broken;

impl Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_broken_pipe_ends_the_connection() {
    let connection = connect(&Stdout::writing_to(|| Box::new(Broken))).await;
    let outcomes = connection.publish(vec![message(1)], Instant::now() + SOON).await;
    assert!(matches!(outcomes[0], Outcome::Unknown(_)), "{outcomes:?}");
    assert!(!connection.alive());
}
