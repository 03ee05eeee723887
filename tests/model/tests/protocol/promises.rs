//! With every guard in place.

use outrider_model::properties::{ONE_AT_A_TIME, PROMISES};
use outrider_model::setup::{Faults, Setup};

use crate::check::{
    A_CRASH, A_SLOW_CLAIM, A_STALL, A_TROUBLE, NO_FAULTS, explores, holds, in_time, two_replicas, writers,
};

#[test]
fn two_replicas_keep_the_promises_through_a_fault() {
    for faults in [A_CRASH, A_TROUBLE, A_STALL, A_SLOW_CLAIM] {
        holds(two_replicas(faults), &PROMISES);
    }
}

#[test]
fn the_promises_hold_for_writers_that_commit_late() {
    holds(writers(&[0, 1, 0, 1], NO_FAULTS), &PROMISES);
    holds(writers(&[0, 1, 0], A_TROUBLE), &PROMISES);
}

/// If a publish arrives before its deadline or never, and no process is stopped between its look at the lease and the
/// hand-over, then replicas never publish side by side.
#[test]
fn one_replica_publishes_at_a_time() {
    for faults in [A_CRASH, A_TROUBLE] {
        holds(in_time(two_replicas(faults)), &[ONE_AT_A_TIME]);
    }
}

#[test]
fn everything_is_sent_once_the_faults_stop() {
    for setup in [two_replicas(A_TROUBLE), two_replicas(A_SLOW_CLAIM), writers(&[0, 1, 0], A_CRASH)] {
        assert_eq!(explores(setup).stuck, None);
    }
}

#[test]
#[ignore = "takes minutes"]
fn two_replicas_keep_the_promises_through_several_faults() {
    holds(two_replicas(Faults { crashes: 1, troubles: 1, slow_claims: 1, stalls: 0 }), &PROMISES);
    holds(two_replicas(Faults { troubles: 2, ..A_STALL }), &PROMISES);
    holds(in_time(two_replicas(Faults { crashes: 1, ..A_TROUBLE })), &[ONE_AT_A_TIME]);
}

#[test]
#[ignore = "takes minutes"]
fn two_replicas_keep_the_promises_beside_writers() {
    holds(Setup { written: false, ..two_replicas(A_TROUBLE) }, &PROMISES);
    for keys in [[0, 1, 0], [0, 0, 0]] {
        holds(Setup { replicas: 2, claims_in_flight: 1, ..writers(&keys, NO_FAULTS) }, &PROMISES);
    }
}

#[test]
#[ignore = "takes minutes"]
fn everything_is_sent_once_several_faults_stop() {
    let faults = Faults { crashes: 1, troubles: 1, slow_claims: 1, stalls: 0 };
    assert_eq!(explores(two_replicas(faults)).stuck, None);
    assert_eq!(explores(Setup { limits: vec![1, 3], ..writers(&[0, 0, 0], A_TROUBLE) }).stuck, None);
}
