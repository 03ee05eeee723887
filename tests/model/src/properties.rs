//! What must hold in every state, and what a check must come across to be worth anything.

use stateright::{Expectation, Property};

use crate::database::{End, Row};
use crate::memory::Slot;
use crate::protocol::Protocol;
use crate::world::World;

pub const NOTHING_LOST: &str = "nothing is settled as sent that the broker does not have";
pub const ORDER: &str = "first copies arrive in the order of seq";
/// Looked at as long as the one who reclaimed them has the lane.
pub const FENCED: &str = "failures of an owner whose claims were reclaimed change nothing";
/// The first confirm takes the row away, and nothing brings it back: so it counts once.
pub const SENT_ONCE: &str = "what is settled as sent stays so";
/// Holds only where a publish does not outlive its deadline and no process is stopped between look and hand-over.
pub const ONE_AT_A_TIME: &str = "nothing arrives from a process while another has the lane";

/// Promised whatever happens.
pub const PROMISES: [&str; 4] = [NOTHING_LOST, ORDER, FENCED, SENT_ONCE];

/// What checks have to come across, from here on.
pub const TWO_OWNERS: &str = "two processes take themselves for the owner";
pub const STALE_FAILURE: &str = "an owner has a failure to write and its claim row is gone";
pub const STALE_CONFIRM: &str = "a late confirm has settled what the new owner has claimed and not sent";
pub const SECOND_COPY: &str = "an event is on its way that the broker has";
pub const ORPHAN: &str = "an event is parked and has no head";
pub const FLOOR: &str = "a scan leaves out an event that is not settled";

/// All of the above.
pub(crate) fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always(NOTHING_LOST, |_, world: &World| {
            world.database.with(|row| row == Row::Gone).without(world.broker.has).is_empty()
        }),
        Property::always(ORDER, |_, world: &World| !world.broken.order),
        Property::always(FENCED, |_, world: &World| !world.broken.fence),
        Property::always(SENT_ONCE, |_, world: &World| !world.broken.sent_twice),
        Property::always(ONE_AT_A_TIME, |_, world: &World| !world.broken.side_by_side),
        Property::sometimes(TWO_OWNERS, |_, world: &World| {
            world.processes.iter().filter(|process| process.tenure.is_some()).count() > 1
        }),
        Property::sometimes(STALE_FAILURE, stale_failure),
        Property::sometimes(STALE_CONFIRM, stale_confirm),
        Property::sometimes(SECOND_COPY, |_, world: &World| {
            let out = world.processes.iter().flat_map(|process| process.find(is_out));
            out.into_iter().any(|(_, seq)| world.broker.has.contains(seq))
        }),
        Property::sometimes(ORPHAN, |protocol: &Protocol, world: &World| {
            let held = world.database.with(|row| matches!(row, Row::Waiting | Row::Parked));
            let parked = world.database.with(|row| row == Row::Parked);
            parked.iter().any(|seq| !protocol.setup().before(seq).overlaps(held))
        }),
        Property::sometimes(FLOOR, |protocol: &Protocol, world: &World| {
            let left = world.database.with(|row| row != Row::Gone).iter().next();
            let scans = world.processes.iter().filter_map(|process| process.tenure.as_ref());
            left.is_some_and(|left| scans.into_iter().any(|tenure| left <= tenure.after(protocol.setup())))
        }),
    ]
}

/// Whether it is one that must hold in every state.
pub(crate) fn is_promise(property: &Property<Protocol>) -> bool {
    property.expectation == Expectation::Always
}

fn is_out(slot: Slot) -> bool {
    matches!(slot, Slot::Out { .. })
}

fn stale_failure(_: &Protocol, world: &World) -> bool {
    let failed = |slot| slot == Slot::Ended(End::Failed);
    let mut ends = world.processes.iter().flat_map(|process| process.find(failed));
    ends.any(|(token, _)| world.database.flying(&[token]).is_empty())
}

fn stale_confirm(_: &Protocol, world: &World) -> bool {
    let mut waiting = world.processes.iter().flat_map(|process| process.find(|slot| slot == Slot::Waiting));
    waiting.any(|(token, seq)| {
        world.database.flying(&[token]).contains(seq) && world.database.row(seq) == Row::Gone
    })
}
