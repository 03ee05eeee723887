//! Who owns the lane: TAKE, RECLAIM, RENEW, GIVE.

use super::{Database, Lane, Token, Who};
use crate::setup::{Guard, Setup};

impl Database {
    /// Whether a running CLAIM makes TAKE wait.
    pub fn lane_is_locked(&self, setup: &Setup) -> bool {
        setup.has(Guard::LaneLock) && self.running.is_some_and(|running| running.scan.owned)
    }

    /// TAKE: true if the lane is now `who`'s.
    pub fn take(&mut self, who: Who) -> bool {
        if self.lane.live {
            return false;
        }
        self.lane = Lane { owner: Some(who), live: true };
        true
    }

    /// RECLAIM after TAKE.
    pub fn reclaim(&mut self, setup: &Setup, who: Who) {
        if self.lane.owner == Some(who) {
            let all: Vec<Token> = self.claims.iter().map(|claim| claim.token).collect();
            self.give_back(setup, &all);
        }
    }

    /// Deletes claims. Their events come back, as held where their key has held rows.
    pub fn give_back(&mut self, setup: &Setup, tokens: &[Token]) {
        let flown = self.flying(tokens);
        self.claims.retain(|claim| !tokens.contains(&claim.token));
        let held = self.held();
        flown.iter().for_each(|seq| self.back(setup, seq, held));
    }

    /// RENEW: false if the lane is somebody else's.
    pub fn renew(&mut self, who: Who) -> bool {
        let own = self.lane.owner == Some(who);
        self.lane.live |= own;
        own
    }

    /// GIVE with nothing in flight.
    pub fn give(&mut self, who: Who) {
        if self.lane.owner == Some(who) {
            self.lane = Lane { owner: None, live: false };
        }
    }
}
