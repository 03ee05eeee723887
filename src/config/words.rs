//! Values that are one of a few words. Each variant has one word, and a test knows that none was forgotten.

use super::{LogFormat, Pooling};
use crate::outbox::{OnDead, Shape};

/// `log.format`
pub(super) const LOG_FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// `delivery.on_dead` and a route's `on_dead`
pub(super) const ON_DEAD: &[(&str, OnDead)] = &[("block", OnDead::Block), ("skip", OnDead::Skip)];

/// `brokers.NAME.shape`
pub(super) const SHAPES: &[(&str, Shape)] =
    &[("cloudevents", Shape::CloudEvents), ("debezium", Shape::Debezium), ("plain", Shape::Plain)];

/// `database.pooling`
pub(super) const POOLINGS: &[(&str, Pooling)] =
    &[("session", Pooling::Session), ("transaction", Pooling::Transaction)];

/// The word for a variant.
pub(super) fn word<V: PartialEq + Copy>(value: V, words: &[(&'static str, V)]) -> &'static str {
    let found = words.iter().find(|(_, known)| *known == value);
    found.expect("every variant has a word, see the test").0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A new variant does not compile here until it is listed, and fails until it has a word.
    #[test]
    fn every_variant_has_a_word() {
        for shape in [Shape::CloudEvents, Shape::Debezium, Shape::Plain] {
            match shape {
                Shape::CloudEvents | Shape::Debezium | Shape::Plain => {
                    assert!(!word(shape, SHAPES).is_empty())
                }
            }
        }
        for format in [LogFormat::Text, LogFormat::Json] {
            match format {
                LogFormat::Text | LogFormat::Json => assert!(!word(format, LOG_FORMATS).is_empty()),
            }
        }
        for pooling in [Pooling::Session, Pooling::Transaction] {
            match pooling {
                Pooling::Session | Pooling::Transaction => assert!(!word(pooling, POOLINGS).is_empty()),
            }
        }
        for on_dead in [OnDead::Block, OnDead::Skip] {
            match on_dead {
                OnDead::Block | OnDead::Skip => assert!(!word(on_dead, ON_DEAD).is_empty()),
            }
        }
    }
}
