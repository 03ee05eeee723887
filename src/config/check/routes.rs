//! Routes: pattern, broker, destination; and warnings about routes that do less than they seem to.

use std::collections::{BTreeMap, BTreeSet};

use super::{Brokers, limits};
use crate::config::key::KeyPath;
use crate::config::raw::{RawRoute, Text};
use crate::config::report::Report;
use crate::config::{BrokerConfig, Config, words};
use crate::outbox::route::{DestinationTemplate, Route, TopicPattern};

/// Checks one list of routes; those with a fault are left out.
pub(super) fn check_all(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: Vec<RawRoute>,
    brokers: &Brokers,
) -> Vec<Route> {
    let mut routes = Vec::new();
    for (index, raw) in raw.into_iter().enumerate() {
        let path = path.index(index);
        if let Some(route) = check(report, &path, raw, brokers) {
            warn_shadowed(report, &path, &route, &routes);
            warn_merging(report, &path, &route, &routes);
            routes.push(route);
        }
    }
    routes
}

fn check(report: &mut Report<'_>, path: &KeyPath, raw: RawRoute, brokers: &Brokers) -> Option<Route> {
    let on_dead = limits::choice(report, &path.key("on_dead"), raw.on_dead.as_ref(), words::ON_DEAD);
    let pattern = pattern(report, &path.key("topic"), raw.topic);
    let to = raw.to.unwrap_or_default().into_iter().map(|(key, Text(text))| (key, text)).collect();
    let literal = destination(report, &path.key("to"), &to);
    let broker = broker(report, &path.key("broker"), raw.broker, brokers)?;
    literal?;
    let completed = broker.broker.destination(&to).map_err(|faults| {
        for fault in faults {
            report.fault(&path.key("to").key(fault.key), fault.rule, "");
        }
    });
    let to = destination(report, &path.key("to"), &completed.ok()?)?;
    Some(Route { pattern: pattern?, broker: broker.name.clone(), to, on_dead })
}

fn pattern(report: &mut Report<'_>, path: &KeyPath, raw: Option<Text>) -> Option<TopicPattern> {
    let remedy = "write a topic, or a pattern such as \"orders.*\"; `*` matches any run of characters";
    let Some(Text(text)) = raw else {
        report.fault(path, "is required", remedy);
        return None;
    };
    let pattern = TopicPattern::new(&text);
    if pattern.is_none() {
        report.fault(path, "must not be empty", remedy);
    }
    pattern
}

fn destination(
    report: &mut Report<'_>,
    path: &KeyPath,
    to: &BTreeMap<String, String>,
) -> Option<DestinationTemplate> {
    DestinationTemplate::parse(to)
        .map_err(|errors| {
            for (key, error) in errors {
                report.fault(&path.key(key), format!("is not a template: {error}"), "");
            }
        })
        .ok()
}

/// `None` also if the broker is there and has faults of its own.
fn broker<'a>(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: Option<Text>,
    brokers: &'a Brokers,
) -> Option<&'a BrokerConfig> {
    let known = || match brokers.len() {
        0 => "add a section `[brokers.NAME]`".to_owned(),
        _ => format!("write one of {}", limits::listed(brokers.keys())),
    };
    let Some(Text(name)) = raw else {
        report.fault(path, "is required", known());
        return None;
    };
    let found = brokers.get(name.as_str());
    // If the brokers could not be read, nothing is known about this one.
    if found.is_none() && report.is_sound(&KeyPath::new(["brokers", name.as_str()])) {
        report.fault(path, "names a broker that there is no section for", known());
    }
    found?.as_ref()
}

fn warn_shadowed(report: &mut Report<'_>, path: &KeyPath, route: &Route, earlier: &[Route]) {
    if let Some(wider) = earlier.iter().find(|wider| wider.pattern.covers(&route.pattern)) {
        let rule = format!("never matches: an earlier route for `{}` takes all its topics", wider.pattern);
        report.warn(&path.key("topic"), rule, "put it above that route, or remove it");
    }
}

/// Order holds within a topic, so a destination that gets several topics gets them in no order.
fn warn_merging(report: &mut Report<'_>, path: &KeyPath, route: &Route, earlier: &[Route]) {
    if route.to.depends_on_topic() {
        return;
    }
    let remedy = "use `{topic}` in it to keep topics apart, or accept that only events of one topic and key have an order";
    let same = earlier.iter().find(|other| other.broker == route.broker && other.to == route.to);
    if !route.pattern.is_exact() {
        let rule = "merges all its topics into one destination, where they have no order among one another";
        report.warn(&path.key("to"), rule, remedy);
    } else if let Some(same) = same.filter(|same| same.pattern != route.pattern) {
        let rule = format!(
            "is also the destination of topic `{}`; the two have no order among one another",
            same.pattern
        );
        report.warn(&path.key("to"), rule, remedy);
    }
}

pub(super) fn warn_unused_brokers(report: &mut Report<'_>, config: &Config) {
    if config.tenants.is_empty() {
        return;
    }
    let routes = config.tenants.values().flat_map(|tenant| tenant.routes.iter());
    let used: BTreeSet<&str> = routes.map(|route| &*route.broker).collect();
    for name in config.brokers.keys().filter(|name| !used.contains(&***name)) {
        let path = KeyPath::new(["brokers", name]);
        report.warn(&path, "no tenant has a route to this broker", "add a route, or remove the section");
    }
}
