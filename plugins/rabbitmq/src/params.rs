//! The `params` table of a broker and the `to` table of a route, checked. Pure: no I/O, no clock.

use std::collections::BTreeMap;
use std::fmt;

use lapin::tcp::{OwnedIdentity, OwnedTLSConfig};
use lapin::uri::{AMQPScheme, AMQPUri};
use outrider_broker::{Fault, Params};
use serde_json::Value;

use crate::address::{self, MAX_VHOST_BYTES};
use crate::wire::MAX_SHORT_STRING_BYTES;

const KNOWN: &[&str] = &[
    "url",
    "vhost",
    "heartbeat",
    "unroutable",
    "persistent",
    "max_message_bytes",
    "ca",
    "client_cert",
    "client_key",
];

/// Heartbeat in seconds where the config says nothing. A dead peer is noticed after two of them.
const DEFAULT_HEARTBEAT: u16 = 30;

/// A route's `to`: the default exchange, which delivers to the queue that the routing key names.
const DESTINATION_DEFAULTS: [(&str, &str); 2] = [("exchange", ""), ("routing_key", "{topic}")];

/// What a message that no queue is bound for counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unroutable {
    /// Broker trouble of its destination: kept and tried again without end. The default.
    Wait,
    /// The event's fault: refused, and dead after `max_refusals`.
    Refuse,
}

/// Checked parameters.
pub(crate) struct Settings {
    pub(crate) uri: AMQPUri,
    /// PEM of certificate authorities that are trusted beside the system's.
    ca: Option<String>,
    /// PEM of the client's certificate chain and of its key.
    identity: Option<(String, String)>,
    pub(crate) unroutable: Unroutable,
    /// Messages survive a broker's restart (delivery mode 2).
    pub(crate) persistent: bool,
    /// Largest payload in bytes that is handed over; `None` leaves it to the broker's own limit.
    pub(crate) max_message_bytes: Option<usize>,
}

impl Settings {
    pub(crate) fn tls(&self) -> OwnedTLSConfig {
        OwnedTLSConfig {
            identity: self.identity.as_ref().map(|(cert, key)| OwnedIdentity::PKCS8 {
                pem: cert.clone().into_bytes(),
                key: key.clone().into_bytes(),
            }),
            cert_chain: self.ca.clone(),
        }
    }

    /// `host:port`, for texts.
    pub(crate) fn server(&self) -> String {
        let authority = &self.uri.authority;
        match authority.host.contains(':') {
            true => format!("[{}]:{}", authority.host, authority.port),
            false => format!("{}:{}", authority.host, authority.port),
        }
    }
}

/// Shows neither the password nor the client's key.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("server", &self.server())
            .field("tls", &(self.uri.scheme == AMQPScheme::AMQPS))
            .field("vhost", &self.uri.vhost)
            .field("user", &self.uri.authority.userinfo.username)
            .field("heartbeat_s", &self.uri.query.heartbeat)
            .field("unroutable", &self.unroutable)
            .field("persistent", &self.persistent)
            .field("max_message_bytes", &self.max_message_bytes)
            .finish_non_exhaustive()
    }
}

/// Checks the `params` table; returns every fault.
pub(crate) fn parse(params: &Params) -> Result<Settings, Vec<Fault>> {
    let mut faults: Vec<Fault> = params
        .keys()
        .filter(|key| !KNOWN.contains(&key.as_str()))
        .map(|key| Fault::new(key, format!("is not a parameter; there are {}", list(KNOWN))))
        .collect();
    let mut check = Check { params, faults: &mut faults };

    let uri = match params.get("url") {
        Some(_) => check.value("url", |value| text(value).and_then(address::parse)),
        None => {
            let rule = "is missing: write `url = \"env:NAME\"` with an AMQP URL in that variable";
            check.faults.push(Fault::new("url", rule));
            None
        }
    };
    let vhost = check.value("vhost", vhost);
    let heartbeat = check.value("heartbeat", heartbeat);
    let unroutable = check.value("unroutable", unroutable);
    let persistent = check
        .value("persistent", |value| value.as_bool().ok_or_else(|| "must be `true` or `false`".to_owned()));
    let max_message_bytes = check.value("max_message_bytes", bytes);
    let ca = check.value("ca", pem);
    let cert = check.value("client_cert", pem);
    let key = check.value("client_key", pem);
    for (one, other) in [("client_cert", "client_key"), ("client_key", "client_cert")] {
        if params.contains_key(one) && !params.contains_key(other) {
            faults.push(Fault::new(other, format!("is needed together with `{one}`")));
        }
    }
    if let Some(uri) = &uri
        && uri.scheme == AMQPScheme::AMQP
    {
        for name in ["ca", "client_cert", "client_key"].iter().filter(|name| params.contains_key(**name)) {
            faults.push(Fault::new(*name, "needs TLS: begin `url` with `amqps://`, or leave it out"));
        }
    }

    let (Some(mut uri), true) = (uri, faults.is_empty()) else { return Err(faults) };
    uri.vhost = vhost.unwrap_or(uri.vhost);
    uri.query.heartbeat = Some(heartbeat.unwrap_or(DEFAULT_HEARTBEAT));
    Ok(Settings {
        uri,
        ca,
        identity: cert.zip(key),
        unroutable: unroutable.unwrap_or(Unroutable::Wait),
        persistent: persistent.unwrap_or(true),
        max_message_bytes,
    })
}

/// Completes and checks a route's `to` table.
pub(crate) fn destination(to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
    let mut faults = Vec::new();
    for (key, value) in to {
        if !DESTINATION_DEFAULTS.iter().any(|(known, _)| known == key) {
            faults.push(Fault::new(
                key,
                "is not a part of a destination; there are `exchange` and `routing_key`",
            ));
        } else if !value.contains(['{', '}']) && value.len() > MAX_SHORT_STRING_BYTES {
            let rule = format!("is {} bytes long; AMQP allows {MAX_SHORT_STRING_BYTES}", value.len());
            faults.push(Fault::new(key, rule));
        }
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut full = to.clone();
    for (key, value) in DESTINATION_DEFAULTS {
        full.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    }
    Ok(full)
}

struct Check<'a> {
    params: &'a Params,
    faults: &'a mut Vec<Fault>,
}

impl Check<'_> {
    /// The value of `key`, or `None` when it is absent or wrong; what is wrong becomes a fault.
    fn value<T>(&mut self, key: &str, read: impl FnOnce(&Value) -> Result<T, String>) -> Option<T> {
        match read(self.params.get(key)?) {
            Ok(value) => Some(value),
            Err(rule) => {
                self.faults.push(Fault::new(key, rule));
                None
            }
        }
    }
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "must be text".to_owned())
}

fn vhost(value: &Value) -> Result<String, String> {
    match text(value)? {
        "" => Err("must not be empty: write the virtual host's name, such as `/`".to_owned()),
        name if name.len() > MAX_VHOST_BYTES => {
            Err(format!("is {} bytes long; AMQP allows {MAX_VHOST_BYTES}", name.len()))
        }
        name => Ok(name.to_owned()),
    }
}

/// Whole seconds from 1 s to 5 min. Longer ones would notice a dead peer too late to be of use.
fn heartbeat(value: &Value) -> Result<u16, String> {
    let rule = || "must be a time from `1s` to `5m`, such as `30s`".to_owned();
    let value = value.as_str().ok_or_else(rule)?;
    let (number, unit) = match (value.strip_suffix('s'), value.strip_suffix('m')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 60),
        (None, None) => return Err(rule()),
    };
    let seconds = number.trim().parse::<u16>().ok().and_then(|number| number.checked_mul(unit));
    seconds.filter(|seconds| (1..=300).contains(seconds)).ok_or_else(rule)
}

fn unroutable(value: &Value) -> Result<Unroutable, String> {
    match value.as_str() {
        Some("wait") => Ok(Unroutable::Wait),
        Some("refuse") => Ok(Unroutable::Refuse),
        _ => {
            Err("must be `wait` (kept until a queue is bound) or `refuse` (dead after `max_refusals`)"
                .to_owned())
        }
    }
}

/// A number of bytes, or text with a unit: `1048576`, `"1MiB"`.
fn bytes(value: &Value) -> Result<usize, String> {
    let parsed = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => {
            let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let (number, unit) = text.split_at(digits);
            let factor = match unit.trim() {
                "" | "B" => Some(1),
                "KiB" => Some(1 << 10),
                "MiB" => Some(1 << 20),
                "GiB" => Some(1 << 30),
                _ => None,
            };
            number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor))
        }
        _ => None,
    };
    parsed.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0).ok_or_else(|| {
        "must be a size above 0 such as `128MiB` or `134217728`: the broker's own `max_message_size`"
            .to_owned()
    })
}

fn pem(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    match text.contains("-----BEGIN ") {
        true => Ok(text.to_owned()),
        false => Err("must be PEM text: refer to its file with `file:PATH`".to_owned()),
    }
}

fn list(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
