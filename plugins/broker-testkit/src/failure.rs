//! What a check saw that it should not have seen.

use std::fmt;

/// Why a check failed. Holds no payload: those can be megabytes.
#[derive(Debug)]
pub struct Failure(String);

impl Failure {
    pub fn new(text: impl Into<String>) -> Self {
        Failure(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Fails with the formatted text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($text)+)));
        }
    };
}

pub(crate) use ensure;
