//! The `params` table. Pure.

use std::time::Duration;

use outrider_broker::{Fault, Params};
use serde_json::Value;

/// What the parameters say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) store: String,
    pub(crate) keep: bool,
    /// Messages.
    pub(crate) capacity: usize,
    pub(crate) latency: Duration,
    /// Bytes of [`outrider_broker::Message::size`].
    pub(crate) max_message_bytes: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            store: "default".to_owned(),
            keep: false,
            capacity: 100_000,
            latency: Duration::ZERO,
            max_message_bytes: None,
        }
    }
}

impl Settings {
    /// Every fault, not only the first.
    pub(crate) fn parse(params: &Params) -> Result<Settings, Vec<Fault>> {
        let mut settings = Settings::default();
        let mut faults = Vec::new();
        for (key, value) in params {
            let rule = match key.as_str() {
                "store" => set(&mut settings.store, name(value), "must be a name, such as `default`"),
                "keep" => set(&mut settings.keep, value.as_bool(), "must be `true` or `false`"),
                "capacity" => {
                    set(&mut settings.capacity, count(value), "must be a number of messages, at least 1")
                }
                "latency" => {
                    set(&mut settings.latency, duration(value), "must be a time such as `5ms` or `2s`")
                }
                "max_message_bytes" => set(
                    &mut settings.max_message_bytes,
                    count(value).map(Some),
                    "must be a number of bytes, at least 1",
                ),
                _ => Some(
                    "is not a parameter; there are `store`, `keep`, `capacity`, `latency` and `max_message_bytes`",
                ),
            };
            faults.extend(rule.map(|rule| Fault::new(key, rule)));
        }
        if faults.is_empty() { Ok(settings) } else { Err(faults) }
    }
}

/// Puts a value in its place, or gives the rule that it breaks.
fn set<T>(place: &mut T, value: Option<T>, rule: &'static str) -> Option<&'static str> {
    match value {
        Some(value) => {
            *place = value;
            None
        }
        None => Some(rule),
    }
}

fn name(value: &Value) -> Option<String> {
    value.as_str().filter(|name| !name.trim().is_empty()).map(str::to_owned)
}

fn count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|count| usize::try_from(count).ok()).filter(|&count| count > 0)
}

fn duration(value: &Value) -> Option<Duration> {
    let text = value.as_str()?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    match &text[digits.len()..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(value: Value) -> Result<Settings, Vec<String>> {
        let Value::Object(params) = value else { panic!("a table") };
        Settings::parse(&params).map_err(|faults| faults.into_iter().map(|fault| fault.key).collect())
    }

    #[test]
    fn reads_all() {
        let all =
            json!({"store": "a", "keep": true, "capacity": 5, "latency": "20ms", "max_message_bytes": 100});
        let expected = Settings {
            store: "a".to_owned(),
            keep: true,
            capacity: 5,
            latency: Duration::from_millis(20),
            max_message_bytes: Some(100),
        };
        assert_eq!(parse(all), Ok(expected));
        assert_eq!(parse(json!({})), Ok(Settings::default()));
    }

    #[test]
    fn refuses_each() {
        for (key, value) in [
            ("store", json!(" ")),
            ("keep", json!("yes")),
            ("capacity", json!(0)),
            ("capacity", json!(-1)),
            ("latency", json!(5)),
            ("latency", json!("5 ms")),
            ("latency", json!("fast")),
            ("latency", json!("5m")),
            ("latency", json!("ms")),
            ("max_message_bytes", json!(1.5)),
            ("other", json!(1)),
        ] {
            assert_eq!(parse(json!({key: value.clone()})), Err(vec![key.to_owned()]), "{key} = {value}");
        }
    }
}
