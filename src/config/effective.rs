//! The config as it counts, defaults and overrides included, in the form of the files; secrets masked.

use super::raw::{
    Count, RawAdmin, RawBackoff, RawBounds, RawBroker, RawConfig, RawDatabase, RawDelivery, RawInFlight,
    RawLog, RawPoll, RawReplica, RawRetention, RawRoute, RawShutdown, RawSpan, RawTenant, Text,
};
use super::units::{ByteSize, WithUnit};
use super::words::{LOG_FORMATS, ON_DEAD, POOLINGS, SHAPES, word};
use super::{Bounds, BrokerConfig, Config, Delivery, Retention, TenantConfig};
use crate::outbox::Route;

impl Config {
    /// The effective config as TOML, secrets masked. A tenant's part is what could stand in its file; the
    /// routes of all tenants are repeated in each, in the order in which they are tried.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(&raw(self)).expect("tables of texts and numbers are TOML")
    }

    /// Likewise as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(raw(self)).expect("tables with text keys are JSON")
    }
}

fn raw(config: &Config) -> RawConfig {
    RawConfig {
        admin: Some(RawAdmin { listen: Some(Text(config.admin.listen.to_string())) }),
        replica: Some(RawReplica { name: Some(Text(config.replica.name.clone())) }),
        log: Some(RawLog {
            format: Some(Text(word(config.log.format, LOG_FORMATS).to_owned())),
            filter: Some(Text(config.log.filter.clone())),
        }),
        shutdown: Some(RawShutdown { grace: Some(WithUnit(config.shutdown.grace)) }),
        // Every tenant has its own in full.
        delivery: None,
        retention: None,
        routes: None,
        brokers: Some(config.brokers.iter().map(|(name, value)| (name.to_string(), broker(value))).collect()),
        tenants: Some(config.tenants.iter().map(|(name, value)| (name.to_string(), tenant(value))).collect()),
    }
}

fn broker(broker: &BrokerConfig) -> RawBroker {
    RawBroker {
        kind: Some(Text(broker.kind.clone())),
        max_in_flight: Some(RawInFlight {
            events: Some(Count(broker.max_in_flight.events as u64)),
            bytes: Some(WithUnit(ByteSize(broker.max_in_flight.bytes as u64))),
        }),
        publish_deadline: Some(span(broker.publish_deadline)),
        connect_timeout: Some(WithUnit(broker.connect_timeout)),
        shape: Some(Text(word(broker.shape, SHAPES).to_owned())),
        params: Some(broker.params_shown.clone()),
    }
}

fn tenant(tenant: &TenantConfig) -> RawTenant {
    RawTenant {
        database: Some(RawDatabase {
            url: Some(Text(tenant.database.url_shown.clone())),
            schema: Some(Text(tenant.database.schema.to_string())),
            pooling: Some(Text(word(tenant.database.pooling, POOLINGS).to_owned())),
        }),
        delivery: Some(delivery(&tenant.delivery)),
        retention: Some(retention(tenant.retention)),
        routes: Some(tenant.routes.iter().map(route).collect()),
    }
}

fn delivery(delivery: &Delivery) -> RawDelivery {
    let Delivery { max_refusals, max_unknown, backoff, lease, poll, batch_events, claims_in_flight, .. } =
        *delivery;
    let count = |number: u32| Some(Count(number.into()));
    RawDelivery {
        max_refusals: count(max_refusals),
        max_unknown: count(max_unknown),
        backoff: Some(RawBackoff { base: Some(WithUnit(backoff.base)), max: Some(WithUnit(backoff.max)) }),
        lease: Some(span(lease)),
        poll: Some(RawPoll { min: Some(WithUnit(poll.min)), max: Some(WithUnit(poll.max)) }),
        batch_events: count(batch_events),
        claims_in_flight: count(claims_in_flight),
        on_dead: Some(Text(word(delivery.on_dead, ON_DEAD).to_owned())),
        order_horizon: Some(WithUnit(delivery.order_horizon)),
    }
}

fn span(bounds: Bounds) -> RawSpan {
    if bounds.min == bounds.max {
        return RawSpan::Fixed(WithUnit(bounds.min));
    }
    RawSpan::Bounds(RawBounds { min: Some(WithUnit(bounds.min)), max: Some(WithUnit(bounds.max)) })
}

fn retention(retention: Retention) -> RawRetention {
    RawRetention { sent: Some(WithUnit(retention.sent)) }
}

fn route(route: &Route) -> RawRoute {
    RawRoute {
        topic: Some(Text(route.pattern.to_string())),
        broker: Some(Text(route.broker.to_string())),
        to: Some(route.to.texts().map(|(part, text)| (part.to_owned(), Text(text))).collect()),
        on_dead: route.on_dead.map(|on_dead| Text(word(on_dead, ON_DEAD).to_owned())),
    }
}
