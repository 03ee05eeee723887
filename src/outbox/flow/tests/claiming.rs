//! What is claimed when, and how much: one rule a test.

use uuid::Uuid;

use crate::outbox::event::OnDead;
use crate::outbox::flow::{ClaimAnswer, Flow, Path, Row};
use crate::outbox::settle::Verdict;

use super::scene::{answer, at, claim, discover, flow, group, refused, rows, settings, settle, ticket};

#[test]
fn each_topic_is_claimed_with_its_own_policy() {
    let mut flow = flow(["a", "c"]);
    flow.discovered(&"b".into(), OnDead::Skip, true, None);
    let mut claimed = Vec::new();
    while let Some(plan) = flow.begin_claim(at(0), 100) {
        claimed
            .push(plan.topics.iter().map(|part| (part.topic.to_string(), part.on_dead)).collect::<Vec<_>>());
        answer(&mut flow, plan, 1, at(0), vec![]);
    }
    let (block, skip) = (OnDead::Block, OnDead::Skip);
    assert_eq!(claimed, [[("a".into(), block), ("b".into(), skip), ("c".into(), block)]]);
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
