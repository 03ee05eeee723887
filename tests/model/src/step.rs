//! What an action does to the state.

use crate::action::{Action, Flight};
use crate::database::{Ask, End, Queued, Row, Running, Scan, Token, Who};
use crate::memory::{Process, Slot, Tenure};
use crate::seqs::{Seq, Seqs};
use crate::setup::{Guard, Setup};
use crate::world::World;

pub(crate) fn apply(setup: &Setup, before: &World, action: Action) -> World {
    let mut next = before.clone();
    let world = &mut next;
    match action {
        Action::Insert(seq) => world.database.set(seq, Row::Open),
        Action::Commit(seq) => world.database.set(seq, Row::Ready),
        Action::LeaseGetsShort(who) => {
            if let Some(tenure) = &mut world.processes[who].tenure {
                tenure.fresh = false;
            }
        }
        Action::LeaseEnds => {
            world.database.lane.live = false;
            if !setup.outlives_deadline {
                world.deadlines_pass();
            }
        }
        Action::Take(who) => take(setup, world, who),
        Action::TakeWaits(by) => {
            let snapshot = world.database.claims.iter().map(|claim| claim.token).collect();
            world.database.queued = Some(Queued { by, snapshot });
        }
        Action::Reclaim(who) => {
            world.database.reclaim(setup, who);
            if let Some(tenure) = &mut world.processes[who].tenure {
                tenure.reclaimed = true;
            }
        }
        Action::Orphans(_) => world.database.orphans(setup),
        Action::Renew(who) => {
            let kept = world.database.renew(who);
            match &mut world.processes[who].tenure {
                Some(tenure) if kept => tenure.fresh = true,
                _ => world.processes[who].lose(),
            }
        }
        Action::Give(who) => {
            world.database.give(who);
            world.processes[who].lose();
        }
        Action::Claim(who, ask) => {
            let (scan, token) = read(setup, world, who, ask);
            world.database.put(&scan, token);
            answered(setup, world, who, &scan, token);
        }
        Action::ClaimReads(who, ask) => {
            world.left.slow_claims -= 1;
            let (scan, token) = read(setup, world, who, ask);
            world.database.running = Some(Running { by: Some(who), token, scan });
        }
        Action::ClaimCommits => claim_commits(setup, world),
        Action::Release(who) => release(setup, world, who),
        Action::BreakerOpens(who) => {
            world.left.troubles -= 1;
            release(setup, world, who);
        }
        Action::SettleSent(who, token) => settle_sent(setup, world, who, token),
        Action::SettleFailed(who, token) => settle_failed(setup, world, who, token),
        Action::Crash(who) => crash(world, who),
        Action::ArriveAdrift(seq) => {
            world.broker.adrift.remove(seq);
            arrive(setup, world, seq);
        }
        Action::HandOver(flight)
        | Action::Stall(flight)
        | Action::Resume(flight)
        | Action::Arrive(flight)
        | Action::Confirm(flight)
        | Action::Refuse(flight)
        | Action::NotSent(flight)
        | Action::Unknown(flight)
        | Action::Expire(flight) => fly(setup, world, action, flight),
    }
    let gone = next.database.with(|row| row == Row::Gone);
    next.broken.sent_twice |= !before.database.with(|row| row == Row::Gone).without(gone).is_empty();
    tidy(&mut next);
    next
}

/// Forgets what makes no difference any more.
fn tidy(world: &mut World) {
    let gone = world.database.with(|row| row == Row::Gone);
    let open = world.database.with(|row| row == Row::Open);
    for (who, process) in world.processes.iter_mut().enumerate() {
        process.late.retain(|claim| !claim.slots.is_empty());
        if let Some(tenure) = &mut process.tenure {
            tenure.tidy(world.database.running.is_some_and(|running| running.by == Some(who)), gone, open);
        }
    }
}

/// Without [`Guard::ReclaimAfterTake`] one statement does both, and its snapshot is what it is now.
fn take(setup: &Setup, world: &mut World, who: Who) {
    let snapshot: Vec<Token> = world.database.claims.iter().map(|claim| claim.token).collect();
    take_with(setup, world, who, &snapshot);
}

fn take_with(setup: &Setup, world: &mut World, who: Who, snapshot: &[Token]) {
    if !world.database.take(who) {
        return;
    }
    let mut tenure = Tenure::new();
    if !setup.has(Guard::ReclaimAfterTake) {
        world.database.give_back(setup, snapshot);
        tenure.reclaimed = true;
    }
    world.processes[who].tenure = Some(tenure);
}

/// A CLAIM's snapshot, and its token: the first that nobody knows.
fn read(setup: &Setup, world: &World, who: Who, ask: Ask) -> (Scan, Token) {
    let (after, live) = match &world.processes[who].tenure {
        Some(tenure) => (tenure.after(setup), tenure.live()),
        None => (0, Vec::new()),
    };
    let known = world.processes.iter().flat_map(Process::claims).map(|claim| claim.token);
    let rows = world.database.claims.iter().map(|claim| claim.token);
    let running = world.database.running.iter().map(|running| running.token);
    let queued = world.database.queued.iter().flat_map(|queued| queued.snapshot.iter().copied());
    let used: Seqs = known.chain(rows).chain(running).chain(queued).collect();
    let token = (1..).find(|token| !used.contains(*token)).unwrap_or(0);
    (world.database.scan(setup, who, ask, after, &live), token)
}

fn answered(setup: &Setup, world: &mut World, who: Who, scan: &Scan, token: Token) {
    let process = &mut world.processes[who];
    if scan.lane_lost() {
        process.lose();
    } else if let Some(tenure) = &mut process.tenure {
        tenure.claimed(setup, scan, token);
    }
}

fn claim_commits(setup: &Setup, world: &mut World) {
    let Some(running) = world.database.running.take() else { return };
    world.database.put(&running.scan, running.token);
    if let Some(who) = running.by {
        answered(setup, world, who, &running.scan, running.token);
    }
    if let Some(queued) = world.database.queued.take() {
        take_with(setup, world, queued.by, &queued.snapshot);
    }
}

fn release(setup: &Setup, world: &mut World, who: Who) {
    if let Some(tenure) = &mut world.processes[who].tenure {
        tenure.release(setup);
    }
}

fn settle_sent(setup: &Setup, world: &mut World, who: Who, token: Token) {
    let Some(claim) = world.processes[who].claims_mut().find(|claim| claim.token == token) else { return };
    let (sent, last) = claim.take_sent();
    world.database.settle_sent(setup, sent, last.then_some(token));
}

fn settle_failed(setup: &Setup, world: &mut World, who: Who, token: Token) {
    let Some(claim) = world.processes[who].claims_mut().find(|claim| claim.token == token) else { return };
    let (ends, last) = claim.take_failed();
    let written = world.database.settle_failed(setup, token, &ends, last);
    let owner = world.database.lane.owner.filter(|owner| *owner != who);
    let other = owner.and_then(|owner| world.processes[owner].tenure.as_ref());
    world.broken.fence |= !written.is_empty() && other.is_some_and(|tenure| tenure.reclaimed);
}

/// What was handed over may still arrive. A CLAIM that runs on the server goes on without anybody to answer.
fn crash(world: &mut World, who: Who) {
    world.left.crashes -= 1;
    for (_, seq) in world.processes[who].find(|slot| matches!(slot, Slot::Out { .. })) {
        world.broker.adrift.insert(seq);
    }
    world.processes[who] = Process::default();
    if let Some(running) = &mut world.database.running
        && running.by == Some(who)
    {
        running.by = None;
    }
    if world.database.queued.as_ref().is_some_and(|queued| queued.by == who) {
        world.database.queued = None;
    }
}

fn arrive(setup: &Setup, world: &mut World, seq: Seq) {
    let first = !world.broker.has.contains(seq);
    world.broken.order |= first && !setup.before(seq).without(world.broker.has).is_empty();
    world.broker.has.insert(seq);
}

/// An event between its owner and the broker.
fn fly(setup: &Setup, world: &mut World, action: Action, flight: Flight) {
    let Flight { who, token, seq } = flight;
    let owner = world.database.lane.owner;
    let process = &mut world.processes[who];
    let timely = process.tenure.as_ref().is_some_and(|tenure| tenure.fresh);
    let mut go = |slot| {
        if let Some(at) = process.slot_mut(token, seq) {
            *at = slot;
        }
    };
    match action {
        Action::HandOver(_) | Action::Resume(_) => go(Slot::Out { timely }),
        Action::Stall(_) => {
            go(Slot::Stalled);
            world.left.stalls -= 1;
        }
        Action::Arrive(_) => {
            go(Slot::Arrived);
            world.broken.side_by_side |= owner.is_some_and(|owner| owner != who);
            arrive(setup, world, seq);
        }
        Action::Confirm(_) => process.end(setup, token, seq, End::Sent),
        Action::Refuse(_) => {
            process.end(setup, token, seq, End::Failed);
            world.left.troubles -= 1;
        }
        Action::NotSent(_) => {
            process.end(setup, token, seq, End::Released);
            world.left.troubles -= 1;
        }
        Action::Unknown(_) => unknown(setup, world, flight),
        Action::Expire(_) => process.end(setup, token, seq, End::Failed),
        _ => {}
    }
}

/// No confirm came. The event may be on its way still, may have arrived, or neither.
fn unknown(setup: &Setup, world: &mut World, flight: Flight) {
    let Flight { who, token, seq } = flight;
    let process = &mut world.processes[who];
    let is_out = process.slot_mut(token, seq).is_some_and(|slot| matches!(slot, Slot::Out { .. }));
    if is_out && setup.outlives_deadline {
        world.broker.adrift.insert(seq);
    }
    process.end(setup, token, seq, End::Failed);
    world.left.troubles -= 1;
}
