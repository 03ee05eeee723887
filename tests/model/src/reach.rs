//! Whether everything comes to its end from wherever it got to.
//!
//! The checker's own `eventually` does not look at cycles, and this model has them: leases are renewed, lanes are given
//! and taken. So the question is asked another way, and answered exactly: from every state that can be reached with
//! faults there is a way without further faults to a state where all is sent. The model is finite, so this is the same
//! as: once the faults stop, a run in which nothing that is possible again and again is put off for ever ends there.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use stateright::Model;

use crate::action::Action;
use crate::protocol::Protocol;
use crate::world::World;

/// What [`explore`] found.
#[derive(Debug)]
pub struct Reach {
    /// States that can be reached, up to names.
    pub states: usize,
    /// The way to a state from which the end is out of reach, if there is one.
    pub stuck: Option<Vec<Action>>,
}

/// States by number, in the order in which they were met.
#[derive(Default)]
struct Graph {
    numbers: HashMap<u64, u32>,
    /// From where each was met first, and by what.
    met: Vec<Option<(u32, Action)>>,
    /// Steps that are no faults, as (to, from).
    calm: Vec<(u32, u32)>,
    ends: Vec<u32>,
}

/// Walks the whole graph of states, then back from the ends along what is no fault.
pub fn explore(protocol: &Protocol) -> Reach {
    let mut graph = Graph::default();
    let mut frontier: Vec<(u32, World)> = Vec::new();
    for world in protocol.init_states() {
        frontier.extend(graph.meet(&world, None).1.then_some((0, world)));
    }
    while let Some((from, world)) = frontier.pop() {
        if protocol.is_finished(&world) {
            graph.ends.push(from);
        }
        for (action, next) in protocol.next_steps(&world) {
            let (to, is_new) = graph.meet(&next, Some((from, action)));
            if !action.is_fault() {
                graph.calm.push((to, from));
            }
            frontier.extend(is_new.then_some((to, next)));
        }
    }
    Reach { states: graph.met.len(), stuck: graph.stuck() }
}

impl Graph {
    /// The number of a state, and whether it is met for the first time. Like the checker itself this takes two states
    /// for one if their hashes are equal.
    fn meet(&mut self, world: &World, by: Option<(u32, Action)>) -> (u32, bool) {
        let mut hasher = DefaultHasher::new();
        world.representative().hash(&mut hasher);
        let next = u32::try_from(self.met.len()).unwrap_or(u32::MAX);
        let number = *self.numbers.entry(hasher.finish()).or_insert(next);
        if number == next {
            self.met.push(by);
        }
        (number, number == next)
    }

    fn stuck(mut self) -> Option<Vec<Action>> {
        self.calm.sort_unstable();
        let mut comes_to_end = vec![false; self.met.len()];
        let mut frontier = std::mem::take(&mut self.ends);
        for end in &frontier {
            comes_to_end[*end as usize] = true;
        }
        while let Some(to) = frontier.pop() {
            let first = self.calm.partition_point(|(other, _)| *other < to);
            for (_, from) in self.calm[first..].iter().take_while(|(other, _)| *other == to) {
                if !std::mem::replace(&mut comes_to_end[*from as usize], true) {
                    frontier.push(*from);
                }
            }
        }
        let stuck = comes_to_end.iter().position(|comes| !comes)?;
        Some(self.way_to(stuck))
    }

    fn way_to(&self, mut state: usize) -> Vec<Action> {
        let mut way = Vec::new();
        while let Some((from, action)) = self.met[state] {
            way.push(action);
            state = from as usize;
        }
        way.reverse();
        way
    }
}
