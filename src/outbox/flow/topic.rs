//! What the owner of a lane remembers about one topic: where the next scan starts, and whether it may
//! be claimed at all.

use std::collections::VecDeque;
use std::time::Duration;

use crate::outbox::event::OnDead;
use crate::outbox::lease::Moment;
use crate::outbox::retry::Backoff;

use super::{ClaimNo, Path};

/// Before every `seq`.
pub(super) const START: i64 = -1;

/// A transaction gets its id at most this long after its event took a `seq`, or its order is not
/// promised. Doubling it keeps the floor behind by that much more.
const SEQ_TO_XID: Duration = Duration::from_millis(20);

/// Pause of a topic whose destination is in trouble. The maximum is what a mended destination waits for.
const PAUSE: Backoff = Backoff { base: Duration::from_millis(500), max: Duration::from_secs(15) };

#[derive(Debug)]
pub(super) struct Topic {
    pub(super) on_dead: OnDead,
    /// Everything up to here was claimed by this owner, or came back by being released.
    mark: i64,
    /// The mark may not go past this: what came back since the last claim was planned begins behind it.
    mark_limit: i64,
    /// Nothing can appear any more at or below.
    floor: i64,
    /// Highest `seq` ever claimed.
    seen: i64,
    /// `seen` over time, as far back as the floor's rule asks. The time is when the answer came: the statement may
    /// have waited for a lock, and lower seqs may have been taken until it ran.
    history: VecDeque<(Moment, i64)>,
    /// Floors to come: when every transaction below `xid` has ended, nothing can appear below `seq`.
    pending: VecDeque<Pending>,
    /// Claims up to this number hold events that were released: until they are settled, claim nothing.
    pub(super) flush: Option<ClaimNo>,
    /// The ready path may find something.
    pub(super) ready: bool,
    /// When the due path may find something.
    pub(super) due: Option<Moment>,
    pub(super) last_confirm: Option<Moment>,
    paused_until: Option<Moment>,
    troubles: u32,
}

#[derive(Debug)]
struct Pending {
    seq: i64,
    xid: i64,
    since: Moment,
}

impl Topic {
    pub(super) fn new(on_dead: OnDead) -> Self {
        Topic {
            on_dead,
            mark: START,
            mark_limit: i64::MAX,
            floor: START,
            seen: START,
            history: VecDeque::new(),
            pending: VecDeque::new(),
            flush: None,
            ready: false,
            due: None,
            last_confirm: None,
            paused_until: None,
            troubles: 0,
        }
    }

    /// Where a claim starts to scan.
    pub(super) fn after(&self) -> i64 {
        self.mark.min(self.floor)
    }

    pub(super) fn floor(&self) -> i64 {
        self.floor
    }

    /// Forget what was scanned: the next claim sweeps from the start. Floors stay.
    pub(super) fn sweep(&mut self) {
        self.came_back(START + 1);
    }

    /// Forget everything that another owner, or a claim whose reply was lost, may have changed.
    pub(super) fn reset(&mut self) {
        self.sweep();
        self.floor = START;
        self.seen = START;
        self.history.clear();
        self.pending.clear();
        self.due = Some(Moment::ZERO);
    }

    /// A claim of this topic is planned. What is discovered or comes back from now on is for the next one.
    pub(super) fn planned(&mut self, path: Path) {
        match path {
            Path::Ready => {
                self.ready = false;
                self.mark_limit = i64::MAX;
            }
            Path::Due => self.due = None,
        }
    }

    /// A claim of the ready path that named this topic was sent at `asked` and answered at `now`. `last` is the
    /// highest `seq` among its rows of this topic, `full` says that they reached the limit.
    pub(super) fn scanned(
        &mut self,
        (asked, now): (Moment, Moment),
        xmin: i64,
        xid: Option<i64>,
        last: Option<i64>,
        full: bool,
    ) {
        while self.pending.front().is_some_and(|pending| pending.xid < xmin) {
            if let Some(pending) = self.pending.pop_front() {
                self.floor = self.floor.max(pending.seq);
            }
        }
        if let (Some(xid), Some(seq)) = (xid, self.seen_at(asked.before(SEQ_TO_XID)))
            && self.pending.back().is_none_or(|pending| seq > pending.seq)
        {
            self.pending.push_back(Pending { seq, xid, since: asked });
        }
        if let Some(last) = last {
            self.mark = if full { last } else { self.mark.max(last) }.min(self.mark_limit);
            if last > self.seen {
                self.seen = last;
                self.history.push_back((now, last));
            }
        }
        self.ready |= full;
    }

    /// `seen` as of `when`; forgets what is older than the answer.
    fn seen_at(&mut self, when: Moment) -> Option<i64> {
        while self.history.get(1).is_some_and(|(at, _)| *at <= when) {
            self.history.pop_front();
        }
        self.history.front().filter(|(at, _)| *at <= when).map(|(_, seen)| *seen)
    }

    /// An event of the ready path goes back unsent: the next scan has to meet it again.
    pub(super) fn came_back(&mut self, seq: i64) {
        self.mark_limit = self.mark_limit.min(seq.saturating_sub(1));
        self.mark = self.mark.min(self.mark_limit);
        self.ready = true;
    }

    pub(super) fn due_in(&mut self, at: Moment) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Lets the floor pass transactions that hold it longer than `horizon`. True if it passed one.
    pub(super) fn pass_horizon(&mut self, now: Moment, horizon: Duration) -> bool {
        let mut passed = false;
        while self.pending.front().is_some_and(|pending| now.since(pending.since) > horizon) {
            if let Some(pending) = self.pending.pop_front() {
                self.floor = self.floor.max(pending.seq);
                passed = true;
            }
        }
        passed
    }

    /// The destination is in trouble: pause, longer each time.
    pub(super) fn pause(&mut self, now: Moment, jitter: f64) {
        self.troubles = self.troubles.saturating_add(1);
        self.paused_until = Some(now.after(PAUSE.delay(self.troubles, jitter)));
    }

    pub(super) fn confirmed(&mut self, now: Moment) {
        self.last_confirm = Some(now);
        self.troubles = 0;
        self.paused_until = None;
    }

    pub(super) fn paused(&self, now: Moment) -> bool {
        self.paused_until.is_some_and(|until| now < until)
    }

    /// The destination was in trouble last time: try it with one event.
    pub(super) fn on_probation(&self) -> bool {
        self.troubles > 0
    }

    /// When a claim may find something: for how long the owner can sleep.
    pub(super) fn wakes_at(&self, now: Moment) -> Option<Moment> {
        let work = if self.ready { Some(now) } else { self.due }?;
        Some(self.paused_until.map_or(work, |until| work.max(until)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_clock(Duration::from_millis(ms))
    }

    /// Sent and answered at the same time.
    fn both(ms: u64) -> (Moment, Moment) {
        (at(ms), at(ms))
    }

    #[test]
    fn the_floor_waits_for_every_older_transaction() {
        let mut topic = Topic::new(OnDead::Block);
        topic.scanned(both(1_000), 50, Some(60), Some(10), false);
        assert_eq!(topic.after(), START, "a lower seq may still be uncommitted");
        topic.scanned(both(1_010), 50, Some(61), Some(20), false);
        assert_eq!(topic.after(), START, "10 was seen too recently for xid 61 to speak for it");
        topic.scanned(both(1_100), 50, Some(62), Some(30), false);
        topic.scanned(both(1_200), 62, None, None, false);
        assert_eq!(topic.after(), START, "xid 62 itself has not ended in this snapshot");
        topic.scanned(both(1_300), 63, None, None, false);
        assert_eq!(topic.after(), 20, "what was seen 20 ms before the claim with xid 62");
    }

    #[test]
    fn a_claim_saw_what_it_saw_when_it_was_answered() {
        let mut topic = Topic::new(OnDead::Block);
        // 9 was taken at 1,090, 10 was visible at 1,095; 9 gets xid 61 at 1,105.
        topic.scanned((at(1_000), at(1_100)), 50, Some(59), Some(10), false);
        topic.scanned((at(1_101), at(1_102)), 50, Some(60), Some(11), false);
        topic.scanned((at(1_200), at(1_201)), 61, None, None, false);
        assert_eq!(topic.after(), START, "xid 60 does not speak for what was taken at 1,090");
    }

    #[test]
    fn a_full_claim_moves_the_mark_back_to_its_end() {
        let mut topic = Topic::new(OnDead::Block);
        topic.scanned(both(0), 1, None, Some(100), false);
        topic.came_back(40);
        topic.planned(Path::Ready);
        topic.scanned(both(1), 1, None, Some(60), true);
        assert!(topic.ready);
        assert_eq!(topic.mark, 60);
        topic.scanned(both(2), 1, None, Some(90), false);
        assert_eq!(topic.mark, 90);
    }

    #[test]
    fn what_changes_while_a_claim_is_on_its_way_is_for_the_next() {
        let mut topic = Topic::new(OnDead::Block);
        topic.scanned(both(0), 1, None, Some(100), false);
        topic.planned(Path::Ready);
        assert!(!topic.ready);
        topic.came_back(40);
        topic.scanned(both(1), 1, None, Some(120), false);
        assert!(topic.ready);
        assert_eq!(topic.mark, 39, "the claim may have run before 40 came back");
        topic.planned(Path::Ready);
        topic.sweep();
        topic.scanned(both(2), 1, None, None, false);
        assert_eq!((topic.ready, topic.mark), (true, START));
        topic.due_in(at(3));
        topic.planned(Path::Due);
        assert_eq!(topic.due, None);
    }

    #[test]
    fn a_long_transaction_is_passed_after_the_horizon() {
        let mut topic = Topic::new(OnDead::Block);
        topic.scanned(both(0), 5, Some(6), Some(1), false);
        topic.scanned(both(100), 5, Some(7), Some(2), false);
        assert!(!topic.pass_horizon(at(60_000), Duration::from_secs(60)));
        assert!(topic.pass_horizon(at(60_101), Duration::from_secs(60)));
        assert_eq!(topic.after(), 1);
    }

    #[test]
    fn a_pause_grows_and_ends_with_a_confirm() {
        let mut topic = Topic::new(OnDead::Block);
        topic.ready = true;
        topic.pause(at(0), 1.0);
        assert!(topic.paused(at(499)) && !topic.paused(at(500)));
        topic.pause(at(500), 1.0);
        assert_eq!(topic.wakes_at(at(501)), Some(at(1_500)));
        assert!(topic.on_probation());
        topic.confirmed(at(1_500));
        assert!(!topic.on_probation() && !topic.paused(at(1_500)));
    }
}
