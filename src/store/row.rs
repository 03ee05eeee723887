//! Values between Rust and PostgreSQL: what a column holds, checked, and what an argument may be, clamped.
//!
//! Nothing here panics on what a database holds: a time that the `time` crate cannot say is moved to the nearest that it can.

use std::time::Duration;

use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef};
use sqlx::{Decode, Postgres, Row, Type};
use time::OffsetDateTime;
use time::macros::datetime;

use super::StoreError;
use super::sql::Statement;

/// Longest interval that is sent: later than this is a mistake, and PostgreSQL's timestamps must not overflow.
const MAX_INTERVAL: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Longest error text that is stored, in characters.
const MAX_ERROR: usize = 500;

/// A row with the step that asked for it, for errors.
pub(super) struct Columns<'r> {
    step: &'static str,
    row: &'r PgRow,
}

impl<'r> Columns<'r> {
    pub(super) fn new(statement: &Statement, row: &'r PgRow) -> Self {
        Self { step: statement.step, row }
    }

    pub(super) fn get<T>(&self, column: &str) -> Result<T, StoreError>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        self.row
            .try_get(column)
            .map_err(|error| StoreError::Decode { step: self.step, reason: error.to_string() })
    }

    /// The same by place, where there are many rows.
    pub(super) fn at<T>(&self, index: usize) -> Result<T, StoreError>
    where
        T: Decode<'r, Postgres> + Type<Postgres>,
    {
        self.row
            .try_get(index)
            .map_err(|error| StoreError::Decode { step: self.step, reason: error.to_string() })
    }

    /// A count, never negative.
    pub(super) fn count(&self, column: &str) -> Result<u64, StoreError> {
        Ok(u64::try_from(self.get::<i64>(column)?).unwrap_or(0))
    }

    /// An interval, never negative.
    pub(super) fn duration(&self, column: &str) -> Result<Option<Duration>, StoreError> {
        Ok(self.get::<Option<PgInterval>>(column)?.map(length))
    }

    /// The same by place.
    pub(super) fn duration_at(&self, index: usize) -> Result<Option<Duration>, StoreError> {
        Ok(self.at::<Option<PgInterval>>(index)?.map(length))
    }

    /// A time of the database.
    pub(super) fn timestamp(&self, column: &str) -> Result<Option<OffsetDateTime>, StoreError> {
        Ok(self.get::<Option<Timestamp>>(column)?.map(|t| t.0))
    }
}

/// A `timestamptz`. The driver's own decoding panics on `infinity` and on years past 9999, both of which an application may
/// have written.
pub(super) struct Timestamp(pub(super) OffsetDateTime);

impl Type<Postgres> for Timestamp {
    fn type_info() -> PgTypeInfo {
        <OffsetDateTime as Type<Postgres>>::type_info()
    }
}

impl<'r> Decode<'r, Postgres> for Timestamp {
    fn decode(value: PgValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        // Binary: microseconds since the start of 2000, in UTC.
        let micros = <i64 as Decode<Postgres>>::decode(value)?;
        Ok(Self(since_2000(micros)))
    }
}

fn since_2000(micros: i64) -> OffsetDateTime {
    datetime!(2000-01-01 00:00 UTC).saturating_add(time::Duration::microseconds(micros))
}

fn length(interval: PgInterval) -> Duration {
    let days = i64::from(interval.months) * 30 + i64::from(interval.days);
    let micros = days.saturating_mul(86_400_000_000).saturating_add(interval.microseconds);
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

/// A duration as PostgreSQL counts: whole microseconds, at most a century.
pub(super) fn interval(duration: Duration) -> PgInterval {
    let micros = duration.min(MAX_INTERVAL).as_micros();
    PgInterval { months: 0, days: 0, microseconds: i64::try_from(micros).unwrap_or(i64::MAX) }
}

/// A retry delay in milliseconds, at most `limit`.
pub(super) fn delay_ms(delay: Duration, limit: Duration) -> i64 {
    i64::try_from(delay.min(limit).as_millis()).unwrap_or(i64::MAX)
}

/// An error text that PostgreSQL takes: without NUL, at most 500 characters.
pub(super) fn clean(error: &str) -> String {
    error.chars().filter(|c| *c != '\0').take(MAX_ERROR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_timestamp_is_some_time() {
        assert_eq!(since_2000(0), datetime!(2000-01-01 00:00 UTC));
        assert_eq!(since_2000(-1_000_000), datetime!(1999-12-31 23:59:59 UTC));
        for micros in [i64::MAX, i64::MIN, i64::MAX - 1, 300_000_000_000_000_000] {
            let _ = since_2000(micros);
        }
    }

    #[test]
    fn intervals_are_clamped_both_ways() {
        assert_eq!(interval(Duration::from_nanos(1_999)).microseconds, 1);
        assert_eq!(interval(Duration::MAX).microseconds, 100 * 365 * 86_400 * 1_000_000);
        assert_eq!(length(PgInterval { months: 0, days: 0, microseconds: -5 }), Duration::ZERO);
        assert_eq!(
            length(PgInterval { months: 1, days: 1, microseconds: 1 }).as_micros(),
            31 * 86_400_000_000 + 1
        );
        assert_eq!(
            length(PgInterval { months: i32::MAX, days: i32::MAX, microseconds: i64::MAX }).as_secs(),
            9_223_372_036_854
        );
    }

    #[test]
    fn a_delay_never_overflows() {
        let year = Duration::from_secs(366 * 86_400);
        assert_eq!(delay_ms(Duration::MAX, year), 366 * 86_400_000);
        assert_eq!(delay_ms(Duration::from_micros(1_500), year), 1);
    }

    #[test]
    fn an_error_text_is_cut_at_characters() {
        assert_eq!(clean("a\0b"), "ab");
        assert_eq!(clean(&"é".repeat(1_000_000)).chars().count(), 500);
    }
}
