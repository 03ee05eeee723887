//! One rule a test, told in events by hand.

use std::time::Duration;

use uuid::Uuid;

use crate::outbox::event::{Event, OnDead};
use crate::outbox::flow::{ClaimAnswer, ClaimPlan, Flow, FlowSettings, HandOver, Path, Row, Settle, Ticket};
use crate::outbox::lease::Moment;
use crate::outbox::retry::Backoff;
use crate::outbox::settle::{Limits, Verdict};

const LIMITS: Limits = Limits {
    max_refusals: 3,
    max_unknown: 2,
    backoff: Backoff { base: Duration::from_millis(500), max: Duration::from_secs(60) },
};

/// No event.
const NONE: [i64; 0] = [];

fn at(ms: u64) -> Moment {
    Moment::from_clock(Duration::from_millis(ms))
}

fn event(seq: i64, topic: &str, key: &str) -> Event {
    let key = (!key.is_empty()).then(|| key.into());
    Event { seq, topic: topic.into(), key, attempts: 0, refusals: 0, body: None }
}

fn rows<const N: usize>(events: [(i64, &str, &str); N]) -> Vec<Row> {
    events.map(|(seq, topic, key)| Row::Event(event(seq, topic, key))).into()
}

fn refused() -> Verdict {
    Verdict::Refused { delay: Duration::from_millis(500), error: "no".into() }
}

fn unknown() -> Verdict {
    Verdict::Unknown { delay: Duration::from_millis(500), error: "silence".into() }
}

fn dead() -> Verdict {
    Verdict::Dead { error: "never".into() }
}

fn settings(claims_in_flight: usize, batch_events: usize) -> FlowSettings {
    FlowSettings { limits: LIMITS, claims_in_flight, batch_events, order_horizon: Duration::from_secs(60) }
}

/// Knows these topics to have new events.
fn flow<const N: usize>(topics: [&str; N]) -> Flow {
    let mut flow = Flow::new(settings(4, 100));
    discover(&mut flow, topics);
    flow
}

fn discover<const N: usize>(flow: &mut Flow, topics: [&str; N]) {
    for topic in topics {
        flow.discovered(&topic.into(), OnDead::Block, true, None);
    }
}

fn answer(flow: &mut Flow, plan: ClaimPlan, token: u128, now: Moment, rows: Vec<Row>) {
    let xmin = (plan.path == Path::Ready).then_some(1);
    flow.claimed(plan, ClaimAnswer { token: Uuid::from_u128(token), xmin, xid: None, rows }, now, now);
}

/// Claims and finds these rows. `token` is a number of the test's choice.
fn claim(flow: &mut Flow, token: u128, now: Moment, rows: Vec<Row>) -> ClaimPlan {
    let plan = flow.begin_claim(now, 100).expect("there is something to claim");
    answer(flow, plan.clone(), token, now, rows);
    plan
}

fn group(flow: &mut Flow, now: Moment) -> Vec<HandOver> {
    flow.next_group(now, true, 100)
}

fn seqs(group: &[HandOver]) -> Vec<i64> {
    group.iter().map(|hand_over| hand_over.event.seq).collect()
}

fn ticket(group: &[HandOver], seq: i64) -> Ticket {
    group.iter().find(|hand_over| hand_over.event.seq == seq).expect("it was handed over").ticket
}

/// What a settle says of events that were not sent: claim, events, whether it is the last of the claim.
fn failures(settle: &Settle) -> Vec<(u128, Vec<(i64, Verdict)>, bool)> {
    let failed = settle.failed.iter();
    failed
        .map(|failed| {
            let ends = failed.failures.iter().map(|failure| (failure.seq, failure.verdict.clone()));
            (failed.token.as_u128(), ends.collect(), failed.last)
        })
        .collect()
}

fn settle(flow: &mut Flow, promoted: bool, now: Moment) -> Settle {
    let settle = flow.next_settle().expect("there is something to settle");
    flow.settled(&settle, promoted, now);
    settle
}

#[test]
fn one_event_of_a_key_goes_at_a_time() {
    let mut flow = flow(["a", "b"]);
    claim(
        &mut flow,
        1,
        at(0),
        rows([(1, "a", "k"), (2, "a", "k"), (3, "a", "l"), (4, "b", "k"), (5, "a", ""), (6, "a", "")]),
    );
    discover(&mut flow, ["a"]);
    claim(&mut flow, 2, at(0), rows([(7, "a", "k")]));
    let first = group(&mut flow, at(0));
    assert_eq!(
        seqs(&first),
        [1, 3, 4, 5, 6],
        "other keys, other topics and events without a key wait for nobody"
    );
    assert_eq!(seqs(&group(&mut flow, at(0))), NONE);
    flow.resolve(ticket(&first, 1), Verdict::Sent, at(1));
    let second = group(&mut flow, at(1));
    assert_eq!(seqs(&second), [2]);
    flow.resolve(ticket(&second, 2), Verdict::Sent, at(2));
    assert_eq!(seqs(&group(&mut flow, at(2))), [7], "also across claims");
    assert_eq!(flow.in_flight(), 5);
}

#[test]
fn a_group_is_no_larger_than_asked() {
    let mut flow = flow(["a"]);
    claim(&mut flow, 1, at(0), rows([(3, "a", ""), (1, "a", ""), (2, "a", "")]));
    assert_eq!(seqs(&flow.next_group(at(0), true, 2)), [1, 2], "in the order of seq");
    assert_eq!(seqs(&flow.next_group(at(0), true, 2)), [3]);
}

#[test]
fn a_failure_blocks_the_later_ones_of_its_key_in_every_claim() {
    for verdict in [refused(), unknown(), dead()] {
        let mut flow = flow(["a"]);
        claim(&mut flow, 1, at(0), rows([(1, "a", "k"), (2, "a", "k"), (3, "a", "l")]));
        discover(&mut flow, ["a"]);
        claim(&mut flow, 2, at(0), rows([(4, "a", "k"), (5, "a", "l")]));
        let out = group(&mut flow, at(0));
        discover(&mut flow, ["a"]);
        let on_its_way = flow.begin_claim(at(0), 100).unwrap();
        flow.resolve(ticket(&out, 1), verdict.clone(), at(1));
        answer(&mut flow, on_its_way, 3, at(1), rows([(6, "a", "k"), (7, "a", "m")]));
        assert_eq!(seqs(&group(&mut flow, at(1))), [7]);
        assert!(!flow.wants_claim(at(1)), "it has to be in the database first");

        let settle = settle(&mut flow, false, at(1));
        assert_eq!(settle.sent, NONE);
        let blocked = || Verdict::Blocked;
        let expected = [
            (1, vec![(1, verdict), (2, blocked())], false),
            (2, vec![(4, blocked())], false),
            (3, vec![(6, blocked())], false),
        ];
        assert_eq!(failures(&settle), expected);
        assert_eq!(
            settle.ended,
            [1, 2, 3].map(Uuid::from_u128).into_iter().zip([2, 1, 1]).collect::<Vec<_>>()
        );

        discover(&mut flow, ["a"]);
        claim(&mut flow, 4, at(2), rows([(8, "a", "k")]));
        assert_eq!(seqs(&group(&mut flow, at(2))), [8], "a claim that could see the failure knows better");
    }
}

#[test]
fn an_earlier_one_is_not_held_back_by_a_failure() {
    let mut flow = flow(["a"]);
    claim(&mut flow, 1, at(0), rows([(5, "a", "k")]));
    flow.discovered(&"a".into(), OnDead::Block, false, Some(at(0)));
    claim(&mut flow, 2, at(0), rows([(3, "a", "k"), (7, "a", "k")]));
    let out = group(&mut flow, at(0));
    assert_eq!(seqs(&out), [5], "a scheduled event has no place before it");
    flow.resolve(ticket(&out, 5), refused(), at(1));
    assert_eq!(seqs(&group(&mut flow, at(1))), [3]);
    assert_eq!(
        failures(&settle(&mut flow, false, at(1))),
        [(1, vec![(5, refused())], true), (2, vec![(7, Verdict::Blocked)], false)]
    );
}

#[test]
fn a_dead_event_holds_its_key_or_is_passed_over() {
    for (on_dead, next) in [(OnDead::Block, vec![]), (OnDead::Skip, vec![2])] {
        let mut flow = Flow::new(settings(1, 100));
        flow.discovered(&"a".into(), on_dead, true, None);
        let plan = claim(&mut flow, 1, at(0), rows([(1, "a", "k"), (2, "a", "k")]));
        assert_eq!(plan.on_dead, on_dead);
        let out = group(&mut flow, at(0));
        flow.resolve(ticket(&out, 1), dead(), at(1));
        assert_eq!(seqs(&group(&mut flow, at(1))), next);
        assert_eq!(flow.next_settle().unwrap().failed[0].on_dead, on_dead);
    }
}

#[test]
fn topics_of_different_policies_are_claimed_apart() {
    let mut flow = flow(["a", "c"]);
    flow.discovered(&"b".into(), OnDead::Skip, true, None);
    let mut claimed = Vec::new();
    while let Some(plan) = flow.begin_claim(at(0), 100) {
        claimed
            .push((plan.on_dead, plan.topics.iter().map(|part| part.topic.to_string()).collect::<Vec<_>>()));
        answer(&mut flow, plan, 1, at(0), vec![]);
    }
    assert_eq!(claimed, [(OnDead::Block, vec!["a".into(), "c".into()]), (OnDead::Skip, vec!["b".into()])]);
}

#[test]
fn what_is_released_takes_all_of_its_topic_behind_it_along() {
    let mut flow = flow(["a", "b"]);
    claim(&mut flow, 1, at(0), rows([(11, "a", "k"), (12, "a", "k"), (13, "b", "k"), (14, "b", "k")]));
    discover(&mut flow, ["a"]);
    claim(&mut flow, 2, at(0), rows([(15, "a", "l"), (16, "a", "l")]));
    let out = group(&mut flow, at(0));
    flow.resolve(ticket(&out, 11), Verdict::Released, at(1));
    flow.resolve(ticket(&out, 13), Verdict::Sent, at(1));
    assert!(!flow.wants_claim(at(1)), "topic a is flushed, and b has nothing new");
    assert_eq!(seqs(&group(&mut flow, at(1))), [14], "12 goes back, b goes on");
    flow.resolve(ticket(&out, 15), Verdict::Sent, at(2));
    assert_eq!(seqs(&group(&mut flow, at(2))), NONE, "16 goes back too");

    let second = settle(&mut flow, false, at(2));
    assert_eq!(
        (&second.sent[..], failures(&second)),
        (&[15][..], vec![(2, vec![(16, Verdict::Released)], true)])
    );
    assert!(!flow.wants_claim(at(2)), "14 is still out, and with it the claim that 11 came from");
    flow.resolve(Ticket { no: 1, index: 3 }, Verdict::Sent, at(3));
    settle(&mut flow, false, at(3));
    let again = flow.begin_claim(at(3), 100).unwrap();
    assert_eq!(
        (again.path, again.topics[0].topic.as_ref()),
        (Path::Due, "a"),
        "parts of it may have come back as due"
    );
    answer(&mut flow, again, 3, at(3), vec![]);
    let again = flow.begin_claim(at(3), 100).unwrap();
    assert_eq!((again.path, again.topics.len()), (Path::Ready, 1));
    assert!(again.topics[0].after < 11);
}

#[test]
fn nothing_goes_while_the_way_is_closed() {
    let mut flow = flow(["a"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", "k"), (2, "a", "k"), (3, "a", "")]));
    assert_eq!(seqs(&flow.next_group(at(0), false, 1)), NONE);
    let settle = settle(&mut flow, false, at(0));
    let [(1, ends, true)] = &failures(&settle)[..] else { panic!("{settle:?}") };
    assert_eq!(ends.len(), 3);
    assert!(ends.iter().all(|(_, verdict)| *verdict == Verdict::Released));
    assert!(flow.is_empty());
}

#[test]
fn a_failure_is_tried_again_when_it_is_due() {
    let mut flow = flow(["a"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", "k")]));
    let out = group(&mut flow, at(0));
    flow.resolve(ticket(&out, 1), refused(), at(10));
    settle(&mut flow, false, at(20));
    assert_eq!(flow.wakes_at(at(20)), Some(at(520)));
    assert_eq!(flow.begin_claim(at(519), 100), None);
    assert_eq!(flow.begin_claim(at(520), 100).map(|plan| plan.path), Some(Path::Due));
}

#[test]
fn promoted_followers_are_due_at_once() {
    for promoted in [false, true] {
        let mut flow = Flow::new(settings(1, 100));
        flow.discovered(&"a".into(), OnDead::Block, false, Some(at(0)));
        claim(&mut flow, 1, at(0), rows([(1, "a", "k")]));
        let out = group(&mut flow, at(0));
        flow.resolve(ticket(&out, 1), Verdict::Sent, at(1));
        settle(&mut flow, promoted, at(2));
        assert_eq!(flow.begin_claim(at(2), 100).map(|plan| plan.path), promoted.then_some(Path::Due));
    }
}

#[test]
fn a_full_claim_asks_for_more() {
    let mut flow = Flow::new(settings(4, 2));
    discover(&mut flow, ["a"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", ""), (2, "a", "")]));
    claim(&mut flow, 2, at(0), rows([(3, "a", "")]));
    assert!(!flow.wants_claim(at(0)));
    assert_eq!(flow.wakes_at(at(0)), None);
}

#[test]
fn rows_that_a_claim_parked_count_for_the_scan() {
    let mut flow = Flow::new(settings(4, 2));
    discover(&mut flow, ["a"]);
    let parked = |seq| Row::Blocked { seq, topic: "a".into() };
    claim(&mut flow, 1, at(0), vec![parked(1), parked(2)]);
    assert!(flow.is_empty() && flow.wants_claim(at(0)), "nothing to send, and more to scan");
}

#[test]
fn new_events_and_retries_take_turns() {
    let mut flow = Flow::new(settings(9, 1));
    flow.discovered(&"bad".into(), OnDead::Block, false, Some(at(0)));
    discover(&mut flow, ["good"]);
    for turn in 0..4 {
        let plan = flow.begin_claim(at(0), 1).unwrap();
        let (path, topic) = if turn % 2 == 0 { (Path::Due, "bad") } else { (Path::Ready, "good") };
        assert_eq!((plan.path, plan.topics[0].topic.as_ref()), (path, topic), "turn {turn}");
        answer(&mut flow, plan, turn, at(0), rows([(i64::try_from(turn).unwrap(), topic, "")]));
    }
}

#[test]
fn claims_are_bounded() {
    let mut flow = Flow::new(settings(2, 1));
    discover(&mut flow, ["a"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", "")]));
    claim(&mut flow, 2, at(0), rows([(2, "a", "")]));
    assert_eq!(flow.live().map(|token| token.as_u128()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(flow.begin_claim(at(0), 1), None);
    let out = group(&mut flow, at(0));
    flow.resolve(ticket(&out, 2), Verdict::Sent, at(0));
    let settle = flow.next_settle().unwrap();
    assert_eq!((&settle.sent[..], &settle.done[..]), (&[2][..], &[Uuid::from_u128(2)][..]));
    assert_eq!(flow.begin_claim(at(0), 1), None, "it counts until its row is gone");
    assert_eq!(flow.next_settle(), None, "a settle is handed out once");
    flow.settled(&settle, false, at(0));
    assert!(flow.begin_claim(at(0), 1).is_some());
}

#[test]
fn limits_share_the_permits() {
    let names: Vec<String> = (0..7).map(|n| format!("t{n}")).collect();
    for (budget, batch) in [(0, 10), (1, 10), (3, 10), (7, 10), (10, 10), (99, 10), (100, 100)] {
        let mut flow = Flow::new(settings(1, batch));
        for name in &names {
            flow.discovered(&name.as_str().into(), OnDead::Block, true, None);
        }
        let mut named = std::collections::BTreeSet::new();
        for _ in 0..names.len() {
            let Some(plan) = flow.begin_claim(at(0), budget) else { break };
            let most = budget.min(batch);
            assert!(plan.topics.iter().map(|part| part.limit).sum::<usize>() <= most);
            assert_eq!(plan.topics.len(), most.min(names.len() - named.len()));
            named.extend(plan.topics.iter().map(|part| part.topic.clone()));
            answer(&mut flow, plan, 1, at(0), vec![]);
        }
        assert_eq!(named.len(), if budget == 0 { 0 } else { names.len() }, "each has its turn: {budget}");
    }
}

#[test]
fn a_topic_in_trouble_pauses_and_comes_back_with_one_event() {
    let mut flow = flow(["a", "b"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", "")]));
    let out = group(&mut flow, at(0));
    flow.resolve(ticket(&out, 1), Verdict::Released, at(0));
    flow.pause(&"a".into(), at(0), 1.0);
    settle(&mut flow, false, at(0));
    discover(&mut flow, ["b"]);
    let others = claim(&mut flow, 2, at(0), vec![]);
    assert_eq!(others.topics.len(), 1, "b goes on");
    assert_eq!(flow.wakes_at(at(1)), Some(at(500)));
    assert!(!flow.wants_claim(at(499)));
    let probe = flow.begin_claim(at(500), 100).unwrap();
    assert_eq!((probe.path, probe.topics[0].limit), (Path::Due, 1));
    answer(&mut flow, probe, 3, at(500), vec![]);
    let probe = claim(&mut flow, 4, at(500), rows([(1, "a", "")]));
    assert_eq!((probe.path, probe.topics[0].limit), (Path::Ready, 1));
    let out = group(&mut flow, at(500));
    flow.resolve(ticket(&out, 1), Verdict::Sent, at(501));
    settle(&mut flow, false, at(501));
    discover(&mut flow, ["a"]);
    assert_eq!(flow.begin_claim(at(501), 100).unwrap().topics[0].limit, 100);
}

/// One more unknown end of event 1, which has that many behind it. Returns whether it was convicted.
fn try_suspect(flow: &mut Flow, attempts: u32, now: Moment) -> bool {
    flow.discovered(&"a".into(), OnDead::Block, false, Some(now));
    claim(flow, 1, now, vec![Row::Event(Event { attempts, ..event(1, "a", "k") })]);
    let out = group(flow, now);
    assert_eq!((out.len(), out[0].alone), (1, attempts >= LIMITS.max_unknown));
    let (past, convicted) = flow.past(out[0].ticket).unwrap();
    assert_eq!(past.attempts, attempts);
    flow.resolve(out[0].ticket, unknown(), now);
    settle(flow, false, now);
    convicted
}

fn confirm_another(flow: &mut Flow, topic: &str, now: Moment) {
    discover(flow, [topic]);
    claim(flow, 2, now, rows([(2, topic, "")]));
    let out = group(flow, now);
    flow.resolve(ticket(&out, 2), Verdict::Sent, now);
    settle(flow, false, now);
}

#[test]
fn a_suspect_goes_alone() {
    let mut flow = flow(["a"]);
    let suspect = Row::Event(Event { attempts: 5, refusals: 3, ..event(2, "a", "") });
    let mut found = rows([(1, "a", ""), (3, "a", ""), (4, "a", "")]);
    found.push(suspect);
    claim(&mut flow, 1, at(0), found);
    let before = group(&mut flow, at(0));
    assert_eq!(seqs(&before), [1]);
    assert_eq!(seqs(&group(&mut flow, at(0))), NONE, "it waits for what is out, and the others behind it");
    flow.resolve(ticket(&before, 1), Verdict::Sent, at(1));
    let alone = group(&mut flow, at(1));
    assert_eq!((seqs(&alone), alone[0].alone), (vec![2], true));
    assert_eq!(seqs(&group(&mut flow, at(1))), NONE);
    flow.resolve(ticket(&alone, 2), Verdict::Sent, at(2));
    assert_eq!(seqs(&group(&mut flow, at(2))), [3, 4]);
}

#[test]
fn a_suspect_is_convicted_only_if_others_of_its_topic_were_confirmed_in_between() {
    let mut flow = flow(["a", "b"]);
    confirm_another(&mut flow, "a", at(0));
    assert!(!try_suspect(&mut flow, 1, at(1)), "it is no suspect yet, so that this one does not count");
    confirm_another(&mut flow, "a", at(2));
    assert!(!try_suspect(&mut flow, 2, at(3)), "the first time alone");
    assert!(!try_suspect(&mut flow, 3, at(4)), "nothing was confirmed: the broker may be to blame");
    confirm_another(&mut flow, "b", at(5));
    assert!(!try_suspect(&mut flow, 4, at(6)), "nothing of its topic");
    confirm_another(&mut flow, "a", at(7));
    assert!(try_suspect(&mut flow, 5, at(8)));
}

#[test]
fn an_owner_without_a_lane_settles_what_is_out_and_nothing_else() {
    let mut flow = flow(["a"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", "k"), (2, "a", "k"), (3, "a", "l"), (4, "a", "l")]));
    discover(&mut flow, ["a"]);
    claim(&mut flow, 2, at(0), rows([(5, "a", "k")]));
    discover(&mut flow, ["a"]);
    let out = group(&mut flow, at(0));
    flow.abandon();
    assert!(!flow.wants_claim(at(1)) && flow.wakes_at(at(1)).is_none());
    flow.resolve(ticket(&out, 1), Verdict::Sent, at(1));
    assert_eq!(seqs(&group(&mut flow, at(1))), NONE);
    assert_eq!(flow.next_settle(), None, "3 is still out");
    flow.resolve(ticket(&out, 3), unknown(), at(2));
    let late = settle(&mut flow, false, at(2));
    assert_eq!((&late.sent[..], &late.done[..]), (&[1][..], &[][..]));
    assert_eq!(failures(&late), [(1, vec![(3, unknown())], false)], "2 and 4 have no end: the row stays");
    assert!(flow.is_empty());
}

#[test]
fn an_end_is_final() {
    let mut flow = flow(["a"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", "k"), (2, "a", "k")]));
    let out = group(&mut flow, at(0));
    flow.resolve(out[0].ticket, Verdict::Sent, at(1));
    flow.resolve(out[0].ticket, refused(), at(1));
    flow.resolve(Ticket { no: 9, index: 0 }, refused(), at(1));
    flow.resolve(Ticket { no: 1, index: 9 }, refused(), at(1));
    assert_eq!(flow.in_flight(), 0);
    assert_eq!(seqs(&group(&mut flow, at(1))), [2]);
}

#[test]
fn a_reset_and_a_sweep_scan_from_the_start() {
    let mut flow = flow(["a"]);
    let plan = flow.begin_claim(at(0), 100).unwrap();
    let found = rows([(10, "a", "")]);
    flow.claimed(
        plan,
        ClaimAnswer { token: Uuid::from_u128(1), xmin: Some(5), xid: Some(6), rows: found },
        at(0),
        at(0),
    );
    discover(&mut flow, ["a"]);
    let plan = flow.begin_claim(at(100), 100).unwrap();
    let found = rows([(20, "a", "")]);
    flow.claimed(
        plan,
        ClaimAnswer { token: Uuid::from_u128(2), xmin: Some(7), xid: Some(8), rows: found },
        at(100),
        at(100),
    );
    let after = |flow: &mut Flow| {
        discover(flow, ["a"]);
        let plan = flow.begin_claim(at(200), 100).unwrap();
        answer(flow, plan.clone(), 3, at(200), vec![]);
        assert_eq!(plan.path, Path::Ready);
        plan.topics[0].after
    };
    // Transaction 8 still runs for this one's snapshot, whose xmin is 1.
    assert_eq!(after(&mut flow), -1);
    assert!(flow.pass_horizon(at(60_101)), "10 was seen 20 ms before the claim that is transaction 8");
    assert_eq!(after(&mut flow), 10);
    flow.sweep();
    assert_eq!(after(&mut flow), -1);
    flow.reset();
    assert_eq!(flow.begin_claim(at(200), 100).map(|plan| plan.path), Some(Path::Due));
}
