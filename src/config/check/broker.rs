//! `[brokers.NAME]`: the plugin's word on `params`, and the bounds.

use std::collections::BTreeMap;

use outrider_broker::{Facts, Params, Plugin};
use serde_json::Value as Json;

use super::{Brokers, Context, NAME_RULE, is_name, limits};
use crate::config::key::KeyPath;
use crate::config::raw::{RawBroker, RawInFlight, Text};
use crate::config::report::Report;
use crate::config::secret::{self, MASKED};
use crate::config::units::{ByteSize, Unit};
use crate::config::{BrokerConfig, InFlight, words};

pub(super) fn check_all(
    report: &mut Report<'_>,
    context: &Context<'_>,
    raw: BTreeMap<String, RawBroker>,
) -> Brokers {
    let root = KeyPath::new(["brokers"]);
    raw.into_iter()
        .map(|(name, raw)| {
            let path = root.key(&name);
            if !is_name(&name) {
                report.fault(&path, format!("`{name}` is no broker name: it {NAME_RULE}"), "");
            }
            let broker = check(report, context, &path, &name, raw);
            (name.into(), broker)
        })
        .collect()
}

fn check(
    report: &mut Report<'_>,
    context: &Context<'_>,
    path: &KeyPath,
    name: &str,
    raw: RawBroker,
) -> Option<BrokerConfig> {
    let publish_deadline = limits::span(
        report,
        &path.key("publish_deadline"),
        raw.publish_deadline,
        limits::PUBLISH_DEADLINE,
        BrokerConfig::PUBLISH_DEADLINE,
    );
    let connect_timeout =
        limits::duration(report, &path.key("connect_timeout"), raw.connect_timeout, limits::CONNECT_TIMEOUT);
    let shape = limits::choice(report, &path.key("shape"), raw.shape.as_ref(), words::SHAPES);

    let plugin = plugin(report, context, &path.key("kind"), raw.kind.as_ref());
    let written = raw.params.unwrap_or_default();
    let params = resolve(report, context, &path.key("params"), &written);
    let broker = plugin.and_then(|plugin| {
        plugin
            .parse(&params)
            .map_err(|faults| {
                for fault in faults {
                    report.fault(&path.key("params").key(fault.key), fault.rule, "");
                }
            })
            .ok()
    });
    let facts = broker.as_ref().map(|broker| broker.facts()).unwrap_or_default();
    let max_in_flight =
        in_flight(report, &path.key("max_in_flight"), raw.max_in_flight.unwrap_or_default(), &facts);
    Some(BrokerConfig {
        name: name.into(),
        kind: raw.kind?.0,
        broker: broker?,
        params_shown: shown(plugin?, &written),
        max_in_flight,
        publish_deadline,
        connect_timeout: connect_timeout.unwrap_or(BrokerConfig::CONNECT_TIMEOUT),
        shape: shape.unwrap_or_default(),
    })
}

fn plugin<'a>(
    report: &mut Report<'_>,
    context: &Context<'a>,
    path: &KeyPath,
    kind: Option<&Text>,
) -> Option<&'a dyn Plugin> {
    let kinds = || limits::listed(context.registry.kinds());
    let Some(Text(kind)) = kind else {
        report.fault(path, "is required", format!("write one of {}", kinds()));
        return None;
    };
    let plugin = context.registry.plugin(kind);
    if plugin.is_none() {
        report.fault(path, "is not a kind of broker that this outrider knows", format!("known: {}", kinds()));
    }
    plugin.map(|plugin| &**plugin)
}

/// The client's own limits are the upper bound, and the default where they are below it.
fn in_flight(report: &mut Report<'_>, path: &KeyPath, raw: RawInFlight, facts: &Facts) -> InFlight {
    let default = InFlight::default();
    let events_path = path.key("events");
    let events_limit = facts.max_in_flight_events.unwrap_or(usize::MAX);
    let events = limits::count(report, &events_path, raw.events, limits::IN_FLIGHT_EVENTS)
        .unwrap_or(default.events.min(events_limit));
    if events > events_limit {
        let rule = format!("must be at most {events_limit}: the broker's client holds no more");
        report.fault(&events_path, rule, "lower it, or raise the client's own limit in `params`");
    }
    let bytes_path = path.key("bytes");
    let bytes_limit = facts.max_in_flight_bytes.unwrap_or(usize::MAX);
    let bytes = limits::size(report, &bytes_path, raw.bytes, limits::IN_FLIGHT_BYTES)
        .unwrap_or(default.bytes.min(bytes_limit));
    if bytes > bytes_limit {
        let most = ByteSize(bytes_limit as u64).text();
        let rule = format!("must be at most {most}: the broker's client holds no more");
        report.fault(&bytes_path, rule, "lower it, or raise the client's own limit in `params`");
    }
    InFlight { events, bytes }
}

/// `params` with every reference replaced by what it refers to, at any depth. One that leads nowhere is a
/// fault and stays as it is.
fn resolve(report: &mut Report<'_>, context: &Context<'_>, path: &KeyPath, params: &Params) -> Params {
    params
        .iter()
        .map(|(key, value)| {
            let path = path.key(key);
            warn_literal_secret(report, &path, key, value);
            (key.clone(), resolve_value(report, context, &path, value))
        })
        .collect()
}

fn resolve_value(report: &mut Report<'_>, context: &Context<'_>, path: &KeyPath, value: &Json) -> Json {
    match value {
        Json::String(text) => match context.secrets.resolve(text) {
            Ok(resolved) => Json::String(resolved),
            Err(unresolved) => {
                // Only a reference can lead nowhere, and that may be shown.
                let shown = format!("{:?}", secret::shown(text));
                report.fault_with_value(path, Some(shown), unresolved.rule, unresolved.remedy);
                value.clone()
            }
        },
        Json::Array(values) => values
            .iter()
            .enumerate()
            .map(|(index, value)| resolve_value(report, context, &path.index(index), value))
            .collect(),
        Json::Object(values) => values
            .iter()
            .map(|(key, value)| (key.clone(), resolve_value(report, context, &path.key(key), value)))
            .collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
    }
}

/// A guess by the look of it; it decides about a warning and nothing else.
fn warn_literal_secret(report: &mut Report<'_>, path: &KeyPath, key: &str, value: &Json) {
    let Json::String(text) = value else { return };
    if !secret::is_literal(text) || report.sources().is_from_variable(path) {
        return;
    }
    let key = key.to_lowercase();
    let named = ["password", "secret", "token", "seed", "private"].iter().any(|word| key.contains(word))
        && !key.ends_with("file")
        && !key.ends_with("location");
    if named || has_password(text) {
        report.warn(path, "seems to be a secret that stands in the file itself", LITERAL_SECRET_REMEDY);
    }
}

/// What to do about a secret in a config file.
pub(super) const LITERAL_SECRET_REMEDY: &str =
    "refer to it with `env:NAME` or `file:PATH`, so that the config can be shown to anybody";

/// True for a URL with a password before its host.
pub(super) fn has_password(url: &str) -> bool {
    url.split_once("://")
        .map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default())
        .and_then(|authority| authority.rsplit_once('@'))
        .is_some_and(|(user, _)| user.split_once(':').is_some_and(|(_, password)| !password.is_empty()))
}

/// `params` as they may be shown: see [`BrokerConfig::params_shown`].
fn shown(plugin: &dyn Plugin, params: &Params) -> Params {
    params
        .iter()
        .map(|(key, value)| {
            let public = plugin.public_params().contains(&key.as_str());
            (key.clone(), if public { value.clone() } else { masked(value) })
        })
        .collect()
}

fn masked(value: &Json) -> Json {
    match value {
        Json::String(text) => Json::String(secret::shown(text).to_owned()),
        Json::Bool(_) | Json::Null => value.clone(),
        // A number may be a password too.
        Json::Number(_) => Json::String(MASKED.to_owned()),
        Json::Array(values) => values.iter().map(masked).collect(),
        Json::Object(values) => values.iter().map(|(key, value)| (key.clone(), masked(value))).collect(),
    }
}
