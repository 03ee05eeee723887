//! The `params` of a NATS broker: JSON in, checked settings or every fault out.
//!
//! Pure: opens no connection and reads no file. Must not put a value into a fault or into `Debug` output:
//! a url can hold a password.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::ServerAddr;
use outrider_broker::{Fault, Params};
use serde_json::Value;

use crate::destination::token_fault;
use crate::server::server;

/// Unconfirmed messages on one connection where `max_ack_inflight` says nothing. On one machine with its
/// server 1,000 were faster than 5,000, for the server then works through longer queues.
const DEFAULT_MAX_ACK_INFLIGHT: usize = 1000;

/// More than any server keeps up with; the bound keeps a slip of the pen from filling the memory.
const MOST_ACK_INFLIGHT: u64 = 65_536;

/// Parameters that hold no secret.
pub(crate) const PUBLIC: &[&str] = &[
    "ca_file",
    "cert_file",
    "key_file",
    "domain",
    "api_prefix",
    "inbox_prefix",
    "max_ack_inflight",
    "duplicate_window",
];

/// Parameters that are a secret or may hold one.
const SECRET: &[&str] = &["url", "credentials", "token", "user", "password", "nkey"];

/// Checked parameters.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Without user and password, which the client would log.
    pub(crate) servers: Vec<ServerAddr>,
    pub(crate) auth: Auth,
    pub(crate) tls: Tls,
    /// Prefix of JetStream's own subjects, such as `$JS.API`.
    pub(crate) api_prefix: String,
    /// First tokens of the subjects that acknowledgements come to.
    pub(crate) inbox_prefix: String,
    pub(crate) max_ack_inflight: usize,
    pub(crate) duplicate_window: Option<Duration>,
}

/// How the client says who it is.
#[derive(Clone)]
pub(crate) enum Auth {
    Anonymous,
    Credentials(String),
    Token(String),
    Nkey(String),
    Password { user: String, password: String },
}

/// Files for TLS beside the system's certificates. Read at every connect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    /// The client's own certificate and its key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

impl Settings {
    pub(crate) fn parse(params: &Params) -> Result<Settings, Vec<Fault>> {
        let mut reader = Reader { params, faults: Vec::new() };
        let known = [SECRET, PUBLIC].concat();
        for key in params.keys().filter(|key| !known.contains(&key.as_str())) {
            reader.fault(key, format!("is not known; known are `{}`", known.join("`, `")));
        }
        let (servers, in_url) = reader.servers();
        let auth = reader.auth(in_url);
        let tls = reader.tls();
        let api_prefix = reader.api_prefix();
        let inbox_prefix = reader.subject_prefix("inbox_prefix").unwrap_or_else(|| "_INBOX".to_owned());
        let max_ack_inflight = reader.max_ack_inflight();
        let duplicate_window = reader.duplicate_window();
        if !reader.faults.is_empty() {
            return Err(reader.faults);
        }
        Ok(Settings { servers, auth, tls, api_prefix, inbox_prefix, max_ack_inflight, duplicate_window })
    }

    /// The servers as an operator knows them: `127.0.0.1:4222, nats-2:4222`. Holds no secret.
    pub(crate) fn addresses(&self) -> String {
        let addresses: Vec<String> =
            self.servers.iter().map(|server| format!("{}:{}", server.host(), server.port())).collect();
        addresses.join(", ")
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("servers", &self.addresses())
            .field("auth", &self.auth)
            .field("tls", &self.tls)
            .field("api_prefix", &self.api_prefix)
            .field("inbox_prefix", &self.inbox_prefix)
            .field("max_ack_inflight", &self.max_ack_inflight)
            .field("duplicate_window", &self.duplicate_window)
            .finish()
    }
}

/// Shows which kind it is and nothing of it.
impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Auth::Anonymous => "Anonymous",
            Auth::Credentials(_) => "Credentials",
            Auth::Token(_) => "Token",
            Auth::Nkey(_) => "Nkey",
            Auth::Password { .. } => "Password",
        })
    }
}

struct Reader<'a> {
    params: &'a Params,
    faults: Vec<Fault>,
}

impl<'a> Reader<'a> {
    fn fault(&mut self, key: &str, rule: impl Into<String>) {
        self.faults.push(Fault::new(key, rule));
    }

    fn text(&mut self, key: &str) -> Option<&'a str> {
        match self.params.get(key)? {
            Value::String(text) if !text.trim().is_empty() => Some(text),
            _ => {
                self.fault(key, "must be text, and not empty");
                None
            }
        }
    }

    /// The servers, and the user that their urls name.
    fn servers(&mut self) -> (Vec<ServerAddr>, Option<Auth>) {
        if !self.params.contains_key("url") {
            self.fault("url", "is required: `nats://host:4222` or `tls://host:4222`, several with commas");
        }
        let Some(list) = self.text("url") else { return (Vec::new(), None) };
        let mut servers = Vec::new();
        let mut users = Vec::new();
        for url in list.split(',') {
            match server(url.trim()) {
                Ok((server, user)) => {
                    servers.push(server);
                    users.push(user);
                }
                Err(rule) => self.fault("url", rule),
            }
        }
        users.dedup();
        if users.len() > 1 {
            self.fault("url", "must name the same user and password in each of its servers");
        }
        let user = users.pop().flatten().map(|(user, password)| match password {
            Some(password) => Auth::Password { user, password },
            None => Auth::Token(user),
        });
        (servers, user)
    }

    fn auth(&mut self, in_url: Option<Auth>) -> Auth {
        let mut ways: Vec<(&str, Auth)> = in_url.map(|auth| ("url", auth)).into_iter().collect();
        if let Some(text) = self.text("credentials") {
            if async_nats::ConnectOptions::with_credentials(text).is_err() {
                let rule = "must be the text of a credentials file (user JWT and seed): write `file:PATH`";
                self.fault("credentials", rule);
            }
            ways.push(("credentials", Auth::Credentials(text.to_owned())));
        }
        if let Some(text) = self.text("token") {
            ways.push(("token", Auth::Token(text.to_owned())));
        }
        if let Some(text) = self.text("nkey") {
            let seed = text.trim();
            if !seed.starts_with("SU") || seed.len() != 58 || !seed.bytes().all(|b| b.is_ascii_alphanumeric())
            {
                self.fault("nkey", "must be a user's seed: `SU` and 56 more letters and digits");
            }
            ways.push(("nkey", Auth::Nkey(seed.to_owned())));
        }
        match (self.text("user"), self.text("password")) {
            (Some(user), Some(password)) => {
                ways.push(("user", Auth::Password { user: user.to_owned(), password: password.to_owned() }));
            }
            (Some(_), None) if !self.params.contains_key("password") => {
                self.fault("password", "is required beside `user`");
            }
            (None, Some(_)) if !self.params.contains_key("user") => {
                self.fault("user", "is required beside `password`");
            }
            _ => {}
        }
        for (key, _) in ways.iter().skip(1) {
            let rule = "must not be given beside another way to log in; choose one of `credentials`, `token`, \
                        `nkey`, `user` with `password`, and a user in `url`";
            self.faults.push(Fault::new(*key, rule));
        }
        ways.into_iter().next().map_or(Auth::Anonymous, |(_, auth)| auth)
    }

    fn tls(&mut self) -> Tls {
        let ca = self.text("ca_file").map(PathBuf::from);
        let cert = self.text("cert_file").map(PathBuf::from);
        let key = self.text("key_file").map(PathBuf::from);
        for (given, missing) in [("cert_file", "key_file"), ("key_file", "cert_file")] {
            if self.params.contains_key(given) && !self.params.contains_key(missing) {
                self.fault(missing, format!("is required beside `{given}`"));
            }
        }
        Tls { ca, client: cert.zip(key) }
    }

    fn api_prefix(&mut self) -> String {
        let prefix = self.subject_prefix("api_prefix");
        let domain = self.text("domain");
        if let Some(name) = domain
            && (name.contains('.') || token_fault(name).is_some())
        {
            self.fault("domain", "must be one token: no dots, wildcards or white space");
        }
        if domain.is_some() && prefix.is_some() {
            self.fault("domain", "must not be given beside `api_prefix`: `$JS.DOMAIN.API` is what it means");
        }
        match (prefix, domain) {
            (Some(prefix), _) => prefix,
            (None, Some(domain)) => format!("$JS.{domain}.API"),
            (None, None) => "$JS.API".to_owned(),
        }
    }

    fn subject_prefix(&mut self, key: &str) -> Option<String> {
        let prefix = self.text(key)?;
        if let Some(rule) = prefix.split('.').find_map(token_fault) {
            self.fault(key, rule);
        }
        Some(prefix.to_owned())
    }

    fn max_ack_inflight(&mut self) -> usize {
        let Some(value) = self.params.get("max_ack_inflight") else { return DEFAULT_MAX_ACK_INFLIGHT };
        match value.as_u64() {
            Some(count @ 1..=MOST_ACK_INFLIGHT) => count as usize,
            _ => {
                let rule = format!("must be a whole number from 1 to {MOST_ACK_INFLIGHT}");
                self.fault("max_ack_inflight", rule);
                DEFAULT_MAX_ACK_INFLIGHT
            }
        }
    }

    fn duplicate_window(&mut self) -> Option<Duration> {
        let text = self.text("duplicate_window")?;
        let window = duration(text);
        if window.is_none() {
            self.fault("duplicate_window", "must be a duration as the stream has it, such as `2m` or `1h`");
        }
        window
    }
}

/// A whole number and its unit: `500ms`, `30s`, `2m`, `1h` or `7d`.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let count: u64 = text[..digits].parse().ok().filter(|&count| count > 0)?;
    let milliseconds = match text[digits..].trim_start() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    count.checked_mul(milliseconds).map(Duration::from_millis)
}

#[cfg(test)]
#[path = "params_tests.rs"]
mod tests;
