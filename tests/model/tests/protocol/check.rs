//! Running a check, and the bounds that most of them share.

use std::time::Instant;

use outrider_model::action::Action;
use outrider_model::protocol::Protocol;
use outrider_model::reach::{self, Reach};
use outrider_model::setup::{Faults, Setup};
use outrider_model::world::World;
use stateright::{Checker, HasDiscoveries, Model};

pub(crate) const NO_FAULTS: Faults = Faults { crashes: 0, troubles: 0, stalls: 0, slow_claims: 0 };
pub(crate) const A_CRASH: Faults = Faults { crashes: 1, ..NO_FAULTS };
pub(crate) const A_TROUBLE: Faults = Faults { troubles: 1, ..NO_FAULTS };
pub(crate) const A_STALL: Faults = Faults { stalls: 1, ..NO_FAULTS };
pub(crate) const A_SLOW_CLAIM: Faults = Faults { slow_claims: 1, ..NO_FAULTS };

/// Two replicas, and two events of one key that are there from the start.
pub(crate) fn two_replicas(faults: Faults) -> Setup {
    Setup {
        keys: vec![0, 0],
        limits: vec![2],
        claims_in_flight: 1,
        faults,
        written: true,
        outlives_deadline: true,
        replicas: 2,
        without: Vec::new(),
    }
}

/// One replica, and writers that commit events of these keys meanwhile.
pub(crate) fn writers(keys: &[u8], faults: Faults) -> Setup {
    Setup {
        keys: keys.to_vec(),
        limits: vec![3],
        claims_in_flight: 2,
        written: false,
        replicas: 1,
        ..two_replicas(faults)
    }
}

/// A publish arrives before its deadline or never.
pub(crate) fn in_time(setup: Setup) -> Setup {
    Setup { outlives_deadline: false, ..setup }
}

/// Looks at every state. States that differ in names only are one.
pub(crate) fn holds(setup: Setup, properties: &[&'static str]) {
    let begun = Instant::now();
    let bounds = format!("{setup:?}");
    let protocol = Protocol::new(setup, properties);
    let checker = protocol.checker().symmetry_fn(World::representative).spawn_dfs().join();
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    println!("{states} states, {steps} steps, {:.1} s: {bounds}", begun.elapsed().as_secs_f32());
    checker.assert_properties();
}

/// Looks for a state in which a promise is broken, or that shows something, the nearest first. Returns how it is come to.
pub(crate) fn finds(setup: Setup, property: &'static str) -> Vec<Action> {
    let without = setup.without.clone();
    let protocol = Protocol::new(setup, &[property]);
    let checker = protocol.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let Some(path) = checker.discovery(property) else {
        panic!("not found in {} states without {without:?}: {property}", checker.unique_state_count());
    };
    let actions = path.into_actions();
    println!("{property}, without {without:?}, {} states: {actions:#?}", checker.unique_state_count());
    actions
}

/// Looks from every state for a way to the end that needs no more faults.
pub(crate) fn explores(setup: Setup) -> Reach {
    let begun = Instant::now();
    let bounds = format!("{setup:?}");
    let reach = reach::explore(&Protocol::new(setup, &[]));
    println!("{} states back and forth, {:.1} s: {bounds}", reach.states, begun.elapsed().as_secs_f32());
    reach
}
