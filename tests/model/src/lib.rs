//! A model of how a lane's events are claimed, published, settled and handed over between replicas, small enough to look
//! at every history of it. `tests/protocol` does that, with [stateright](https://docs.rs/stateright).
//!
//! # What is modelled
//!
//! One lane, one topic, one broker; one or two processes that own the lane in turns; up to [`seqs::MOST`] events on up to
//! [`setup::KEYS`] keys.
//!
//! - The **database** ([`database`]): the rows of `delivery`, `lane` and `claim`, and TAKE, RECLAIM, RENEW, GIVE, CLAIM,
//!   CLAIM DUE, SETTLE SENT, SETTLE FAILED and ORPHANS of `src/store/sql`. A statement is one step, on one snapshot. CLAIM
//!   can also be two, with anything in between that its lock on the lane lets happen.
//! - The **owner's memory** ([`memory`]): the rules of `src/outbox/flow` with mark, floor, gates per key and flush, and what
//!   becomes of it when the lane is lost.
//! - The **broker** ([`world::Broker`]): which events its log has, and copies that may still arrive. Not the log itself,
//!   which grows for ever: whether a copy is in order is noted when it arrives.
//! - **Time** is an action: a lease gets too short to publish under, then it ends. An owner's clock is ahead of the
//!   database's by the margin, and runs while the process is stopped. A retry is due whenever that is worse.
//! - **Writers** that serialise their keys, as the contract asks for, and commit when they like.
//! - **Faults** ([`setup::Faults`]), each a bounded number of times: crashes; publishes that are refused, come back unsent
//!   or end unknown, and may then arrive late or never; slow commits of claims; and stops of a process between its look at
//!   the lease and the hand-over. Elsewhere a pause needs no action of its own: any process may do nothing for any time,
//!   while leases end and others go on, and then act on what it believed before. That is not bounded. Nor are take-overs.
//!
//! # What is promised
//!
//! [`properties`] has the sentences. [`properties::PROMISES`] hold whatever happens within the bounds, with the copies of
//! a stale owner or a given-up publish arriving at any time: nothing is lost, first copies are in order per key, failures
//! are fenced, sent is sent once. And from every state there is a way to "all is sent" that needs no fault ([`reach`] says
//! why that is the right question about a model with cycles).
//!
//! Second copies are not promised to come in order: nothing here fences the broker. What the lease gives is
//! [`properties::ONE_AT_A_TIME`], and only under two conditions. A publish must arrive before its deadline or never. And no
//! process may be stopped after it looked at the lease and before the publish has left it: since nothing is handed over
//! whose lease left is shorter than deadline + margin, that is the only hole, and a test shows it. Order does not hang on
//! it: an owner hands an event over only after it has seen every earlier one of the key confirmed, so a stale owner
//! repeats, and does not overtake.
//!
//! # Guards
//!
//! [`setup::Guard`] names the rules that a check can do without. For each there is a test that a property holds with it,
//! and that the checker finds how it breaks without it. Two of them are each enough for the same thing, and only without
//! both it breaks.
//!
//! # What is not modelled
//!
//! Lost replies of statements; dead, discarded, requeued and scheduled events, and topics that skip dead ones; lanes that
//! change in number; `order_horizon`; the time between a writer's `seq` and its transaction id, which are one step here;
//! how often something was tried; receipts and retention; settles in parts during a drain; rows that somebody else locks.
//! A process with something in flight of a lost tenure does not take the lane again before that has ended.

pub mod action;
pub mod database;
pub mod memory;
pub mod properties;
pub mod protocol;
pub mod reach;
pub mod seqs;
pub mod setup;
mod step;
mod symmetry;
pub mod world;
