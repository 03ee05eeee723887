//! The model as the checker sees it.

use stateright::{Model, Property};

use crate::action::{self, Action};
use crate::database::Row;
use crate::properties;
use crate::setup::Setup;
use crate::step;
use crate::world::World;

/// See the crate.
#[derive(Clone, Debug)]
pub struct Protocol {
    setup: Setup,
    /// The properties that are looked at.
    watched: Vec<&'static str>,
    /// Those of them that must hold in every state.
    promises: Vec<fn(&Protocol, &World) -> bool>,
}

impl Protocol {
    pub fn new(setup: Setup, watched: &[&'static str]) -> Self {
        let all = properties::all().into_iter().filter(|property| watched.contains(&property.name));
        let promises = all.filter(properties::is_promise).map(|property| property.condition).collect();
        Protocol { setup, watched: watched.to_vec(), promises }
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Whether every event was written and settled as sent.
    pub fn is_finished(&self, world: &World) -> bool {
        self.setup.events().all(|seq| world.database.row(seq) == Row::Gone)
    }

    /// Whether a property does not hold in a state: nothing beyond it is of interest.
    fn is_broken(&self, world: &World) -> bool {
        self.promises.iter().any(|holds| !holds(self, world))
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(&self.setup)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !self.is_broken(world) {
            action::possible(&self.setup, world, actions);
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let next = step::apply(&self.setup, world, action);
        (next != *world).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = properties::all();
        all.retain(|property| self.watched.contains(&property.name));
        all
    }
}
