//! A check that never comes across what a rule is for says nothing about the rule.

use outrider_model::properties::{FLOOR, ORPHAN, SECOND_COPY, STALE_CONFIRM, STALE_FAILURE, TWO_OWNERS};

use crate::check::{A_TROUBLE, NO_FAULTS, finds, two_replicas, writers};

#[test]
fn the_checks_come_across_what_the_rules_are_for() {
    for sight in [TWO_OWNERS, STALE_FAILURE, STALE_CONFIRM, SECOND_COPY, ORPHAN] {
        finds(two_replicas(A_TROUBLE), sight);
    }
    finds(writers(&[0, 1, 0], NO_FAULTS), FLOOR);
}
