//! Rules between times of different sections: lease, publish deadline, shutdown, a broker's memory of ids.

use std::time::Duration;

use crate::config::key::KeyPath;
use crate::config::report::Report;
use crate::config::units::Unit;
use crate::config::{Backoff, BrokerConfig, Config, Delivery, SETTLE_MARGIN, TenantConfig};

pub(super) fn check(report: &mut Report<'_>, config: &Config) {
    for tenant in config.tenants.values() {
        lease(report, config, tenant);
    }
    grace(report, config);
    duplicate_windows(report, config);
}

/// An owner stops handing over when less of its lease is left than a publish and its settle may take. It
/// renews each third, so two thirds are what it can count on.
fn lease(report: &mut Report<'_>, config: &Config, tenant: &TenantConfig) {
    let brokers = tenant.routes.iter().filter_map(|route| config.brokers.get(&route.broker));
    let Some(slowest) = brokers
        .filter(|broker| report.is_sound(&deadline_path(broker)))
        .max_by_key(|broker| broker.publish_deadline)
    else {
        return;
    };
    let needed = slowest.publish_deadline + SETTLE_MARGIN;
    let lease = tenant.delivery.lease;
    if lease * 2 / 3 > needed {
        return;
    }
    let own = KeyPath::new(["tenants", &tenant.name, "delivery", "lease"]);
    // Of a tenant's lease and the one for all, the fault goes to the one that counts.
    let is_own = report.sources().value(&own).is_some();
    let path = if is_own { own } else { KeyPath::new(["delivery", "lease"]) };
    // The least whole second that is enough.
    let enough = Duration::from_secs((needed * 3 / 2).as_secs() + 1);
    let rule = format!(
        "two thirds of the lease must be more than {}: the publish deadline of broker `{}` ({}) and {} to settle",
        needed.text(),
        slowest.name,
        slowest.publish_deadline.text(),
        SETTLE_MARGIN.text()
    );
    let remedy = format!("raise it to \"{}\", or lower `{}`", enough.text(), deadline_path(slowest));
    report.fault_with_value(&path, Some(written_or_default(report, &path, lease)), rule, remedy);
}

/// Shutdown has to outlast what is in flight.
fn grace(report: &mut Report<'_>, config: &Config) {
    let sound = config.brokers.values().filter(|broker| report.is_sound(&deadline_path(broker)));
    let Some(slowest) = sound.max_by_key(|broker| broker.publish_deadline) else { return };
    if config.shutdown.grace > slowest.publish_deadline {
        return;
    }
    let path = KeyPath::new(["shutdown", "grace"]);
    let rule = format!(
        "must be more than the publish deadline of broker `{}`, which is {}",
        slowest.name,
        slowest.publish_deadline.text()
    );
    let remedy = format!("raise it, or lower `{}`", deadline_path(slowest));
    let value = written_or_default(report, &path, config.shutdown.grace);
    report.fault_with_value(&path, Some(value), rule, remedy);
}

fn deadline_path(broker: &BrokerConfig) -> KeyPath {
    KeyPath::new(["brokers", &broker.name, "publish_deadline"])
}

fn written_or_default(report: &Report<'_>, path: &KeyPath, value: Duration) -> String {
    let default = if report.sources().value(path).is_some() { "" } else { " (the default)" };
    format!("\"{}\"{default}", value.text())
}

/// A broker that forgets ids sooner than the relay stops retrying can store an event twice.
fn duplicate_windows(report: &mut Report<'_>, config: &Config) {
    for broker in config.brokers.values() {
        let Some(window) = broker.broker.facts().duplicate_window else { continue };
        let users = config
            .tenants
            .values()
            .filter(|tenant| tenant.routes.iter().any(|route| route.broker == broker.name));
        let Some(span) = users.map(|tenant| retry_span(&tenant.delivery, broker.publish_deadline)).max()
        else {
            continue;
        };
        if window <= span {
            let rule = format!(
                "the broker remembers ids for {}, and an event may be tried again for {}: a later copy is stored a second time, and only the consumer's inbox removes it",
                window.text(),
                Duration::from_secs(span.as_secs()).text()
            );
            let remedy = "raise the stream's duplicate window, or lower `delivery.max_unknown` and `delivery.backoff.max`";
            report.warn(&KeyPath::new(["brokers", &broker.name]), rule, remedy);
        }
    }
}

/// Longest time from an event's first copy to its last: `max_unknown` tries that each run into their
/// deadline, the longest backoff between them, and one lease for an owner that died.
fn retry_span(delivery: &Delivery, publish_deadline: Duration) -> Duration {
    let Backoff { base, max } = delivery.backoff;
    let mut left = delivery.max_unknown.saturating_sub(1);
    let mut span = delivery.lease.saturating_add(publish_deadline.saturating_mul(left));
    let mut wait = base;
    while left > 0 && wait < max {
        span += wait;
        wait = wait.saturating_mul(2);
        left -= 1;
    }
    span.saturating_add(max.saturating_mul(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retry_span_is_the_sum_of_waits_and_deadlines() {
        let second = Duration::from_secs(1);
        let mut delivery = Delivery {
            max_unknown: 4,
            backoff: Backoff { base: second, max: 2 * second },
            lease: 10 * second,
            ..Delivery::default()
        };
        // Three waits of 1 s, 2 s, 2 s, three deadlines of 1 s, and the lease.
        assert_eq!(retry_span(&delivery, second), 18 * second);
        delivery.max_unknown = 1;
        assert_eq!(
            retry_span(&delivery, second),
            10 * second,
            "a single try has no later copy but a crash's"
        );
        delivery.max_unknown = 1_000_000;
        assert!(retry_span(&delivery, second) > 1_000_000 * second, "and it ends at once");
    }
}
