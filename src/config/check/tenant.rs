//! `tenants/NAME.toml`: its database, and what it overrides.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use secrecy::SecretString;
use sqlx::postgres::PgConnectOptions;

use super::broker::{LITERAL_SECRET_REMEDY, has_password};
use super::{Brokers, Context, NAME_RULE, is_name, limits, routes};
use crate::config::key::KeyPath;
use crate::config::raw::{RawDatabase, RawDelivery, RawRetention, RawTenant, Text};
use crate::config::report::Report;
use crate::config::secret;
use crate::config::{Backoff, Database, Delivery, Poll, Retention, SchemaName, TenantConfig, words};
use crate::outbox::Route;

/// What `outrider.toml` says for all tenants.
pub(super) struct Common {
    pub(super) delivery: Delivery,
    pub(super) retention: Retention,
    pub(super) routes: Vec<Route>,
}

pub(super) fn check_all(
    report: &mut Report<'_>,
    context: &Context<'_>,
    raw: BTreeMap<String, RawTenant>,
    common: &Common,
    brokers: &Brokers,
) -> BTreeMap<Arc<str>, TenantConfig> {
    let root = KeyPath::new(["tenants"]);
    if raw.is_empty() && report.sources().unread.is_empty() {
        let remedy = "add a file `tenants/NAME.toml` with `database = { url = \"env:NAME_DATABASE_URL\" }`";
        report.warn(&root, "there are no tenants, so there is nothing to do", remedy);
    }
    let mut tenants = BTreeMap::new();
    for (name, raw) in raw {
        let path = root.key(&name);
        if !is_name(&name) {
            report.fault(&path, format!("`{name}` is no tenant name: it {NAME_RULE}"), "rename the file");
        }
        if let Some(tenant) = check(report, context, &path, &name, raw, common, brokers) {
            tenants.insert(tenant.name.clone(), tenant);
        }
    }
    tenants
}

fn check(
    report: &mut Report<'_>,
    context: &Context<'_>,
    path: &KeyPath,
    name: &str,
    raw: RawTenant,
    common: &Common,
    brokers: &Brokers,
) -> Option<TenantConfig> {
    let delivery =
        delivery(report, &path.key("delivery"), &raw.delivery.unwrap_or_default(), &common.delivery);
    let retention =
        retention(report, &path.key("retention"), raw.retention.unwrap_or_default(), common.retention);
    let mut routes = routes::check_all(report, &path.key("routes"), raw.routes.unwrap_or_default(), brokers);
    routes.extend(common.routes.iter().cloned());
    if routes.is_empty() && report.is_sound(&KeyPath::new(["routes"])) {
        report.warn(path, "no route applies to this tenant, so all its events are held", "add `[[routes]]`");
    }
    Some(TenantConfig {
        name: name.into(),
        database: database(report, context, &path.key("database"), raw.database.unwrap_or_default())?,
        delivery,
        retention,
        routes: routes.into_iter().collect(),
    })
}

fn database(
    report: &mut Report<'_>,
    context: &Context<'_>,
    path: &KeyPath,
    raw: RawDatabase,
) -> Option<Database> {
    let schema_path = path.key("schema");
    let schema = match raw.schema {
        None => SchemaName::default(),
        Some(Text(text)) => SchemaName::new(&text).unwrap_or_else(|| {
            report.fault(&schema_path, SchemaName::RULE, "leave it out for `outrider`");
            SchemaName::default()
        }),
    };
    let pooling = limits::choice(report, &path.key("pooling"), raw.pooling.as_ref(), words::POOLINGS);
    let path = path.key("url");
    let Some(Text(text)) = raw.url else {
        let remedy = "write a reference to a PostgreSQL URL, such as \"env:ACME_DATABASE_URL\"";
        report.fault(&path, "is required", remedy);
        return None;
    };
    let url = match context.secrets.resolve(&text) {
        Ok(url) => url,
        Err(unresolved) => {
            // The reference itself may be shown, unlike what it leads to.
            let value = format!("{:?}", secret::shown(&text));
            report.fault_with_value(&path, Some(value), unresolved.rule, unresolved.remedy);
            return None;
        }
    };
    if let Err(rule) = postgres_url(&url) {
        let value = format!("{:?}", secret::shown(&text));
        let remedy =
            "write it as postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters";
        report.fault_with_value(&path, Some(value), rule, remedy);
        return None;
    }
    let in_file = secret::is_literal(&text) && !report.sources().is_from_variable(&path);
    if in_file && (has_password(&url) || query_keys(&url).any(|key| key == "password")) {
        report.warn(&path, "holds a password that stands in the file itself", LITERAL_SECRET_REMEDY);
    }
    Some(Database {
        url: SecretString::from(url),
        url_shown: secret::shown(&text).to_owned(),
        schema,
        pooling: pooling.unwrap_or_default(),
    })
}

/// Parameters that a database URL may have behind its `?`. The client would log any other one, with its
/// value, and go on.
const URL_PARAMETERS: &[&str] = &[
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "application_name",
    "options",
];

/// Says which rule a URL breaks, without a word of it but the name of an unknown parameter.
fn postgres_url(url: &str) -> Result<(), String> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err("must be a PostgreSQL URL".into());
    }
    if query_keys(url).any(|key| !URL_PARAMETERS.contains(&key) && !key.starts_with("options[")) {
        return Err(format!("may have no other parameters than {}", limits::listed(URL_PARAMETERS)));
    }
    let options = PgConnectOptions::from_str(url).map_err(|_| "must be a PostgreSQL URL".to_owned())?;
    if options.get_database().is_none_or(str::is_empty) {
        return Err("must name a database".into());
    }
    Ok(())
}

fn query_keys(url: &str) -> impl Iterator<Item = &str> {
    let query = url.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split('=').next().unwrap_or_default())
}

/// One level of `delivery`, over the level below it.
pub(super) fn delivery(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: &RawDelivery,
    base: &Delivery,
) -> Delivery {
    let backoff = raw.backoff.clone().unwrap_or_default();
    let backoff_path = path.key("backoff");
    let backoff = Backoff {
        base: limits::duration(report, &backoff_path.key("base"), backoff.base, limits::BACKOFF_BASE)
            .unwrap_or(base.backoff.base),
        max: limits::duration(report, &backoff_path.key("max"), backoff.max, limits::BACKOFF_MAX)
            .unwrap_or(base.backoff.max),
    };
    limits::ordered(report, &backoff_path, ("base", backoff.base), ("max", backoff.max));

    let poll = raw.poll.clone().unwrap_or_default();
    let poll_path = path.key("poll");
    let poll = Poll {
        min: limits::duration(report, &poll_path.key("min"), poll.min, limits::POLL_MIN)
            .unwrap_or(base.poll.min),
        max: limits::duration(report, &poll_path.key("max"), poll.max, limits::POLL_MAX)
            .unwrap_or(base.poll.max),
    };
    limits::ordered(report, &poll_path, ("min", poll.min), ("max", poll.max));

    let mut count = |key: &str, raw, limits| limits::count::<u32>(report, &path.key(key), raw, limits);
    let max_refusals = count("max_refusals", raw.max_refusals, limits::TRIES);
    let max_unknown = count("max_unknown", raw.max_unknown, limits::TRIES);
    let batch_events = count("batch_events", raw.batch_events, limits::BATCH_EVENTS);
    let claims_in_flight = count("claims_in_flight", raw.claims_in_flight, limits::CLAIMS_IN_FLIGHT);
    let lease = limits::span(report, &path.key("lease"), raw.lease.clone(), limits::LEASE, base.lease);
    let order_horizon =
        limits::duration(report, &path.key("order_horizon"), raw.order_horizon, limits::ORDER_HORIZON);
    let on_dead = limits::choice(report, &path.key("on_dead"), raw.on_dead.as_ref(), words::ON_DEAD);
    Delivery {
        max_refusals: max_refusals.unwrap_or(base.max_refusals),
        max_unknown: max_unknown.unwrap_or(base.max_unknown),
        backoff,
        lease,
        poll,
        batch_events: batch_events.unwrap_or(base.batch_events),
        claims_in_flight: claims_in_flight.unwrap_or(base.claims_in_flight),
        on_dead: on_dead.unwrap_or(base.on_dead),
        order_horizon: order_horizon.unwrap_or(base.order_horizon),
    }
}

pub(super) fn retention(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: RawRetention,
    base: Retention,
) -> Retention {
    let sent = limits::duration(report, &path.key("sent"), raw.sent, limits::RETENTION);
    Retention { sent: sent.unwrap_or(base.sent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_urls() {
        for (url, expected) in [
            ("postgres://u:p@db:5432/acme", true),
            ("postgresql://db/acme?sslmode=require", true),
            ("postgres:///acme?host=/run/postgresql", true),
            ("postgres://u:p%40ss@db/acme", true),
            ("postgres://db/acme?options[search_path]=x", true),
            ("postgres://db", false),
            ("postgres://db/", false),
            ("postgres://db/acme?passwrod=marker", false),
            ("postgres://db/acme?sslmode=perhaps", false),
            ("postgres://u:p:/db/acme", false),
            ("mysql://db/acme", false),
            ("db/acme", false),
            ("", false),
        ] {
            let result = postgres_url(url);
            assert_eq!(result.is_ok(), expected, "{url}");
            assert!(!result.err().unwrap_or_default().contains("marker"), "{url}");
        }
    }

    #[test]
    fn passwords_in_urls_are_noticed() {
        for (url, expected) in [
            ("postgres://u:p@db/acme", true),
            ("amqp://u:p@mq", true),
            ("postgres://u@db/acme", false),
            ("postgres://u:@db/acme", false),
            ("postgres://db:5432/a:b@c", false),
            ("kafka-1:9092", false),
        ] {
            assert_eq!(has_password(url), expected, "{url}");
        }
    }
}
