//! Rules between times of different sections: lease, publish deadline, shutdown, a broker's memory of ids.

use std::time::Duration;

use crate::config::key::KeyPath;
use crate::config::report::Report;
use crate::config::units::Unit;
use crate::config::{Backoff, BrokerConfig, Config, Delivery, SETTLE_MARGIN, TenantConfig};

pub(super) fn check(report: &mut Report<'_>, config: &mut Config) {
    fit(report, config);
    for tenant in config.tenants.values() {
        lease(report, config, tenant);
        longest_lease(report, config, tenant);
    }
    grace(report, config);
    duplicate_windows(report, config);
}

/// Of the grace period, what is left for publishes once connections have their time to close.
const GRACE_SHARE: (u32, u32) = (4, 5);

/// A longest publish deadline that nobody wrote is one that a shutdown can wait for.
fn fit(report: &Report<'_>, config: &mut Config) {
    let (share, of) = GRACE_SHARE;
    let most = (config.shutdown.grace * share / of).saturating_sub(SETTLE_MARGIN);
    for broker in config.brokers.values_mut() {
        if !writes_max(report, &deadline_path(broker)) {
            let deadline = &mut broker.publish_deadline;
            deadline.max = deadline.max.min(most).max(deadline.min);
        }
    }
}

/// An owner stops handing over when less of its lease is left than a publish and its settle may take. It
/// renews each third, so two thirds are what it can count on. Both adapt: where the shortest lease is enough for the
/// shortest deadline, the lease in force is made to be enough for the deadline in force.
fn lease(report: &mut Report<'_>, config: &Config, tenant: &TenantConfig) {
    let Some(slowest) =
        users(report, config, tenant).into_iter().max_by_key(|broker| broker.publish_deadline.min)
    else {
        return;
    };
    let (lease, deadline) = (tenant.delivery.lease.min, slowest.publish_deadline.min);
    let needed = deadline + SETTLE_MARGIN;
    if lease * 2 / 3 > needed {
        return;
    }
    let path = lease_path(report, tenant, "min");
    let rule = format!(
        "two thirds of the lease must be more than {}: the publish deadline of broker `{}` ({}) and {} to settle",
        needed.text(),
        slowest.name,
        deadline.text(),
        SETTLE_MARGIN.text()
    );
    let remedy = format!("raise it to \"{}\", or lower `{}`", enough(needed), deadline_path(slowest));
    report.fault_with_value(&path, Some(written_or_default(report, &path, lease)), rule, remedy);
}

/// A longest deadline that somebody wrote is meant to be reached.
fn longest_lease(report: &mut Report<'_>, config: &Config, tenant: &TenantConfig) {
    let written = users(report, config, tenant)
        .into_iter()
        .filter(|broker| report.sources().value(&deadline_path(broker).key("max")).is_some());
    let Some(slowest) = written.max_by_key(|broker| broker.publish_deadline.max) else { return };
    let (lease, deadline) = (tenant.delivery.lease.max, slowest.publish_deadline.max);
    let needed = deadline + SETTLE_MARGIN;
    if lease * 2 / 3 > needed {
        return;
    }
    let path = lease_path(report, tenant, "max");
    let rule = format!(
        "two thirds of the longest lease must be more than {}: the longest publish deadline of broker `{}` ({}) and {} to settle",
        needed.text(),
        slowest.name,
        deadline.text(),
        SETTLE_MARGIN.text()
    );
    let remedy = format!("raise it to \"{}\", or lower `{}.max`", enough(needed), deadline_path(slowest));
    report.fault_with_value(&path, Some(written_or_default(report, &path, lease)), rule, remedy);
}

/// Brokers that a tenant's routes name and whose deadlines are known.
fn users<'a>(report: &Report<'_>, config: &'a Config, tenant: &TenantConfig) -> Vec<&'a BrokerConfig> {
    let brokers = tenant.routes.iter().filter_map(|route| config.brokers.get(&route.broker));
    brokers.filter(|broker| deadline_is_sound(report, broker)).collect()
}

/// Where a bound of the tenant's lease is written: of the tenant's own and the one for all, the one that counts; with
/// its bounds, or as one time.
fn lease_path(report: &Report<'_>, tenant: &TenantConfig, bound: &str) -> KeyPath {
    let own = KeyPath::new(["tenants", &tenant.name, "delivery", "lease"]);
    let common = KeyPath::new(["delivery", "lease"]);
    for path in [&own, &common] {
        if report.sources().value(&path.key(bound)).is_some() {
            return path.key(bound);
        }
        if report.sources().value(path).is_some_and(|value| value.as_str().is_some()) {
            return path.clone();
        }
    }
    common
}

/// The least whole second of which two thirds are more than that.
fn enough(needed: Duration) -> String {
    Duration::from_secs((needed * 3 / 2).as_secs() + 1).text()
}

/// Shutdown has to outlast what is in flight.
fn grace(report: &mut Report<'_>, config: &Config) {
    let sound = config.brokers.values().filter(|broker| deadline_is_sound(report, broker));
    let Some(slowest) = sound.max_by_key(|broker| broker.publish_deadline.max) else { return };
    let deadline = slowest.publish_deadline.max;
    if config.shutdown.grace > deadline {
        return;
    }
    let path = KeyPath::new(["shutdown", "grace"]);
    let rule = format!(
        "must be more than the publish deadline of broker `{}`, which is {}",
        slowest.name,
        deadline.text()
    );
    let remedy = format!("raise it, or lower `{}`", deadline_path(slowest));
    let value = written_or_default(report, &path, config.shutdown.grace);
    report.fault_with_value(&path, Some(value), rule, remedy);
}

fn deadline_path(broker: &BrokerConfig) -> KeyPath {
    KeyPath::new(["brokers", &broker.name, "publish_deadline"])
}

fn deadline_is_sound(report: &Report<'_>, broker: &BrokerConfig) -> bool {
    let path = deadline_path(broker);
    report.is_sound(&path.key("min")) && report.is_sound(&path.key("max"))
}

/// Whether an upper bound is written: by name, or as the one time that is both.
fn writes_max(report: &Report<'_>, path: &KeyPath) -> bool {
    report.sources().value(&path.key("max")).is_some()
        || report.sources().value(path).is_some_and(|value| value.as_str().is_some())
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
        let Some(span) = users.map(|tenant| retry_span(&tenant.delivery, broker.publish_deadline.max)).max()
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
    let mut span = delivery.lease.max.saturating_add(publish_deadline.saturating_mul(left));
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
    use crate::config::Bounds;

    #[test]
    fn the_retry_span_is_the_sum_of_waits_and_deadlines() {
        let second = Duration::from_secs(1);
        let mut delivery = Delivery {
            max_unknown: 4,
            backoff: Backoff { base: second, max: 2 * second },
            lease: Bounds::fixed(10 * second),
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
