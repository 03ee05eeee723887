//! The config as it is written: one structure a section, every key optional. No defaults, no rules beyond
//! the type of a value; `check` knows those.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use serde::{Deserialize as DeserializeDerive, Serialize, Serializer};

use super::units::{ByteSize, Unit, WithUnit};

/// Declares a section: every key is optional, an unknown one is an error.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $key:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Serialize, DeserializeDerive)]
        #[serde(deny_unknown_fields, default, expecting = "a table")]
        pub(super) struct $name {
            $(
                $(#[$attribute])*
                #[serde(skip_serializing_if = "Option::is_none")]
                pub(super) $key: Option<$type>,
            )*
        }

        impl $name {
            pub(super) const KEYS: &[&str] = &[$(stringify!($key)),*];
        }
    };
}

section! {
    /// `outrider.toml`, with the tenants' files under `tenants`.
    RawConfig {
        admin: RawAdmin,
        replica: RawReplica,
        log: RawLog,
        shutdown: RawShutdown,
        delivery: RawDelivery,
        retention: RawRetention,
        brokers: BTreeMap<String, RawBroker>,
        routes: Vec<RawRoute>,
        tenants: BTreeMap<String, RawTenant>,
    }
}

section! { RawAdmin { listen: Text, } }
section! { RawReplica { name: Text, } }
section! { RawLog { format: Text, filter: Text, } }
section! { RawShutdown { grace: WithUnit<Duration>, } }

section! {
    RawDelivery {
        max_refusals: Count,
        max_unknown: Count,
        backoff: RawBackoff,
        lease: RawSpan,
        poll: RawPoll,
        batch_events: Count,
        claims_in_flight: Count,
        on_dead: Text,
        order_horizon: WithUnit<Duration>,
    }
}
section! { RawBackoff { base: WithUnit<Duration>, max: WithUnit<Duration>, } }
section! { RawPoll { min: WithUnit<Duration>, max: WithUnit<Duration>, } }
section! { RawBounds { min: WithUnit<Duration>, max: WithUnit<Duration>, } }
section! { RawRetention { sent: WithUnit<Duration>, } }

section! {
    RawBroker {
        kind: Text,
        max_in_flight: RawInFlight,
        publish_deadline: RawSpan,
        connect_timeout: WithUnit<Duration>,
        shape: Text,
        params: serde_json::Map<String, serde_json::Value>,
    }
}
section! { RawInFlight { events: Count, bytes: WithUnit<ByteSize>, } }

section! {
    RawRoute {
        topic: Text,
        broker: Text,
        to: BTreeMap<String, Text>,
        on_dead: Text,
    }
}

section! {
    /// `tenants/NAME.toml`.
    RawTenant {
        database: RawDatabase,
        delivery: RawDelivery,
        retention: RawRetention,
        routes: Vec<RawRoute>,
    }
}
section! { RawDatabase { url: Text, schema: Text, pooling: Text, } }

/// The keys of every section.
pub(super) const KEYS: &[&[&str]] = &[
    RawConfig::KEYS,
    RawAdmin::KEYS,
    RawReplica::KEYS,
    RawLog::KEYS,
    RawShutdown::KEYS,
    RawDelivery::KEYS,
    RawBackoff::KEYS,
    RawPoll::KEYS,
    RawBounds::KEYS,
    RawRetention::KEYS,
    RawBroker::KEYS,
    RawInFlight::KEYS,
    RawRoute::KEYS,
    RawTenant::KEYS,
    RawDatabase::KEYS,
];

/// A time that adapts within bounds, or one that does not.
#[derive(Clone, Debug)]
pub(super) enum RawSpan {
    /// `"15s"`
    Fixed(WithUnit<Duration>),
    /// `{ min = "15s", max = "1m" }`
    Bounds(RawBounds),
}

impl Serialize for RawSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RawSpan::Fixed(time) => time.serialize(serializer),
            RawSpan::Bounds(bounds) => bounds.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for RawSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SpanVisitor;

        impl<'de> Visitor<'de> for SpanVisitor {
            type Value = RawSpan;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a duration or bounds of one; write \"15s\" for one that stays, or { min = \"15s\", max = \"1m\" }",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawSpan, E> {
                let time = <Duration as Unit>::parse(text).map(WithUnit);
                time.map(RawSpan::Fixed).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RawSpan, A::Error> {
                RawBounds::deserialize(de::value::MapAccessDeserializer::new(map)).map(RawSpan::Bounds)
            }
        }

        deserializer.deserialize_any(SpanVisitor)
    }
}

/// A text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Text(pub(super) String);

/// A whole number, not negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(super) struct Count(pub(super) u64);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;

        impl Visitor<'_> for TextVisitor {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text; write it in double quotes")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }
        }

        deserializer.deserialize_str(TextVisitor)
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CountVisitor;

        impl Visitor<'_> for CountVisitor {
            type Value = Count;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number; write it without quotes and without a unit, such as 500")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Count, E> {
                Ok(Count(number))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Count, E> {
                let unexpected = Unexpected::Signed(number);
                u64::try_from(number).map(Count).map_err(|_| E::invalid_value(unexpected, &self))
            }
        }

        deserializer.deserialize_u64(CountVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// That the values are the defaults is held by `tests/it/config_example.rs`.
    #[test]
    fn the_example_shows_every_key() {
        let example =
            [include_str!("../../config/outrider.toml"), include_str!("../../config/tenants/acme.toml")]
                .concat();
        let shows = |key: &str| {
            example.match_indices(key).any(|(at, _)| {
                let before = example[..at].chars().next_back();
                let after = example[at + key.len()..].trim_start();
                before.is_none_or(|c| " {[\n".contains(c)) && after.starts_with(['=', ']', '.'])
            })
        };
        // The tenants are files, not a key.
        for key in KEYS.iter().copied().flatten().filter(|key| **key != "tenants") {
            assert!(shows(key), "`{key}` is not in config/");
        }
    }
}
