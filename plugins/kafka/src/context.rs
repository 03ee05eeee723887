//! What librdkafka calls back: delivery reports, errors and log lines; and what is known of a client's health.
//!
//! Runs on librdkafka's polling thread: must not block, wait or panic. A message's own report often says no
//! more than "timed out"; the reason why (a refused password, a name that does not resolve) comes through the
//! error callback alone, and is kept here until a broker takes a message again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use outrider_broker::{Cause, ErrorClass};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;
use tokio::sync::Notify;

use crate::batch::{Report, Ticket};
use crate::classify;
use crate::native;
use crate::params::Settings;

/// A weightier reason is kept this long against a lighter one (one broker of three refuses the password, the
/// others are down: people want to read of the password).
const REASON_LASTS: Duration = Duration::from_secs(60);

/// Why a client cannot reach its brokers at the moment.
#[derive(Clone, Debug)]
struct Trouble {
    cause: Cause,
    weight: u8,
    since: Instant,
    /// Whether people were told, and so want to hear when it is over.
    announced: bool,
}

/// The state of a connection, shared by its clients.
#[derive(Debug)]
pub(crate) struct Health {
    name: String,
    settings: Arc<Settings>,
    fatal: OnceLock<Cause>,
    closed: AtomicBool,
    /// Whether `trouble` holds something: saves its lock for each message.
    troubled: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

impl Health {
    pub(crate) fn new(name: String, settings: Arc<Settings>) -> Health {
        Health {
            name,
            settings,
            fatal: OnceLock::new(),
            closed: AtomicBool::new(false),
            troubled: AtomicBool::new(false),
            trouble: Mutex::new(None),
        }
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Why nothing more can be sent through this connection, if so.
    pub(crate) fn end(&self) -> Option<Cause> {
        if self.closed.load(Ordering::Acquire) {
            return Some(Cause::broker(ErrorClass::Local, "the connection was closed"));
        }
        self.fatal.get().cloned()
    }

    /// What keeps the client from its brokers: its end, or else the last trouble that nothing contradicted.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.end().or_else(|| self.lock().as_ref().map(|trouble| trouble.cause.clone()))
    }

    /// A trouble that waiting does not mend: refused credentials, a TLS handshake that fails.
    pub(crate) fn refusal(&self) -> Option<Cause> {
        let trouble = self.lock();
        trouble.as_ref().filter(|trouble| trouble.weight == DEFINITE).map(|trouble| trouble.cause.clone())
    }

    /// A broker answered.
    pub(crate) fn recovered(&self) {
        if self.troubled.load(Ordering::Relaxed)
            && self.troubled.swap(false, Ordering::Relaxed)
            && self.lock().take().is_some_and(|trouble| trouble.announced)
        {
            tracing::info!(client = self.name, "Kafka answers again");
        }
    }

    pub(crate) fn presentable(&self, text: &str) -> String {
        self.settings.presentable(text)
    }

    /// The client has ended for good.
    pub(crate) fn died(&self, reason: &str) {
        let reason = self.presentable(reason);
        let text = format!("the client cannot go on and is built anew: {reason}");
        if self.fatal.set(Cause::broker(ErrorClass::ClientFatal, text)).is_ok() {
            tracing::warn!(client = self.name, reason, "Kafka client has failed and is built anew");
        }
    }

    fn failed(&self, code: RDKafkaErrorCode, reason: &str) {
        let reason = self.presentable(reason);
        let mut trouble = self.lock();
        let class = classify::class(code);
        let text = match (class, trouble.as_ref()) {
            (ErrorClass::Authentication, _) => {
                format!("authentication failed, check the `sasl.*` parameters: {reason}")
            }
            // "3/3 brokers are down": what was last said of one of them tells more.
            (_, Some(old)) if code == RDKafkaErrorCode::AllBrokersDown => old.cause.text.clone(),
            _ => reason.clone(),
        };
        let weight = weight(code);
        if trouble.as_ref().is_some_and(|old| old.weight > weight && old.since.elapsed() < REASON_LASTS) {
            tracing::debug!(
                client = self.name,
                class = class.name(),
                reason,
                "Kafka client reports an error"
            );
            return;
        }
        // Once for each kind of trouble: the client repeats them for every broker and attempt.
        let known = trouble.as_ref().is_some_and(|old| old.announced && old.cause.class == class);
        if known || weight <= PASSING {
            tracing::debug!(
                client = self.name,
                class = class.name(),
                reason,
                "Kafka client reports an error"
            );
        } else {
            tracing::warn!(client = self.name, class = class.name(), reason = text, "Kafka is out of reach");
        }
        *trouble = Some(Trouble {
            cause: Cause::broker(class, text),
            weight,
            since: Instant::now(),
            announced: known || weight > PASSING,
        });
        self.troubled.store(true, Ordering::Relaxed);
    }

    /// A connection ended without an error that would be reported, which may be all there is to go by: a
    /// listener that expects another `security.protocol` just hangs up.
    fn disconnected(&self, line: &str) {
        let mut trouble = self.lock();
        if trouble.is_none() {
            let cause = Cause::broker(ErrorClass::Unreachable, line);
            *trouble = Some(Trouble { cause, weight: 0, since: Instant::now(), announced: false });
            self.troubled.store(true, Ordering::Relaxed);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Weight of a reason that nobody needs to be told at once: connections come and go.
const PASSING: u8 = 1;
/// Weight of a reason that waiting does not mend.
const DEFINITE: u8 = 3;

fn weight(code: RDKafkaErrorCode) -> u8 {
    match code {
        RDKafkaErrorCode::Authentication
        | RDKafkaErrorCode::SaslAuthenticationFailed
        | RDKafkaErrorCode::UnsupportedSASLMechanism
        | RDKafkaErrorCode::SSL => DEFINITE,
        RDKafkaErrorCode::BrokerTransportFailure
        | RDKafkaErrorCode::OperationTimedOut
        | RDKafkaErrorCode::MessageTimedOut => PASSING,
        _ => 2,
    }
}

/// The callbacks of one client.
#[derive(Debug)]
pub(crate) struct Context {
    health: Arc<Health>,
    /// Told of each report, for those that wait for a place in the client's queue.
    room: Arc<Notify>,
}

impl Context {
    pub(crate) fn new(health: Arc<Health>, room: Arc<Notify>) -> Context {
        Context { health, room }
    }
}

impl ProducerContext for Context {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Box<Ticket>) {
        let report = match result {
            Ok(message) => {
                self.health.recovered();
                Report::Stored { partition: message.partition(), offset: message.offset() }
            }
            Err((error, message)) => {
                let persistence = native::persistence(message);
                Report::Failed { code: classify::code(error), persistence }
            }
        };
        ticket.settle(report);
        self.room.notify_waiters();
    }
}

impl ClientContext for Context {
    fn error(&self, error: KafkaError, reason: &str) {
        self.health.failed(classify::code(&error), reason);
    }

    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        let line = self.health.presentable(line);
        let client = &self.health.name;
        match (level, facility) {
            // Also reported through `error`, where repetitions are left out.
            (_, "FAIL" | "ERROR" | "FATAL") => {
                tracing::debug!(target: "librdkafka", client, facility, "{line}");
                if facility == "FAIL" {
                    self.health.disconnected(line.split_once("]: ").map_or(&*line, |(_, line)| line));
                }
            }
            (
                RDKafkaLogLevel::Emerg
                | RDKafkaLogLevel::Alert
                | RDKafkaLogLevel::Critical
                | RDKafkaLogLevel::Error
                | RDKafkaLogLevel::Warning,
                _,
            ) => tracing::warn!(target: "librdkafka", client, facility, "{line}"),
            (RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info, _) => {
                tracing::info!(target: "librdkafka", client, facility, "{line}");
            }
            (RDKafkaLogLevel::Debug, _) => {
                tracing::debug!(target: "librdkafka", client, facility, "{line}");
            }
        }
    }
}
