//! From [`RawConfig`] to [`Config`]: defaults, limits, references, and the rules between values. Goes on
//! after a fault, so that all are found.

mod broker;
mod limits;
mod routes;
mod tenant;
mod timing;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use uuid::Uuid;

use super::key::KeyPath;
use super::raw::{RawAdmin, RawConfig, RawLog, RawReplica, RawShutdown, Text};
use super::report::Report;
use super::secret::Secrets;
use super::{Admin, BrokerConfig, Config, Delivery, Log, Replica, Retention, Shutdown, words};
use crate::brokers::Registry;

/// Every broker section by name; `None` where it has faults.
type Brokers = BTreeMap<Arc<str>, Option<BrokerConfig>>;

/// What checking needs beside the values.
struct Context<'a> {
    registry: &'a Registry,
    secrets: Secrets<'a>,
}

pub(super) fn check(
    report: &mut Report<'_>,
    raw: RawConfig,
    registry: &Registry,
    secrets: Secrets<'_>,
) -> Config {
    let context = Context { registry, secrets };
    let root = KeyPath::default();
    let brokers = broker::check_all(report, &context, raw.brokers.unwrap_or_default());
    let common = tenant::Common {
        delivery: tenant::delivery(
            report,
            &root.key("delivery"),
            &raw.delivery.unwrap_or_default(),
            &Delivery::default(),
        ),
        retention: tenant::retention(
            report,
            &root.key("retention"),
            raw.retention.unwrap_or_default(),
            Retention::default(),
        ),
        routes: routes::check_all(report, &root.key("routes"), raw.routes.unwrap_or_default(), &brokers),
    };
    let written = raw.tenants.unwrap_or_default();
    let tenants = tenant::check_all(report, &context, written, &common, &brokers);
    let mut config = Config {
        admin: admin(report, raw.admin.unwrap_or_default()),
        replica: replica(report, raw.replica.unwrap_or_default()),
        log: log(report, raw.log.unwrap_or_default()),
        shutdown: shutdown(report, raw.shutdown.unwrap_or_default()),
        brokers: brokers.into_iter().filter_map(|(name, broker)| Some((name, broker?))).collect(),
        tenants,
    };
    timing::check(report, &mut config);
    routes::warn_unused_brokers(report, &config);
    config
}

fn admin(report: &mut Report<'_>, raw: RawAdmin) -> Admin {
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 9464));
    let path = KeyPath::new(["admin", "listen"]);
    let listen = raw.listen.and_then(|Text(text)| {
        let address = text.parse();
        if address.is_err() {
            report.fault(
                &path,
                "must be an IP address and a port",
                "write it as \"127.0.0.1:9464\" or \"[::]:9464\"",
            );
        }
        address.ok()
    });
    Admin { listen: listen.unwrap_or(default) }
}

fn replica(report: &mut Report<'_>, raw: RawReplica) -> Replica {
    let Some(Text(name)) = raw.name else { return Replica { name: generated_name() } };
    if name.is_empty() || name.chars().count() > 128 || name.chars().any(char::is_control) {
        let path = KeyPath::new(["replica", "name"]);
        report.fault(
            &path,
            "must have 1 to 128 characters and no control character",
            "leave it out for a generated name",
        );
    }
    Replica { name }
}

/// Host name and process id, for people; and random digits, since containers share host names and all run
/// as process 1.
fn generated_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"))
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|host| host.trim().chars().filter(|c| !c.is_control()).take(64).collect::<String>())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "outrider".to_owned());
    let random = Uuid::new_v4().simple().to_string();
    format!("{host}-{}-{}", std::process::id(), &random[..4])
}

fn log(report: &mut Report<'_>, raw: RawLog) -> Log {
    let path = KeyPath::new(["log"]);
    let format = limits::choice(report, &path.key("format"), raw.format.as_ref(), words::LOG_FORMATS);
    let filter = raw.filter.map_or_else(|| "info".to_owned(), |Text(text)| text);
    if EnvFilter::builder().parse(&filter).is_err() {
        report.fault(
            &path.key("filter"),
            "must be filter directives of the tracing library",
            "write a level, or levels by module, such as \"info\" or \"info,outrider=debug\"",
        );
    }
    Log { format: format.unwrap_or_default(), filter }
}

fn shutdown(report: &mut Report<'_>, raw: RawShutdown) -> Shutdown {
    let path = KeyPath::new(["shutdown", "grace"]);
    let grace = limits::duration(report, &path, raw.grace, limits::GRACE);
    Shutdown { grace: grace.unwrap_or(Duration::from_secs(20)) }
}

/// A name that can be a file name, a metric's label and a part of a topic: a-z, 0-9, `-` and `_`, starting
/// with a letter or digit.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    text.len() <= 63
        && text.bytes().all(plain)
        && text.bytes().next().is_some_and(|first| first != b'-' && first != b'_')
}

/// What [`is_name`] demands.
const NAME_RULE: &str =
    "must be a name of a-z, 0-9, `-` and `_`, starting with a letter or digit, at most 63 characters";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (text, expected) in [
            ("acme", true),
            ("acme-2_eu", true),
            ("2acme", true),
            ("", false),
            ("-acme", false),
            ("Acme", false),
            ("ac me", false),
            ("ac.me", false),
            ("äcme", false),
            (&"a".repeat(63), true),
            (&"a".repeat(64), false),
        ] {
            assert_eq!(is_name(text), expected, "{text}");
        }
    }

    #[test]
    fn generated_names_differ() {
        assert_ne!(generated_name(), generated_name());
        assert!(generated_name().contains(&std::process::id().to_string()));
    }
}
