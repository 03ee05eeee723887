//! Names make no difference: which process is which, how claims are called. Of all states that differ in names only, the
//! checker has to look at one.

use crate::database::Token;
use crate::world::World;

impl World {
    /// The one that stands for all states that differ from this in names only.
    #[must_use]
    pub fn representative(&self) -> World {
        let mut own = self.clone();
        own.rename_claims();
        if self.processes.len() < 2 {
            return own;
        }
        let mut other = self.clone();
        other.swap_processes();
        other.rename_claims();
        own.min(other)
    }

    fn swap_processes(&mut self) {
        self.processes.reverse();
        let database = &mut self.database;
        let running = database.running.iter_mut().flat_map(|running| &mut running.by);
        let queued = database.queued.iter_mut().map(|queued| &mut queued.by);
        for who in database.lane.owner.iter_mut().chain(running).chain(queued) {
            *who = 1 - *who;
        }
    }

    /// Numbers claims in the order in which processes remember them, then those that nobody does by what they list.
    fn rename_claims(&mut self) {
        let mut names = [0; 16];
        let mut last = 0;
        let mut rename = |token: &mut Token| {
            let name = &mut names[usize::from(*token)];
            if *name == 0 {
                last += 1;
                *name = last;
            }
            *token = *name;
        };
        let database = &mut self.database;
        for claim in self.processes.iter_mut().flat_map(|process| process.claims_mut()) {
            rename(&mut claim.token);
        }
        database.running.iter_mut().for_each(|running| rename(&mut running.token));
        database.claims.sort_unstable_by_key(|claim| claim.seqs);
        database.claims.iter_mut().for_each(|claim| rename(&mut claim.token));
        database.claims.sort_unstable();
        if let Some(queued) = &mut database.queued {
            queued.snapshot.iter_mut().for_each(rename);
            queued.snapshot.sort_unstable();
        }
    }
}
