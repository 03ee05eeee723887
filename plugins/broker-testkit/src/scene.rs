//! What checks share: a broker, a connection, publishing under the rules that hold for every batch, and
//! comparing what was sent with what was read.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use outrider_broker::{Broker, Cause, ConnectOptions, Connection, Message, Outcome};

use crate::failure::{Failure, ensure};
use crate::harness::{Harness, Received, To};
use crate::messages::{self, MARKER};

/// Time to connect and time for a batch. Longer than a healthy server on a busy machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How much later than its deadline a call may return. A busy machine schedules late; a plugin that waits for
/// something without a bound is later than this.
pub(crate) const SLACK: Duration = Duration::from_secs(2);

/// Time to read back.
const READ: Duration = Duration::from_secs(30);

pub(crate) struct Scene<'a> {
    pub(crate) harness: &'a dyn Harness,
}

/// A destination: the route's table and its completed form.
pub(crate) struct Place {
    pub(crate) to: To,
    pub(crate) full: BTreeMap<String, String>,
}

impl Place {
    pub(crate) fn message(&self, seq: i64, key: Option<&str>) -> Message {
        messages::message(&self.full, seq, key)
    }

    /// Messages of one key each, numbered from `first`.
    pub(crate) fn messages(&self, first: i64, count: i64) -> Vec<Message> {
        (first..first + count).map(|seq| self.message(seq, Some(&format!("key-{seq}")))).collect()
    }
}

impl<'a> Scene<'a> {
    pub(crate) fn new(harness: &'a dyn Harness) -> Self {
        Scene { harness }
    }

    pub(crate) fn broker(&self) -> Result<Arc<dyn Broker>, Failure> {
        self.broker_with(self.harness.params())
    }

    pub(crate) fn broker_with(&self, params: outrider_broker::Params) -> Result<Arc<dyn Broker>, Failure> {
        let parsed = self.harness.plugin().parse(&params);
        parsed.map_err(|faults| Failure::new(format!("working parameters were refused: {faults:?}")))
    }

    pub(crate) fn options(timeout: Duration) -> ConnectOptions {
        ConnectOptions { client_name: "outrider/testkit".to_owned(), timeout, publish_deadline: PATIENCE }
    }

    pub(crate) async fn connect(&self) -> Result<Arc<dyn Connection>, Failure> {
        connect(&*self.broker()?).await
    }

    /// A destination that nobody created yet.
    pub(crate) fn missing_place(&self) -> Result<Place, Failure> {
        let to = self.harness.new_destination();
        let full = self.broker()?.destination(&to);
        let full =
            full.map_err(|faults| Failure::new(format!("a good destination was refused: {faults:?}")))?;
        Ok(Place { to, full })
    }

    pub(crate) async fn place(&self) -> Result<Place, Failure> {
        let place = self.missing_place()?;
        self.harness.create(&place.to).await;
        Ok(place)
    }

    /// Compares what is in `place` with what was confirmed there: nothing missing, nothing else, bytes and
    /// headers as sent, order within each key (of first copies). `copies` is how often each message may be there.
    pub(crate) async fn compare(
        &self,
        place: &Place,
        sent: &[Message],
        copies: RangeInclusive<usize>,
    ) -> Result<(), Failure> {
        if !self.harness.features().read {
            return Ok(());
        }
        let received = self.harness.read(&place.to, sent.len() * copies.start(), Instant::now() + READ).await;
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut last: HashMap<&str, i64> = HashMap::new();
        let by_id: HashMap<String, &Message> =
            sent.iter().map(|message| (message.id.to_string(), message)).collect();
        for one in &received {
            let id = one.header("ce_id").or(one.id.as_deref());
            let id =
                id.ok_or_else(|| Failure::new("a message was read that has no `ce_id` header and no id"))?;
            let Some(message) = by_id.get(id) else {
                return Err(Failure::new(format!("message `{id}` was read and must not be there")));
            };
            self.same(message, one).map_err(|failure| {
                Failure::new(format!("message {} is not as it was sent: {failure}", message.seq))
            })?;
            let count = seen.entry(id).or_default();
            *count += 1;
            if let Some(key) = &message.key
                && *count == 1
                && let Some(before) = last.insert(key, message.seq)
            {
                ensure!(
                    before < message.seq,
                    "message {} came after {before}, its key's later one",
                    message.seq
                );
            }
        }
        for message in sent {
            let count = seen.get(message.id.to_string().as_str()).copied().unwrap_or(0);
            ensure!(
                copies.contains(&count),
                "message {} was read {count} times instead of {copies:?} ({} messages read in all)",
                message.seq,
                received.len()
            );
        }
        Ok(())
    }

    fn same(&self, sent: &Message, received: &Received) -> Result<(), Failure> {
        let features = self.harness.features();
        ensure!(
            sent.payload == received.payload,
            "payload of {} bytes instead of {}, or with other bytes",
            received.payload.len(),
            sent.payload.len()
        );
        for (name, value) in &sent.headers {
            let found: Vec<&str> = received
                .headers
                .iter()
                .filter(|(known, _)| **known == **name)
                .map(|(_, value)| value.as_str())
                .collect();
            ensure!(found == [value.as_str()], "header `{name}` is there {} times or changed", found.len());
        }
        if features.header_order {
            let ours = |name: &str| sent.headers.iter().any(|(known, _)| **known == *name);
            let order: Vec<&str> =
                received.headers.iter().map(|(name, _)| name.as_str()).filter(|name| ours(name)).collect();
            ensure!(sent.headers.iter().map(|(name, _)| &**name).eq(order), "headers are in another order");
        }
        let id = sent.id.to_string();
        let fields = [
            ("id", features.id, Some(id.as_str()), &received.id),
            ("key", features.key, sent.key.as_deref(), &received.key),
            ("type", features.kind, Some(&*sent.kind), &received.kind),
            ("content type", features.content_type, Some(&*sent.content_type), &received.content_type),
        ];
        for (name, asked, sent, received) in fields {
            ensure!(!asked || sent == received.as_deref(), "{name} {received:?} instead of {sent:?}");
        }
        Ok(())
    }
}

pub(crate) async fn connect(broker: &dyn Broker) -> Result<Arc<dyn Connection>, Failure> {
    let connected = broker.connect(Scene::options(PATIENCE)).await;
    connected.map_err(|error| Failure::new(format!("no connection with working parameters: {error}")))
}

/// Publishes and checks what holds for every batch: one outcome each, in time, texts fit to be stored.
pub(crate) async fn publish(
    connection: &dyn Connection,
    batch: &[Message],
    deadline: Instant,
) -> Result<Vec<Outcome>, Failure> {
    let latest = deadline.max(Instant::now()) + SLACK;
    let outcomes = tokio::time::timeout_at(latest.into(), connection.publish(batch.to_vec(), deadline)).await;
    let Ok(outcomes) = outcomes else {
        return Err(Failure::new(format!("publish had not returned {SLACK:?} after its deadline")));
    };
    ensure!(outcomes.len() == batch.len(), "{} outcomes for {} messages", outcomes.len(), batch.len());
    for outcome in &outcomes {
        if let Some(cause) = outcome.cause() {
            presentable(cause)?;
        }
    }
    Ok(outcomes)
}

/// Publishes with time enough.
pub(crate) async fn publish_now(
    connection: &dyn Connection,
    batch: &[Message],
) -> Result<Vec<Outcome>, Failure> {
    publish(connection, batch, Instant::now() + PATIENCE).await
}

/// Publishes as outrider does: what was not confirmed and is not to blame is sent again, for a while.
pub(crate) async fn confirm_all(connection: &dyn Connection, batch: &[Message]) -> Result<(), Failure> {
    let until = Instant::now() + 2 * PATIENCE;
    let mut left = batch.to_vec();
    loop {
        let outcomes = publish_now(connection, &left).await?;
        let mut again = Vec::new();
        for (mut message, outcome) in left.into_iter().zip(&outcomes) {
            match outcome {
                Outcome::Confirmed(_) => {}
                Outcome::Refused(refusal) => {
                    return Err(Failure::new(format!(
                        "good message {} was refused: {}",
                        message.seq, refusal.cause
                    )));
                }
                Outcome::Retry(_) | Outcome::Unknown(_) | Outcome::NotSent(_) => {
                    message.redelivery |= matches!(outcome, Outcome::Unknown(_));
                    again.push(message);
                }
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        let cause = outcomes.iter().find_map(Outcome::cause).map_or_else(String::new, Cause::to_string);
        ensure!(connection.alive(), "{} good messages failed and the connection ended: {cause}", again.len());
        ensure!(Instant::now() < until, "{} good messages did not get through: {cause}", again.len());
        left = again;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A text is for people and is stored: one line, not empty, of bounded length, without anything secret.
pub(crate) fn presentable(cause: &Cause) -> Result<(), Failure> {
    let text = &cause.text;
    ensure!(
        !text.contains(MARKER),
        "a secret or a header's value is in a text of class `{}`",
        cause.class.name()
    );
    ensure!(!text.trim().is_empty(), "a text of class `{}` is empty", cause.class.name());
    ensure!(!text.contains(['\n', '\r']), "a text has several lines: {text:?}");
    ensure!(text.len() <= 1000, "a text is {} bytes long", text.len());
    Ok(())
}
