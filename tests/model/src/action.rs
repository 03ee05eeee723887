//! What can happen next.

use crate::database::{Ask, Row, Token, Who};
use crate::memory::{Claim, Process, Slot};
use crate::seqs::Seq;
use crate::setup::{Guard, Setup};
use crate::world::World;

/// Claim rows at most. With every guard in place there are never so many; without one they could pile up for ever.
const CLAIM_ROWS: usize = 4;

/// An event of a claim that a process remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flight {
    pub who: Who,
    pub token: Token,
    pub seq: Seq,
}

/// One step of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A writer's insert takes the event's `seq`; it began after the previous event of the key was committed.
    Insert(Seq),
    Commit(Seq),

    /// The time comes from which this owner hands nothing over any more, unless it renews.
    LeaseGetsShort(Who),
    /// `until` passes.
    LeaseEnds,
    Take(Who),
    /// Without [`Guard::ReclaimAfterTake`]: the statement waits for a running CLAIM.
    TakeWaits(Who),
    Reclaim(Who),
    Orphans(Who),
    Renew(Who),
    Give(Who),

    /// CLAIM or CLAIM DUE, sent, done and answered.
    Claim(Who, Ask),
    /// The same, read and not yet committed.
    ClaimReads(Who, Ask),
    ClaimCommits,

    /// Looks at the lease, finds enough of it left, and hands over.
    HandOver(Flight),
    /// Looks at the lease, finds enough of it left, and is stopped.
    Stall(Flight),
    /// Goes on where it was stopped: the publish leaves.
    Resume(Flight),
    /// The broker gets it.
    Arrive(Flight),
    /// The broker gets a copy that nobody waits for.
    ArriveAdrift(Seq),
    Confirm(Flight),
    /// The broker says no, for good or for now.
    Refuse(Flight),
    /// It comes back without having left, or the broker is in trouble.
    NotSent(Flight),
    /// No word before the deadline.
    Unknown(Flight),
    /// The same, of what was handed over under a lease that ended meanwhile.
    Expire(Flight),
    /// What waits goes back: the lease is too short, or something before it went back.
    Release(Who),
    /// What waits goes back, for the breaker is open.
    BreakerOpens(Who),
    SettleSent(Who, Token),
    SettleFailed(Who, Token),
    Crash(Who),
}

impl Action {
    /// Whether it is a fault: one of a bounded number of bad things, without which everything has to come to its end.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Action::Stall(_)
                | Action::Refuse(_)
                | Action::NotSent(_)
                | Action::Unknown(_)
                | Action::BreakerOpens(_)
                | Action::ClaimReads(..)
                | Action::Crash(_)
        )
    }
}

/// Collects every action that is possible in a state.
pub(crate) fn possible(setup: &Setup, world: &World, actions: &mut Vec<Action>) {
    writers(setup, world, actions);
    if lease_may_end(world) {
        actions.push(Action::LeaseEnds);
    }
    if world.database.running.is_some() {
        actions.push(Action::ClaimCommits);
    }
    actions.extend(world.broker.adrift.iter().map(Action::ArriveAdrift));
    for (who, process) in world.processes.iter().enumerate() {
        flights(setup, world, who, process, actions);
        if world.left.crashes > 0 && *process != Process::default() {
            actions.push(Action::Crash(who));
        }
        // The clock goes on while a process is stopped.
        if process.tenure.as_ref().is_some_and(|tenure| tenure.fresh) {
            actions.push(Action::LeaseGetsShort(who));
        }
        if process.is_stalled() {
            continue;
        }
        hand_overs(setup, world, who, process, actions);
        if !is_asking(world, who) {
            statements(setup, world, who, process, actions);
        }
    }
}

fn writers(setup: &Setup, world: &World, actions: &mut Vec<Action>) {
    for seq in setup.events() {
        match world.database.row(seq) {
            Row::Open => actions.push(Action::Commit(seq)),
            Row::Unwritten => {
                let visible = |seq| !matches!(world.database.row(seq), Row::Unwritten | Row::Open);
                if setup.before(seq).iter().all(visible) {
                    actions.push(Action::Insert(seq));
                }
                break;
            }
            _ => {}
        }
    }
}

/// By its owner's clock a lease ends earlier than by the database's.
fn lease_may_end(world: &World) -> bool {
    let lane = world.database.lane;
    let owner = lane.owner.and_then(|who| world.processes[who].tenure.as_ref());
    lane.live && owner.is_none_or(|tenure| !tenure.fresh)
}

/// Whether this process waits for the answer to a statement: its others come after it, on the same connection.
fn is_asking(world: &World, who: Who) -> bool {
    let claims = world.database.running.is_some_and(|running| running.by == Some(who));
    claims || world.database.queued.as_ref().is_some_and(|queued| queued.by == who)
}

fn flights(setup: &Setup, world: &World, who: Who, process: &Process, actions: &mut Vec<Action>) {
    let stalled = process.is_stalled();
    for claim in process.claims() {
        for (seq, slot) in claim.slots.iter() {
            let flight = Flight { who, token: claim.token, seq };
            match slot {
                Slot::Stalled => actions.push(Action::Resume(flight)),
                Slot::Out { .. } => actions.push(Action::Arrive(flight)),
                _ => {}
            }
            // A process that is stopped hears nothing.
            if !stalled {
                outcomes(setup, world, slot, flight, actions);
            }
        }
    }
}

fn outcomes(setup: &Setup, world: &World, slot: Slot, flight: Flight, actions: &mut Vec<Action>) {
    let troubles = world.left.troubles > 0;
    match slot {
        Slot::Arrived => {
            actions.push(Action::Confirm(flight));
            if troubles {
                actions.push(Action::Unknown(flight));
            }
        }
        Slot::Out { .. } => {
            if troubles {
                actions.extend([Action::Refuse(flight), Action::NotSent(flight), Action::Unknown(flight)]);
            }
            if !setup.has(Guard::ConfirmBeforeSent) {
                actions.push(Action::Confirm(flight));
            }
        }
        Slot::Lost => actions.push(Action::Expire(flight)),
        Slot::Waiting | Slot::Stalled | Slot::Ended(_) => {}
    }
}

fn hand_overs(setup: &Setup, world: &World, who: Who, process: &Process, actions: &mut Vec<Action>) {
    let Some(tenure) = &process.tenure else { return };
    for (token, seq) in tenure.may_hand_over(setup) {
        let flight = Flight { who, token, seq };
        actions.push(Action::HandOver(flight));
        if world.left.stalls > 0 {
            actions.push(Action::Stall(flight));
        }
    }
    if tenure.must_release(setup) {
        actions.push(Action::Release(who));
    } else if world.left.troubles > 0 && tenure.has_eligible(setup) {
        actions.push(Action::BreakerOpens(who));
    }
}

fn statements(setup: &Setup, world: &World, who: Who, process: &Process, actions: &mut Vec<Action>) {
    let owned = process.tenure.as_ref().map(|tenure| &tenure.claims);
    for claims in owned.into_iter().chain([&process.late]) {
        settles(setup, who, claims, actions);
    }
    let Some(tenure) = &process.tenure else { return takes(setup, world, who, process, actions) };
    if !tenure.fresh {
        actions.push(Action::Renew(who));
    }
    if !tenure.reclaimed {
        actions.push(Action::Reclaim(who));
    } else {
        if setup.has(Guard::Orphans) {
            actions.push(Action::Orphans(who));
        }
        if tenure.claims.is_empty() {
            actions.push(Action::Give(who));
        }
    }
    if tenure.may_claim(setup) && world.database.claims.len() < CLAIM_ROWS {
        claims(setup, world, who, actions);
    }
}

/// What was sent is written first, then what failed, the oldest claim first.
fn settles(setup: &Setup, who: Who, claims: &[Claim], actions: &mut Vec<Action>) {
    if let Some(claim) = claims.iter().find(|claim| claim.wants_settle_sent()) {
        actions.push(Action::SettleSent(who, claim.token));
        return;
    }
    let most = if setup.has(Guard::OldestFirst) { 1 } else { usize::MAX };
    let failed = claims.iter().filter(|claim| claim.wants_settle_failed()).take(most);
    actions.extend(failed.map(|claim| Action::SettleFailed(who, claim.token)));
}

fn takes(setup: &Setup, world: &World, who: Who, process: &Process, actions: &mut Vec<Action>) {
    // Old tenures with something in flight could pile up without end.
    if world.database.lane.live || !process.late.is_empty() {
        return;
    }
    if !world.database.lane_is_locked(setup) {
        actions.push(Action::Take(who));
    } else if !setup.has(Guard::ReclaimAfterTake) && world.database.queued.is_none() {
        actions.push(Action::TakeWaits(who));
    }
}

fn claims(setup: &Setup, world: &World, who: Who, actions: &mut Vec<Action>) {
    let Some(tenure) = &world.processes[who].tenure else { return };
    let flying = world.database.flying(&tenure.live());
    let waiting = world.database.with(|row| row == Row::Waiting).without(flying);
    let ready = setup.limits.iter().map(|limit| Ask::Ready { limit: *limit });
    let slow = world.left.slow_claims > 0 && world.database.running.is_none();
    for ask in ready.chain(waiting.subsets().map(Ask::Due)) {
        actions.push(Action::Claim(who, ask));
        if slow {
            actions.push(Action::ClaimReads(who, ask));
        }
    }
}
