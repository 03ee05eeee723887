//! The `params` table of a Kafka section: librdkafka's own names, checked here without any I/O.
//!
//! Each name and value is put to librdkafka's own configuration object, which knows its names, ranges and
//! words; on top of that come what outrider decides itself (see [`RESERVED`]) and what only makes sense
//! together. Must not: connect, read a file, or put a value into a fault.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use outrider_broker::{ConnectOptions, Fault, Params};
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;
use serde_json::Value;

use crate::names::{self, ALIASES, NUMERIC, PARTITIONERS, SASL_MECHANISMS};

/// Values for what the section leaves out, where librdkafka's own default would be wrong or might change.
const DEFAULTS: &[(&str, &str)] = &[
    // The hash of Java's producer, so that a key has one partition whoever writes it.
    ("partitioner", "murmur2_random"),
    ("message.max.bytes", "1000000"),
    // Events come in groups, so there is little to wait for; of one key one at a time, so each wait is a key's.
    ("linger.ms", "1"),
    ("queue.buffering.max.messages", "100000"),
    ("queue.buffering.max.kbytes", "1048576"),
    ("socket.keepalive.enable", "true"),
    ("socket.connection.setup.timeout.ms", "10000"),
];

/// Longest pause between two attempts to reach a broker that is down: at librdkafka's own 10 s, an outage
/// would last up to 10 s longer here than it does. Left at 10 s with SASL, where each attempt with a wrong
/// password counts towards the account's lock.
const RECONNECT_BACKOFF_MAX_MS: &str = "2000";

/// Longest `linger.ms`. Longer only delays: outrider waits for a batch as a whole.
const LINGER_MAX_MS: f64 = 1000.0;

/// Longest text from librdkafka that is stored or shown, in bytes.
const TEXT_MAX: usize = 600;

/// Shortest secret that is looked for in texts: a shorter one is part of many words.
const SECRET_MIN: usize = 4;

/// What a producer is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Everything.
    Publish,
    /// One record a request, so that a refusal is about that record and no other.
    Isolate,
}

/// Checked parameters.
pub(crate) struct Settings {
    entries: BTreeMap<String, String>,
    /// Largest record in bytes, framing included (`message.max.bytes`).
    pub(crate) message_max_bytes: usize,
    /// Most messages in the client's queue (`queue.buffering.max.messages`); `None` is no limit.
    pub(crate) queue_messages: Option<usize>,
    /// Most bytes of payload in the client's queue (`queue.buffering.max.kbytes`).
    pub(crate) queue_bytes: usize,
}

impl Settings {
    /// Checks everything and returns every fault.
    pub(crate) fn parse(params: &Params) -> Result<Settings, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut entries = BTreeMap::new();
        for (name, value) in params {
            match entry(name, value) {
                Ok(value) => drop(entries.insert(name.clone(), value)),
                Err(rule) => faults.push(Fault::new(name, rule)),
            }
        }
        // A name whose value is bad is given all the same, so it is not missing as well.
        let given = |name: &str| params.contains_key(name);
        for &(name, alias) in ALIASES {
            if given(name) && given(alias) {
                faults.push(Fault::new(alias, format!("means the same as `{name}`: give one of them")));
            }
        }
        if !given("bootstrap.servers") {
            faults.push(Fault::new("bootstrap.servers", "is required: `host:port`, several with commas"));
        }
        faults.extend(security(&entries, given));
        let given_as_alias = |name| ALIASES.iter().any(|&(known, alias)| known == name && given(alias));
        for &(name, value) in DEFAULTS {
            if !given(name) && !given_as_alias(name) {
                entries.insert(name.to_owned(), value.to_owned());
            }
        }
        if !given("reconnect.backoff.max.ms") && !given("reconnect.backoff.ms") && !uses_sasl(&entries) {
            entries.insert("reconnect.backoff.max.ms".to_owned(), RECONNECT_BACKOFF_MAX_MS.to_owned());
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let number = |name: &str| entries.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
        let (message_max_bytes, messages) =
            (number("message.max.bytes"), number("queue.buffering.max.messages"));
        let kbytes = number("queue.buffering.max.kbytes");
        Ok(Settings {
            message_max_bytes,
            queue_messages: (messages > 0).then_some(messages),
            queue_bytes: kbytes.saturating_mul(1024),
            entries,
        })
    }

    /// The configuration of a producer.
    pub(crate) fn client_config(&self, options: &ConnectOptions, purpose: Purpose) -> ClientConfig {
        let timeout = message_timeout(options.publish_deadline);
        let mut config = ClientConfig::new();
        // Asked for a missing topic, a broker may not have heard of it yet. Longer than this is waste: the
        // event is tried again anyway, and meanwhile holds a permit.
        let propagation = (timeout / 4).min(Duration::from_secs(1));
        config.set("topic.metadata.propagation.max.ms", propagation.as_millis().to_string());
        config.extend(self.entries.clone());
        config
            .set("client.id", &options.client_name)
            .set("enable.idempotence", "true")
            .set("acks", "all")
            .set("message.timeout.ms", timeout.as_millis().to_string());
        if purpose == Purpose::Isolate {
            config.remove("queue.buffering.max.ms").set("linger.ms", "0").set("batch.num.messages", "1");
        }
        let debugging = self.entries.contains_key("debug");
        config.set_log_level(if debugging { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
        config
    }

    /// Makes a text of librdkafka fit to be logged and stored: one line, bounded, without a secret.
    pub(crate) fn presentable(&self, text: &str) -> String {
        let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for (name, value) in &self.entries {
            if names::is_secret(name) && value.len() >= SECRET_MIN {
                text = text.replace(value.as_str(), "***");
            }
        }
        text.truncate(text.floor_char_boundary(TEXT_MAX));
        text
    }
}

/// Names only: values may be secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.entries.keys()).finish()
    }
}

/// How long librdkafka itself may hold a message, counted from its hand-over.
///
/// It looks for overdue messages once a second, so that it may still send one for a second after this has
/// passed. With 1.5 s less than the deadline its own verdict comes first, and no copy leaves afterwards. Of a
/// short deadline it gets half; what is then left over is taken back when the deadline comes.
pub(crate) fn message_timeout(publish_deadline: Duration) -> Duration {
    let timeout = publish_deadline.saturating_sub(Duration::from_millis(1500)).max(publish_deadline / 2);
    timeout.clamp(Duration::from_millis(10), Duration::from_secs(24 * 3600))
}

/// Checks one parameter by itself; the rule it breaks, or its value as librdkafka takes it.
fn entry(name: &str, value: &Value) -> Result<String, String> {
    if let Some(rule) = names::reserved(name) {
        return Err(rule.to_owned());
    }
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            return Err("must be a text, a number, or true or false".to_owned());
        }
    };
    if let Err(error) = ClientConfig::new().set(name, &value).create_native_config() {
        return Err(rule(name, &error));
    }
    // librdkafka reads `5 seconds` as 5.
    let number: Option<f64> = value.trim().parse().ok();
    if NUMERIC.iter().any(|ending| name.ends_with(ending)) && number.is_none() {
        return Err("must be a number".to_owned());
    }
    match name {
        "bootstrap.servers" => servers(&value)?,
        "linger.ms" | "queue.buffering.max.ms" if number.is_some_and(|ms| ms > LINGER_MAX_MS) => {
            return Err(format!("must be at most {LINGER_MAX_MS} (milliseconds)"));
        }
        "partitioner" if !PARTITIONERS.contains(&value.as_str()) => {
            return Err(format!("must be one of {}", PARTITIONERS.join(", ")));
        }
        "sasl.mechanism" | "sasl.mechanisms" if !SASL_MECHANISMS.contains(&value.as_str()) => {
            return Err(format!("must be one of {}", SASL_MECHANISMS.join(", ")));
        }
        _ => {}
    }
    Ok(value)
}

/// What librdkafka's complaint means, without the value that it may quote.
fn rule(name: &str, error: &KafkaError) -> String {
    let KafkaError::ClientConfig(kind, complaint, ..) = error else {
        return "must not hold a NUL character".to_owned();
    };
    if *kind == RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN {
        return "is not a parameter of librdkafka: its CONFIGURATION.md lists them".to_owned();
    }
    if let Some((_, range)) = complaint.split_once("outside allowed range ") {
        return format!("must be within {}", range.trim());
    }
    if complaint.contains("Expected bool value") {
        return "must be true or false".to_owned();
    }
    match names::words(name) {
        Some(words) => format!("must be one of {words}"),
        None => "is not a value that librdkafka takes: its CONFIGURATION.md has the values".to_owned(),
    }
}

fn servers(list: &str) -> Result<(), String> {
    let well_formed = |server: &str| {
        let address = server.split_once("://").map_or(server, |(_, address)| address);
        let port = address.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        !address.is_empty()
            && !address.contains(char::is_whitespace)
            && port.is_none_or(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port != 0)
            })
    };
    if list.split(',').map(str::trim).all(well_formed) {
        Ok(())
    } else {
        Err("must be `host:port`, several with commas between".to_owned())
    }
}

/// `sasl.*` and `ssl.*` against `security.protocol`: nothing missing, nothing without effect.
fn security(entries: &BTreeMap<String, String>, given: impl Fn(&str) -> bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    let sasl = uses_sasl(entries);
    let tls = protocol(entries).ends_with("ssl");
    if sasl {
        if !given("sasl.mechanism") && !given("sasl.mechanisms") {
            let rule = format!("is required with a SASL protocol: one of {}", SASL_MECHANISMS.join(", "));
            faults.push(Fault::new("sasl.mechanism", rule));
        }
        for name in ["sasl.username", "sasl.password"] {
            if !given(name) {
                faults.push(Fault::new(name, "is required with a SASL protocol"));
            }
        }
    }
    for name in entries.keys() {
        if name.starts_with("sasl.") && !sasl {
            let rule = "has no effect: set `security.protocol` to sasl_ssl or sasl_plaintext";
            faults.push(Fault::new(name, rule));
        }
        if (name.starts_with("ssl.") || name == "enable.ssl.certificate.verification") && !tls {
            let rule = "has no effect: set `security.protocol` to ssl or sasl_ssl";
            faults.push(Fault::new(name, rule));
        }
    }
    faults
}

fn protocol(entries: &BTreeMap<String, String>) -> String {
    entries.get("security.protocol").map_or_else(|| "plaintext".to_owned(), |name| name.to_ascii_lowercase())
}

fn uses_sasl(entries: &BTreeMap<String, String>) -> bool {
    protocol(entries).starts_with("sasl_")
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
