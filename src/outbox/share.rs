//! Which replica ought to own which lane, and what one replica does about one lane. Pure.
//!
//! Sharing is a hint: it makes replicas carry about the same number of lanes. The lane's row alone decides who
//! owns it, so that replicas with different views of the fleet do no harm.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::lease::Moment;

/// A free lane of somebody else's share is taken after this long: its owner-to-be had its chance. Much shorter, and
/// a lane that is handed over is caught on its way; longer, and the events of one that nobody fetches wait.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// A lane is not given, again, to a replica that let it lie for so long. A replica that is alive and cannot take its
/// share (it has no way to that database) costs the lane [`PATIENCE`] once in this time; doubled, a replica that
/// was slow only once waits for its share as much longer.
pub const HOLD_OFF: Duration = Duration::from_secs(60);

/// Shares `units` (names of lanes) out among `replicas` (those alive, the caller included): to each the replica
/// that its hash likes best among those that have room, the strongest liking first.
///
/// The same for the same two sets, in whatever order and however often names are repeated. No replica has more than
/// one unit more than another. When one joins or leaves, not many more units move than have to. Empty if there is
/// no replica. Takes `units × replicas` hashes and their sorting.
pub fn share<'a>(units: &[&'a str], replicas: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    let units: BTreeSet<&str> = units.iter().copied().collect();
    let replicas: BTreeSet<&str> = replicas.iter().copied().collect();
    let Some(each) = units.len().checked_div(replicas.len()) else { return BTreeMap::new() };
    let mut extra = units.len() % replicas.len();

    let pairs = units.iter().flat_map(|unit| replicas.iter().map(move |replica| (*unit, *replica)));
    let mut likings: Vec<_> =
        pairs.map(|(unit, replica)| (Reverse(liking(unit, replica)), unit, replica)).collect();
    likings.sort_unstable();

    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut shares = BTreeMap::new();
    for (_, unit, replica) in likings {
        let count = counts.entry(replica).or_default();
        let full = *count == each;
        if shares.contains_key(unit) || *count > each || full && extra == 0 {
            continue;
        }
        extra -= usize::from(full);
        *count += 1;
        shares.insert(unit, replica);
    }
    shares
}

/// How much a unit likes a replica: FNV-1a over both names, its bits mixed so that names which differ in their last
/// letter only are not neighbours. Written out, for every release has to agree with the one it replaces.
fn liking(unit: &str, replica: &str) -> u64 {
    // 0xff is in no UTF-8 text: no other two names make the same bytes.
    let bytes = unit.bytes().chain([0xff]).chain(replica.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// A lane as one replica sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneView {
    pub share: Share,
    pub holder: Holder,
    /// When the replica whose share it is last let it lie, as far as this one knows: this one took it out of
    /// patience then, or gave it away. `None` too if it is another's share than it was then.
    pub let_lie: Option<Moment>,
}

/// Whose a lane ought to be, by [`share`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    Mine,
    /// Another replica's, whose last heartbeat is that old by now.
    Other {
        heartbeat_age: Duration,
    },
}

/// Whose a lane is, by its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Taken then.
    Me {
        since: Moment,
    },
    Other,
    /// Nobody's since then, or for as long as this replica knows.
    Nobody {
        since: Moment,
    },
}

/// What to do about a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Take,
    /// Settle or release what is in flight and give it up.
    Give,
    /// Leave it as it is and decide again later.
    Stay,
}

/// Decides. A free lane is taken at once by the replica whose share it is, and after [`PATIENCE`] by anybody. A lane
/// of another's share is given away only if that replica was alive after this one took it, so that the last
/// heartbeat of a killed process moves no lane, and has not let it lie within [`HOLD_OFF`].
pub fn decide(lane: &LaneView, now: Moment) -> Decision {
    match (lane.holder, lane.share) {
        (Holder::Nobody { .. }, Share::Mine) => Decision::Take,
        (Holder::Nobody { since }, Share::Other { .. }) if now.since(since) >= PATIENCE => Decision::Take,
        (Holder::Me { since }, Share::Other { heartbeat_age }) => {
            let alive = now.before(heartbeat_age) > since;
            let held_off = lane.let_lie.is_some_and(|then| now.since(then) < HOLD_OFF);
            if alive && !held_off { Decision::Give } else { Decision::Stay }
        }
        (Holder::Nobody { .. } | Holder::Other, _) | (Holder::Me { .. }, Share::Mine) => Decision::Stay,
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
