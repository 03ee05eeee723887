//! Exit codes: what a script or a service manager learns from the end of the process. Nothing else decides
//! one.

use std::process::ExitCode;

/// How the process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done; of `run`: drained, nothing was left in flight.
    Success,
    /// Not done: a config with faults, a database or broker that can't be reached, a refused migration.
    Failure,
    /// A command line that was not understood.
    Usage,
    /// `run` was stopped before all that was in flight had ended. Nothing is lost; what was handed over and not
    /// settled is sent again.
    DrainIncomplete,
}

impl Exit {
    pub const ALL: [Exit; 4] = [Exit::Success, Exit::Failure, Exit::Usage, Exit::DrainIncomplete];

    /// The number that the operating system gets. Scripts know them, so they never change.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::DrainIncomplete => 3,
        }
    }

    /// One line for `--help`.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Success => "done; after `run`: everything in flight was finished",
            Exit::Failure => "not done; the reason is on standard error",
            Exit::Usage => "the command line was not understood",
            Exit::DrainIncomplete => "`run` was stopped before all in flight was finished; it is sent again",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_fixed() {
        assert_eq!(Exit::ALL.map(Exit::code), [0, 1, 2, 3]);
        assert!(Exit::ALL.iter().all(|exit| !exit.meaning().is_empty()));
    }
}
