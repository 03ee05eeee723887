//! Values with a unit, as text in the config: durations and sizes. Knows no key and no limit.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Unexpected, Visitor};
use serde::{Serialize, Serializer};

/// A value that is written as text with a unit.
pub trait Unit: Sized + Copy {
    /// What the text must be, and after `; ` what to write.
    const EXPECTED: &'static str;

    /// `None` if the text is not such a value or is too large to be held.
    fn parse(text: &str) -> Option<Self>;

    /// The shortest text that parses to the same value.
    fn text(self) -> String;
}

/// Largest units first.
const DURATION_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Unit for Duration {
    const EXPECTED: &'static str =
        "a duration; write a whole number and ms, s, m, h or d, such as \"500ms\", \"8s\", \"5m\" or \"7d\"";

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let millis = DURATION_UNITS.iter().find(|(name, _)| *name == unit)?.1;
        number.checked_mul(millis).map(Duration::from_millis)
    }

    fn text(self) -> String {
        let millis = u64::try_from(self.as_millis()).unwrap_or(u64::MAX);
        text(millis, &DURATION_UNITS, "0s")
    }
}

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Largest units first.
const SIZE_UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Unit for ByteSize {
    const EXPECTED: &'static str =
        "a size; write a whole number and B, KiB, MiB or GiB, such as \"64MiB\" or \"512KiB\"";

    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let bytes = SIZE_UNITS.iter().find(|(name, _)| *name == unit)?.1;
        number.checked_mul(bytes).map(ByteSize)
    }

    fn text(self) -> String {
        text(self.0, &SIZE_UNITS, "0B")
    }
}

/// `8s` and `8 s` into 8 and `s`.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let number = text[..end].parse().ok()?;
    Some((number, text[end..].trim_start()))
}

fn text(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    let unit = units.iter().find(|(_, size)| value != 0 && value.is_multiple_of(*size));
    unit.map_or_else(|| zero.to_owned(), |(name, size)| format!("{}{name}", value / size))
}

/// A [`Unit`] inside a serde structure. A number without a unit is refused: it is the usual way in which a
/// timeout becomes a thousand times too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WithUnit<T>(pub T);

impl<T: Unit> Serialize for WithUnit<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text())
    }
}

impl<'de, T: Unit> Deserialize<'de> for WithUnit<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text<T>(PhantomData<T>);

        impl<T: Unit> Visitor<'_> for Text<T> {
            type Value = WithUnit<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::EXPECTED)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                T::parse(text).map(WithUnit).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_str(Text(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let millis = |text| Duration::parse(text).map(|duration| duration.as_millis());
        for (text, expected) in [
            ("500ms", Some(500)),
            ("8s", Some(8_000)),
            ("8 s", Some(8_000)),
            (" 8s ", Some(8_000)),
            ("5m", Some(300_000)),
            ("2h", Some(7_200_000)),
            ("7d", Some(604_800_000)),
            ("0s", Some(0)),
            ("8", None),
            ("", None),
            ("s", None),
            ("-8s", None),
            ("1.5s", None),
            ("8S", None),
            ("8sec", None),
            ("1m30s", None),
            ("18446744073709551615ms", Some(u128::from(u64::MAX))),
            ("18446744073709551615s", None),
            ("99999999999999999999999s", None),
            ("٣s", None),
        ] {
            assert_eq!(millis(text), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("64MiB", Some(64 << 20)),
            ("1GiB", Some(1 << 30)),
            ("512 KiB", Some(512 << 10)),
            ("7B", Some(7)),
            ("64MB", None),
            ("64", None),
            ("99999999999GiB", None),
        ] {
            assert_eq!(ByteSize::parse(text).map(|size| size.0), expected, "{text:?}");
        }
    }

    #[test]
    fn text_is_the_shortest_that_parses_back() {
        for text in ["500ms", "8s", "90s", "5m", "36h", "7d", "0s", "1500ms"] {
            assert_eq!(Duration::parse(text).unwrap().text(), text);
        }
        for text in ["64MiB", "3GiB", "1025B", "0B", "1KiB"] {
            assert_eq!(ByteSize::parse(text).unwrap().text(), text);
        }
        assert_eq!(Duration::parse("60s").unwrap().text(), "1m");
    }
}
