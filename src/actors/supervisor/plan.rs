//! Desired against actual. Pure. Start-up, crash recovery and shutdown are this one path.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use crate::actors::exit::ChildId;

/// What the supervisor knows of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildState {
    Running,
    /// Told to end.
    Draining,
    /// Ended; starts again then.
    Resting {
        until: Instant,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Start(ChildId),
    Drain(ChildId),
    /// It is resting and nobody wants it any more.
    Forget(ChildId),
}

/// What to do now. Publishers end after the last claimer, for a claimer that drains still publishes.
pub(super) fn plan(
    desired: &BTreeSet<ChildId>,
    children: &BTreeMap<ChildId, ChildState>,
    now: Instant,
) -> Vec<Action> {
    let start = desired.iter().filter(|child| match children.get(child) {
        None => true,
        Some(ChildState::Resting { until }) => *until <= now,
        Some(ChildState::Running | ChildState::Draining) => false,
    });
    let claimers_live = children.iter().any(|(child, state)| {
        matches!(child, ChildId::Claimer(_)) && !matches!(state, ChildState::Resting { .. })
    });
    let end =
        children.iter().filter(|(child, _)| !desired.contains(child)).filter_map(
            |(child, state)| match state {
                ChildState::Resting { .. } => Some(Action::Forget(child.clone())),
                ChildState::Running if matches!(child, ChildId::Publisher(_)) && claimers_live => None,
                ChildState::Running => Some(Action::Drain(child.clone())),
                ChildState::Draining => None,
            },
        );
    start.cloned().map(Action::Start).chain(end).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn claimer(name: &str) -> ChildId {
        ChildId::Claimer(name.into())
    }

    fn publisher(kind: &str) -> ChildId {
        ChildId::Publisher(kind.into())
    }

    #[test]
    fn one_path_for_start_crash_and_shutdown() {
        use Action::{Drain, Forget, Start};
        use ChildState::{Draining, Resting, Running};
        let now = Instant::now();
        let later = Resting { until: now + Duration::from_secs(1) };
        let due = Resting { until: now };
        let (a, b, k) = (claimer("a"), claimer("b"), publisher("kafka"));
        let table = [
            (
                "start-up",
                vec![&a, &b, &k],
                vec![],
                vec![Start(a.clone()), Start(b.clone()), Start(k.clone())],
            ),
            ("nothing to do", vec![&a, &k], vec![(&a, Running), (&k, Running)], vec![]),
            ("a crash, resting", vec![&a, &k], vec![(&a, later), (&k, Running)], vec![]),
            ("a crash, rested", vec![&a, &k], vec![(&a, due), (&k, Running)], vec![Start(a.clone())]),
            (
                "tenant removed",
                vec![&a, &k],
                vec![(&a, Running), (&b, Running), (&k, Running)],
                vec![Drain(b.clone())],
            ),
            (
                "shutdown: claimers first",
                vec![],
                vec![(&a, Running), (&b, Draining), (&k, Running)],
                vec![Drain(a.clone())],
            ),
            ("shutdown: claimers drain", vec![], vec![(&b, Draining), (&k, Running)], vec![]),
            ("shutdown: then publishers", vec![], vec![(&k, Running)], vec![Drain(k.clone())]),
            (
                "shutdown with a resting child",
                vec![],
                vec![(&a, later), (&k, Running)],
                vec![Forget(a.clone()), Drain(k.clone())],
            ),
            ("end", vec![], vec![], vec![]),
        ];
        for (name, desired, children, actions) in table {
            let desired = desired.into_iter().cloned().collect();
            let children = children.into_iter().map(|(child, state)| (child.clone(), state)).collect();
            assert_eq!(plan(&desired, &children, now), actions, "{name}");
        }
    }
}
