//! Places where the fault kit ends the process, and guards that it may take away. Only with the feature `failpoints`,
//! which no shipped program has: without it every function here is empty.
//!
//! `FAILPOINTS="after-claim=20*off->return(3)"` lets the place be reached 20 times and ends the process, as SIGKILL
//! does, 3 ms after the next. `FAILPOINTS="publish=return(orders.poison.v1)"` makes a publisher panic over every event of
//! that type. `OUTRIDER_WITHOUT_GUARD=claim-token` sends statements without that guard.

/// A guard by its name, the statement that it stands in, and what stands there without it.
#[cfg(any(test, feature = "failpoints"))]
const GUARDS: [(&str, &str, &str, &str); 4] = [
    ("claim-token", "settle_failed", "FROM i, c WHERE i.seq = ANY (c.seqs)", "FROM i"),
    (
        "lane-lock",
        "claim",
        "SELECT lane, until FROM outrider.lane\n   WHERE lane = :lane AND owner = :owner AND until > clock_timestamp() AND EXISTS (SELECT FROM win) FOR SHARE",
        "SELECT lane, clock_timestamp() + interval '1 h' AS until FROM outrider.lane\n   WHERE lane = :lane AND :owner::uuid IS NOT NULL AND EXISTS (SELECT FROM win)",
    ),
    (
        "floor",
        "claim",
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS xmin",
        "SELECT 9223372036854775807 AS xmin",
    ),
    ("key-block", "claim", "h.hold <= w.blocking", "h.hold <= w.blocking AND false"),
];

#[cfg(not(feature = "failpoints"))]
mod inner {
    /// Keeps nothing.
    #[derive(Debug)]
    pub(crate) struct Armed;

    pub(crate) fn arm() -> Armed {
        Armed
    }

    #[inline(always)]
    pub(crate) fn reach(_place: &'static str) {}

    #[inline(always)]
    pub(crate) fn publish(_messages: &[outrider_broker::Message]) {}

    #[inline(always)]
    pub(crate) fn weaken(_statement: &str, source: &'static str) -> std::borrow::Cow<'static, str> {
        source.into()
    }
}

#[cfg(feature = "failpoints")]
mod inner {
    use std::borrow::Cow;
    use std::time::Duration;

    use rustix::process::{Signal, getpid, kill_process};

    use super::GUARDS;

    /// Holds the fail points of the environment as long as it lives.
    pub(crate) struct Armed(#[expect(dead_code, reason = "kept for its drop")] fail::FailScenario<'static>);

    impl std::fmt::Debug for Armed {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Armed").finish_non_exhaustive()
        }
    }

    pub(crate) fn arm() -> Armed {
        let armed = Armed(fail::FailScenario::setup());
        for (place, actions) in fail::list() {
            tracing::warn!(place, actions, "a fail point is set");
        }
        if let Ok(guard) = std::env::var("OUTRIDER_WITHOUT_GUARD") {
            tracing::warn!(guard, "a guard is taken away");
        }
        armed
    }

    pub(crate) fn reach(place: &'static str) {
        fail::fail_point!(place, |delay_ms: Option<String>| end_after(delay_ms));
    }

    /// Panics over a message of the type that the fail point names.
    #[expect(clippy::panic, reason = "what the fault kit asks for")]
    pub(crate) fn publish(messages: &[outrider_broker::Message]) {
        fail::fail_point!("publish", |kind: Option<String>| {
            if let Some(message) = messages.iter().find(|message| kind.as_deref() == Some(&*message.kind)) {
                panic!("over event {}, as the fail point asks", message.id);
            }
        });
    }

    fn end_after(delay_ms: Option<String>) {
        let delay = delay_ms.and_then(|text| text.parse().ok()).map_or(Duration::ZERO, Duration::from_millis);
        if delay.is_zero() {
            end();
        }
        std::thread::spawn(move || {
            std::thread::sleep(delay);
            end();
        });
    }

    fn end() {
        let _ = kill_process(getpid(), Signal::KILL);
    }

    pub(crate) fn weaken(statement: &str, source: &'static str) -> Cow<'static, str> {
        let taken = std::env::var("OUTRIDER_WITHOUT_GUARD").unwrap_or_default();
        let guard = GUARDS.iter().find(|(name, file, ..)| *name == taken && *file == statement);
        guard.map_or(Cow::Borrowed(source), |(_, _, with, without)| source.replacen(with, without, 1).into())
    }
}

pub(crate) use inner::{arm, publish, reach, weaken};

#[cfg(test)]
mod tests {
    use super::GUARDS;

    #[test]
    fn every_guard_stands_in_its_statement() {
        for (name, file, with, without) in GUARDS {
            let path = format!("{}/src/store/sql/{file}.sql", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            assert_eq!(text.matches(with).count(), 1, "{name}");
            assert_ne!(with, without, "{name}");
        }
    }
}
