//! Shares of random fleets, the table of decisions, and a fleet with a ghost.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n}")).collect()
}

fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn at(ms: u64) -> Moment {
    Moment::from_clock(Duration::from_millis(ms))
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn shares_of_a_known_fleet_stay_what_they_are() {
    let shares = share(&["acme/0", "acme/1", "globex/0", "initech/0", "umbrella/0"], &["a", "b"]);
    let expected =
        [("acme/0", "a"), ("acme/1", "a"), ("globex/0", "b"), ("initech/0", "b"), ("umbrella/0", "b")];
    assert_eq!(shares.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn an_empty_fleet_or_nothing_to_share_is_empty() {
    assert!(share(&["acme/0"], &[]).is_empty());
    assert!(share(&[], &["a"]).is_empty());
    assert_eq!(share(&["acme/0"], &["a"]), BTreeMap::from([("acme/0", "a")]));
}

#[test]
fn the_table_of_decisions() {
    let other = |age: u64| Share::Other { heartbeat_age: ms(age) };
    let me = |since: u64| Holder::Me { since: at(since) };
    let nobody = |since: u64| Holder::Nobody { since: at(since) };
    let now = 100_000;
    let table = [
        (Share::Mine, nobody(now), None, Decision::Take),
        (Share::Mine, nobody(0), Some(now), Decision::Take),
        (Share::Mine, Holder::Other, None, Decision::Stay),
        (Share::Mine, me(0), None, Decision::Stay),
        (other(0), Holder::Other, None, Decision::Stay),
        (other(0), nobody(now - 2_999), None, Decision::Stay),
        (other(0), nobody(now - 3_000), None, Decision::Take),
        (other(9_000), nobody(now - 3_000), Some(now - 3_000), Decision::Take),
        (other(0), me(now), None, Decision::Stay),
        (other(500), me(now - 500), None, Decision::Stay),
        (other(499), me(now - 500), None, Decision::Give),
        (other(501), me(now - 500), None, Decision::Stay),
        (other(500), me(0), Some(now - 59_999), Decision::Stay),
        (other(500), me(0), Some(now - 60_000), Decision::Give),
        (other(u64::MAX), me(0), None, Decision::Stay),
        (other(0), nobody(now + 5), None, Decision::Stay),
    ];
    for (share, holder, let_lie, expected) in table {
        let lane = LaneView { share, holder, let_lie: let_lie.map(at) };
        assert_eq!(decide(&lane, at(now)), expected, "{lane:?}");
    }
}

/// Units that change hands between two fleets.
fn moved(units: &[&str], before: &[&str], after: &[&str]) -> usize {
    let (before, after) = (share(units, before), share(units, after));
    units.iter().filter(|unit| before[*unit] != after[*unit]).count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn shares_are_even_and_whole(units in 0_usize..150, replicas in 1_usize..12) {
        let (units, replicas) = (names("tenant-", units), names("replica-", replicas));
        let shares = share(&refs(&units), &refs(&replicas));
        prop_assert_eq!(shares.len(), units.len());
        let mut counts: HashMap<&str, usize> = refs(&replicas).into_iter().map(|replica| (replica, 0)).collect();
        for replica in shares.values() {
            *counts.get_mut(replica).expect("a replica of the fleet") += 1;
        }
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        prop_assert!(most - least <= 1, "{counts:?}");
    }

    #[test]
    fn every_replica_comes_to_the_same_result(
        units in Just(names("tenant-", 40)).prop_shuffle(),
        replicas in Just(names("replica-", 5)).prop_shuffle(),
        again in 0_usize..40,
    ) {
        let (ordered_units, ordered_replicas) = (names("tenant-", 40), names("replica-", 5));
        let expected = share(&refs(&ordered_units), &refs(&ordered_replicas));
        let (mut units, mut replicas) = (refs(&units), refs(&replicas));
        units.push(units[again]);
        replicas.push(replicas[again % 5]);
        prop_assert_eq!(share(&units, &replicas), expected);
    }

    #[test]
    fn few_units_move_when_a_replica_joins_or_leaves(
        units in 1_usize..200, replicas in 1_usize..10, left in 0_usize..10, salt in any::<u32>(),
    ) {
        let (units, all) = (names("tenant-", units), names(&format!("replica-{salt}-"), replicas + 1));
        let (units, all) = (refs(&units), refs(&all));
        let mut fewer = all.clone();
        fewer.remove(left % all.len());
        // What the one that joins has to get, or leaves behind.
        let share = units.len().div_ceil(all.len());
        let moved = moved(&units, &fewer, &all);
        prop_assert!(moved <= 2 * share + replicas, "{moved} moved, the share is {share}");
    }
}

/// Heartbeats of a replica, and how long it counts as alive after the last: far longer than the lease and the
/// hold-off, so that a ghost is in everybody's way.
const HEARTBEAT: u64 = 2_000;
const ALIVE: u64 = 100_000;
const LEASE: u64 = 15_000;

#[derive(Debug)]
struct Replica {
    name: String,
    killed: bool,
    /// It has a heartbeat, and no way to the tenants' databases.
    cut_off: bool,
    heartbeat: u64,
    /// Lanes that lay, when, and whose share they were.
    let_lie: HashMap<usize, (u64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Owned { by: usize, since: u64 },
    Free { since: u64 },
}

#[derive(Debug)]
struct Fleet {
    now: u64,
    replicas: Vec<Replica>,
    lanes: Vec<(String, Row)>,
    /// Times that each lane was taken, and given.
    takes: Vec<u32>,
    gives: Vec<u32>,
    longest_free: u64,
}

impl Fleet {
    fn new(replicas: usize, lanes: usize) -> Self {
        let replica =
            |name| Replica { name, killed: false, cut_off: false, heartbeat: 0, let_lie: HashMap::new() };
        Fleet {
            now: 0,
            replicas: names("replica-", replicas).into_iter().map(replica).collect(),
            lanes: names("tenant-", lanes).into_iter().map(|name| (name, Row::Free { since: 0 })).collect(),
            takes: vec![0; lanes],
            gives: vec![0; lanes],
            longest_free: 0,
        }
    }

    fn forget_counts(&mut self) {
        self.takes.fill(0);
        self.gives.fill(0);
        self.longest_free = 0;
    }

    fn kill(&mut self, replica: usize) {
        self.replicas[replica].killed = true;
    }

    fn run(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now += 100;
            for (_, row) in &mut self.lanes {
                match *row {
                    Row::Owned { by, .. } if self.replicas[by].killed => {
                        if self.now - self.replicas[by].heartbeat >= LEASE {
                            *row = Row::Free { since: self.now };
                        }
                    }
                    Row::Free { since } => self.longest_free = self.longest_free.max(self.now - since),
                    Row::Owned { .. } => {}
                }
            }
            for replica in 0..self.replicas.len() {
                let phase = u64::try_from(replica).unwrap() * 300;
                if self.replicas[replica].killed {
                    continue;
                }
                if (self.now + phase).is_multiple_of(HEARTBEAT) {
                    self.replicas[replica].heartbeat = self.now;
                }
                if (self.now + phase).is_multiple_of(500) {
                    self.act(replica);
                }
            }
        }
    }

    fn shares(&self) -> Vec<usize> {
        let alive = self.replicas.iter().filter(|replica| self.now - replica.heartbeat < ALIVE);
        let alive: Vec<&str> = alive.map(|replica| replica.name.as_str()).collect();
        let lanes: Vec<&str> = self.lanes.iter().map(|(name, _)| name.as_str()).collect();
        let shares = share(&lanes, &alive);
        let index = |name: &str| self.replicas.iter().position(|replica| replica.name == name).unwrap();
        lanes.iter().map(|lane| index(shares[lane])).collect()
    }

    fn act(&mut self, me: usize) {
        let now = self.now;
        for (lane, of) in self.shares().into_iter().enumerate() {
            let share = if of == me {
                Share::Mine
            } else {
                Share::Other { heartbeat_age: ms(now - self.replicas[of].heartbeat) }
            };
            let holder = match self.lanes[lane].1 {
                Row::Owned { by, since } if by == me => Holder::Me { since: at(since) },
                Row::Owned { .. } => Holder::Other,
                Row::Free { since } => Holder::Nobody { since: at(since) },
            };
            let of_name = self.replicas[of].name.clone();
            let replica = &mut self.replicas[me];
            let let_lie = replica.let_lie.get(&lane).filter(|(_, name)| *name == of_name);
            let view = LaneView { share, holder, let_lie: let_lie.map(|(when, _)| at(*when)) };
            match decide(&view, at(now)) {
                Decision::Take if !replica.cut_off => {
                    if share != Share::Mine {
                        replica.let_lie.insert(lane, (now, of_name));
                    }
                    self.lanes[lane].1 = Row::Owned { by: me, since: now };
                    self.takes[lane] += 1;
                }
                Decision::Give => {
                    replica.let_lie.insert(lane, (now, of_name));
                    self.lanes[lane].1 = Row::Free { since: now };
                    self.gives[lane] += 1;
                }
                Decision::Take | Decision::Stay => {}
            }
        }
    }

    fn assert_shared_out(&self) {
        for (lane, of) in self.shares().into_iter().enumerate() {
            let owned = matches!(self.lanes[lane].1, Row::Owned { by, .. } if by == of);
            assert!(owned, "{:?} ought to be of {of}", self.lanes[lane]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ghost_moves_no_lane_twice(replicas in 2_usize..6, lanes in 1_usize..20, victim in 0_usize..6) {
        let victim = victim % replicas;
        let mut fleet = Fleet::new(replicas, lanes);
        fleet.run(70_000);
        fleet.assert_shared_out();
        let of_victim: Vec<usize> =
            (0..lanes).filter(|lane| matches!(fleet.lanes[*lane].1, Row::Owned { by, .. } if by == victim)).collect();
        fleet.forget_counts();
        fleet.kill(victim);

        fleet.run(ALIVE - HEARTBEAT);
        for lane in 0..lanes {
            let taken = u32::from(of_victim.contains(&lane));
            prop_assert_eq!((fleet.takes[lane], fleet.gives[lane]), (taken, 0), "while the ghost has a share");
        }
        let catch = u64::try_from(PATIENCE.as_millis()).unwrap() + 1_000;
        prop_assert!(fleet.longest_free <= catch, "a lane was free for {} ms", fleet.longest_free);

        fleet.run(150_000);
        fleet.assert_shared_out();
        for lane in 0..lanes {
            prop_assert!(fleet.gives[lane] <= 1 && fleet.takes[lane] <= 2, "{fleet:?}");
        }
    }

    #[test]
    fn a_replica_that_cannot_take_its_share_costs_little(replicas in 2_usize..6, lanes in 1_usize..20) {
        let mut fleet = Fleet::new(replicas, lanes);
        fleet.replicas[0].cut_off = true;
        fleet.run(10_000);
        let free = fleet.lanes.iter().filter(|(_, row)| matches!(row, Row::Free { .. })).count();
        prop_assert_eq!(free, 0);
        fleet.forget_counts();
        fleet.run(200_000);
        for lane in 0..lanes {
            prop_assert!(fleet.gives[lane] <= 3, "{} times in 200 s", fleet.gives[lane]);
        }
        prop_assert!(fleet.longest_free <= 4_000);
    }

    #[test]
    fn who_joins_gets_its_share_at_once(replicas in 1_usize..6, lanes in 1_usize..20) {
        let mut fleet = Fleet::new(replicas, lanes);
        fleet.run(10_000);
        let name = "late".to_owned();
        let heartbeat = fleet.now;
        let joined =
            Replica { name, killed: false, cut_off: false, heartbeat, let_lie: HashMap::new() };
        fleet.forget_counts();
        fleet.replicas.push(joined);
        fleet.run(2_500);
        fleet.assert_shared_out();
        prop_assert!(fleet.gives.iter().all(|gives| *gives <= 1));
        prop_assert!(fleet.longest_free <= 600);
    }
}
