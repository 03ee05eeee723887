//! Limits of single values. What is beyond one is a mistake in a unit or a digit, or overflows somewhere.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::Bounds;
use crate::config::key::KeyPath;
use crate::config::raw::{Count, RawSpan, Text};
use crate::config::report::Report;
use crate::config::units::{ByteSize, Unit, WithUnit};

type Durations = RangeInclusive<Duration>;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

pub(super) const GRACE: Durations = between(100, HOUR);
/// From a round trip in one rack to what a lease can cover.
pub(super) const PUBLISH_DEADLINE: Durations = between(50, 10 * MINUTE);
pub(super) const CONNECT_TIMEOUT: Durations = between(50, 10 * MINUTE);
/// A crash delays a tenant's events by a lease, so longer ones serve nobody.
pub(super) const LEASE: Durations = between(SECOND, HOUR);
pub(super) const BACKOFF_BASE: Durations = between(1, HOUR);
pub(super) const BACKOFF_MAX: Durations = between(1, DAY);
pub(super) const POLL_MIN: Durations = between(1, MINUTE);
pub(super) const POLL_MAX: Durations = between(1, 5 * MINUTE);
pub(super) const ORDER_HORIZON: Durations = between(SECOND, DAY);
pub(super) const RETENTION: Durations = between(SECOND, 3_650 * DAY);

pub(super) const TRIES: RangeInclusive<u64> = 1..=1_000_000;
/// Above, a claim row and its settle statement become larger than what they save.
pub(super) const BATCH_EVENTS: RangeInclusive<u64> = 1..=10_000;
pub(super) const CLAIMS_IN_FLIGHT: RangeInclusive<u64> = 1..=64;
pub(super) const IN_FLIGHT_EVENTS: RangeInclusive<u64> = 1..=1_000_000;
pub(super) const IN_FLIGHT_BYTES: RangeInclusive<ByteSize> = ByteSize(1 << 10)..=ByteSize(64 << 30);

const fn between(least_ms: u64, most_ms: u64) -> Durations {
    Duration::from_millis(least_ms)..=Duration::from_millis(most_ms)
}

/// The value if it is there and within its limits; a fault if it is beyond them.
pub(super) fn duration(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: Option<WithUnit<Duration>>,
    limits: Durations,
) -> Option<Duration> {
    let WithUnit(value) = raw?;
    within(report, path, value, limits, Unit::text)
}

/// A time with bounds, over those of the level below. The upper one rises with the lower one unless it is written.
pub(super) fn span(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: Option<RawSpan>,
    limits: Durations,
    base: Bounds,
) -> Bounds {
    match raw {
        None => base,
        Some(RawSpan::Fixed(time)) => duration(report, path, Some(time), limits).map_or(base, Bounds::fixed),
        Some(RawSpan::Bounds(raw)) => {
            let min = duration(report, &path.key("min"), raw.min, limits.clone()).unwrap_or(base.min);
            let max = duration(report, &path.key("max"), raw.max, limits).unwrap_or(base.max.max(min));
            ordered(report, path, ("min", min), ("max", max));
            Bounds { min, max }
        }
    }
}

/// The first value must not be above the second. The fault goes to the one that is written.
pub(super) fn ordered(
    report: &mut Report<'_>,
    path: &KeyPath,
    (low_key, low): (&str, Duration),
    (high_key, high): (&str, Duration),
) {
    let (low_path, high_path) = (path.key(low_key), path.key(high_key));
    if low <= high || !report.is_sound(&low_path) || !report.is_sound(&high_path) {
        return;
    }
    if report.sources().value(&low_path).is_some() {
        let rule = format!("must be at most `{high_key}`, which is {}", high.text());
        report.fault(&low_path, rule, format!("lower it, or raise `{high_key}`"));
    } else if report.sources().value(&high_path).is_some() {
        let rule = format!("must be at least `{low_key}`, which is {}", low.text());
        report.fault(&high_path, rule, format!("raise it, or lower `{low_key}`"));
    }
}

pub(super) fn size(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: Option<WithUnit<ByteSize>>,
    limits: RangeInclusive<ByteSize>,
) -> Option<usize> {
    let WithUnit(value) = raw?;
    let ByteSize(bytes) = within(report, path, value, limits, Unit::text)?;
    usize::try_from(bytes).ok()
}

pub(super) fn count<N: TryFrom<u64>>(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: Option<Count>,
    limits: RangeInclusive<u64>,
) -> Option<N> {
    let Count(value) = raw?;
    within(report, path, value, limits, |number| number.to_string())
        .and_then(|number| N::try_from(number).ok())
}

fn within<V: PartialOrd + Copy>(
    report: &mut Report<'_>,
    path: &KeyPath,
    value: V,
    limits: RangeInclusive<V>,
    text: fn(V) -> String,
) -> Option<V> {
    if limits.contains(&value) {
        return Some(value);
    }
    let (least, most) = (text(*limits.start()), text(*limits.end()));
    report.fault(path, format!("must be between {least} and {most}"), "leave it out for the default");
    None
}

/// One of a few words.
pub(super) fn choice<V: Copy>(
    report: &mut Report<'_>,
    path: &KeyPath,
    raw: Option<&Text>,
    words: &[(&str, V)],
) -> Option<V> {
    let Text(text) = raw?;
    let found = words.iter().find(|(word, _)| word == text).map(|(_, value)| *value);
    if found.is_none() {
        report.fault(path, format!("must be one of {}", listed(words.iter().map(|(word, _)| word))), "");
    }
    found
}

/// `a`, `b` and so on, each in backticks.
pub(super) fn listed(words: impl IntoIterator<Item = impl Display>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
