//! Which event goes when, and how it ends: one rule a test.

use uuid::Uuid;

use crate::outbox::event::{Body, Event, OnDead};
use crate::outbox::flow::{Flow, Path, Row, Ticket};
use crate::outbox::lease::Moment;
use crate::outbox::settle::Verdict;

use super::scene::{
    LIMITS, NONE, answer, at, claim, dead, discover, event, failures, flow, group, refused, rows, seqs,
    settings, settle, ticket, unknown,
};

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
    assert_eq!(seqs(&flow.next_group(at(0), true, 2, |_| true)), [1, 2], "in the order of seq");
    assert_eq!(seqs(&flow.next_group(at(0), true, 2, |_| true)), [3]);
}

#[test]
fn a_group_ends_before_the_first_event_that_does_not_fit() {
    let mut flow = flow(["a"]);
    let sized = |seq: i64, bytes: usize| {
        let body = Body {
            id: Uuid::nil(),
            kind: "t".into(),
            content_type: "text/plain".into(),
            headers: None,
            occurred_at: time::OffsetDateTime::UNIX_EPOCH,
            payload: vec![0; bytes].into(),
        };
        Row::Event(Event { body: Some(body), ..event(seq, "a", "") })
    };
    claim(&mut flow, 1, at(0), vec![sized(1, 40), sized(2, 40), sized(3, 10)]);
    let mut room = 60_usize;
    let mut admit = |size: usize| room.checked_sub(size).map(|left| room = left).is_some();
    assert_eq!(seqs(&flow.next_group(at(0), true, 9, &mut admit)), [1], "3 does not go past 2");
    assert_eq!(seqs(&flow.next_group(at(0), true, 9, |_| true)), [2, 3]);
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
        discover(&mut flow, ["a"]);
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
        claim(&mut flow, 1, at(0), rows([(1, "a", "k"), (2, "a", "k")]));
        let out = group(&mut flow, at(0));
        flow.resolve(ticket(&out, 1), dead(), at(1));
        assert_eq!(seqs(&group(&mut flow, at(1))), next);
        let skipped = flow.next_settle().unwrap().failed[0].failures[0].skipped;
        assert_eq!(skipped, on_dead == OnDead::Skip);
    }
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
    assert_eq!(seqs(&flow.next_group(at(0), false, 1, |_| false)), NONE);
    let settle = settle(&mut flow, false, at(0));
    let [(1, ends, true)] = &failures(&settle)[..] else { panic!("{settle:?}") };
    assert_eq!(ends.len(), 3);
    assert!(ends.iter().all(|(_, verdict)| *verdict == Verdict::Released));
    assert!(flow.is_empty());
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
    let forgotten = [(Uuid::from_u128(1), 2), (Uuid::from_u128(2), 1)];
    assert_eq!(flow.abandon(), forgotten, "2 and 4, and 5");
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
fn in_a_hurry_what_ended_does_not_wait_for_the_rest_of_its_claim() {
    let mut flow = flow(["a"]);
    claim(&mut flow, 1, at(0), rows([(1, "a", ""), (2, "a", ""), (3, "a", "")]));
    let out = flow.next_group(at(0), true, 1, |_| true);
    assert_eq!(seqs(&flow.next_group(at(1), false, 100, |_| true)), NONE, "2 and 3 go back");
    assert!(!flow.wants_settle() && flow.next_settle().is_none(), "with 1, in one statement");
    flow.hurry();
    assert!(flow.wants_settle());
    let back = settle(&mut flow, false, at(1));
    assert_eq!(failures(&back), [(1, vec![(2, Verdict::Released), (3, Verdict::Released)], false)]);
    assert!(!flow.wants_settle() && flow.next_settle().is_none());
    flow.resolve(ticket(&out, 1), Verdict::Sent, at(2));
    let sent = settle(&mut flow, false, at(2));
    assert_eq!((&sent.sent[..], &sent.done[..]), (&[1][..], &[Uuid::from_u128(1)][..]));
    assert!(flow.is_empty());
}
