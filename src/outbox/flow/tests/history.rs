//! Thousands of random histories. What has to hold is asserted where it can break: in [`super::owner`] what a
//! flow decides, in [`super::broker`] the order of first copies, in [`super::world`] that nothing is lost, stuck
//! or counted wrong.

use proptest::prelude::*;

use super::world::{Knobs, World};

/// Enough to miss a rule within a run if it is one of order or of ends; twice as many take twice the time.
const HISTORIES: u32 = 1_500;

prop_compose! {
    fn knobs()(
        seed in any::<u64>(),
        steps in 20_usize..500,
        topics in 1_usize..=3,
        keys in 1_usize..=4,
        claims_in_flight in 1_usize..=4,
        batch_events in 1_usize..=12,
        (skip, trouble, curse) in any::<(bool, bool, bool)>(),
        (cuts, takes, overlap) in any::<(bool, bool, bool)>(),
    ) -> Knobs {
        Knobs {
            seed, steps, topics, keys, claims_in_flight, batch_events, skip, trouble, curse, cuts, takes, overlap,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: HISTORIES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn order_ends_and_counts_hold_in_every_history(knobs in knobs()) {
        let steps = knobs.steps;
        let mut world = World::new(knobs);
        for _ in 0..steps {
            world.step();
        }
        world.settle_down();
    }
}
