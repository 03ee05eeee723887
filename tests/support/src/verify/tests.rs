//! Each count moves for what it is there for, and for nothing else.

use super::*;

fn written(n: u128, topic: &str, key: Option<&str>) -> Written {
    Written {
        id: Uuid::from_u128(n),
        seq: i64::try_from(n).expect("small"),
        tenant: "acme".to_owned(),
        broker: "kafka".to_owned(),
        topic: topic.to_owned(),
        key: key.map(str::to_owned),
    }
}

/// Events 1 to 4: two of key `a`, one of key `b`, one without a key.
fn committed() -> Vec<Written> {
    vec![
        written(1, "orders", Some("a")),
        written(2, "orders", Some("a")),
        written(3, "orders", Some("b")),
        written(4, "orders", None),
    ]
}

fn seen(ids: &[u128]) -> Vec<Seen> {
    let mut known = Vec::new();
    let inbox = |&id: &u128| {
        let effect = !known.contains(&id);
        known.push(id);
        Seen { id: Uuid::from_u128(id), effect }
    };
    ids.iter().map(inbox).collect()
}

fn judge_kafka(committed: &[Written], rolled_back: &[Written], seen: Vec<Seen>) -> Counts {
    verify(committed, rolled_back, &BTreeMap::from([("kafka".to_owned(), seen)])).total()
}

const CLEAN: Counts = Counts {
    committed: 4,
    delivered: 4,
    lost: 0,
    duplicates_seen: 0,
    duplicates_left: 0,
    order_violations: 0,
    rolled_back_seen: 0,
    strangers: 0,
};

#[test]
fn nothing_wrong() {
    for order in [[1, 2, 3, 4], [4, 3, 1, 2], [1, 3, 4, 2]] {
        let counts = judge_kafka(&committed(), &[written(9, "orders", None)], seen(&order));
        assert_eq!(counts, CLEAN, "{order:?}");
        assert!(counts.is_clean());
    }
}

#[test]
fn lost() {
    let counts = judge_kafka(&committed(), &[], seen(&[1, 2, 4]));
    assert_eq!(counts, Counts { delivered: 3, lost: 1, ..CLEAN });
    assert!(!counts.is_clean());
    let counts = judge_kafka(&committed(), &[], Vec::new());
    assert_eq!(counts, Counts { delivered: 0, lost: 4, ..CLEAN });
    // Nobody listened at all.
    let counts = verify(&committed(), &[], &BTreeMap::new()).total();
    assert_eq!(counts, Counts { delivered: 0, lost: 4, ..CLEAN });
}

#[test]
fn seen_without_effect_is_lost() {
    let mut seen = seen(&[1, 2, 3, 4]);
    seen[2].effect = false;
    assert_eq!(judge_kafka(&committed(), &[], seen), Counts { delivered: 3, lost: 1, ..CLEAN });
}

#[test]
fn duplicates_that_the_inbox_removed() {
    let counts = judge_kafka(&committed(), &[], seen(&[1, 2, 1, 3, 3, 4, 3]));
    assert_eq!(counts, Counts { duplicates_seen: 3, ..CLEAN });
    assert!(counts.is_clean(), "at least once");
}

#[test]
fn duplicates_that_the_inbox_let_through() {
    let mut seen = seen(&[1, 2, 3, 4, 4]);
    seen[4].effect = true;
    let counts = judge_kafka(&committed(), &[], seen);
    assert_eq!(counts, Counts { duplicates_seen: 1, duplicates_left: 1, ..CLEAN });
    assert!(!counts.is_clean());
}

#[test]
fn order_within_a_key() {
    let counts = judge_kafka(&committed(), &[], seen(&[2, 1, 3, 4]));
    assert_eq!(counts, Counts { order_violations: 1, ..CLEAN });
    assert!(!counts.is_clean());
    // A late second copy is no violation.
    assert_eq!(judge_kafka(&committed(), &[], seen(&[1, 2, 1, 3, 4])).order_violations, 0);
    // Each event that was overtaken counts, whatever is in between.
    let three = [written(1, "t", Some("a")), written(2, "t", Some("a")), written(3, "t", Some("a"))];
    assert_eq!(judge_kafka(&three, &[], seen(&[3, 1, 2])).order_violations, 2);
    assert_eq!(judge_kafka(&three, &[], seen(&[1, 3, 2])).order_violations, 1);
}

#[test]
fn no_order_across_keys_topics_tenants() {
    let two = [written(1, "t", Some("a")), written(2, "u", Some("a"))];
    assert_eq!(judge_kafka(&two, &[], seen(&[2, 1])).order_violations, 0);
    let other = Written { tenant: "globex".to_owned(), ..written(2, "t", Some("a")) };
    assert_eq!(judge_kafka(&[written(1, "t", Some("a")), other], &[], seen(&[2, 1])).order_violations, 0);
    let unkeyed = [written(1, "t", None), written(2, "t", None)];
    assert_eq!(judge_kafka(&unkeyed, &[], seen(&[2, 1])).order_violations, 0);
}

#[test]
fn rolled_back() {
    let counts = judge_kafka(&committed(), &[written(9, "orders", Some("a"))], seen(&[1, 9, 2, 3, 4]));
    assert_eq!(counts, Counts { rolled_back_seen: 1, ..CLEAN });
    assert!(!counts.is_clean());
}

#[test]
fn strangers() {
    let counts = judge_kafka(&committed(), &[], seen(&[1, 77, 2, 3, 4]));
    assert_eq!(counts, Counts { strangers: 1, ..CLEAN });
    assert!(!counts.is_clean());
    // At the wrong broker: lost where it belongs, a stranger where it is.
    let verdict = verify(
        &committed(),
        &[],
        &BTreeMap::from([("kafka".to_owned(), seen(&[1, 2, 4])), ("nats".to_owned(), seen(&[3]))]),
    );
    assert_eq!(verdict.total(), Counts { delivered: 3, lost: 1, strangers: 1, ..CLEAN });
    assert_eq!(verdict.broker("nats"), Counts { strangers: 1, ..Counts::default() });
}

#[test]
fn sums_by_tenant_and_broker() {
    let other = Written { tenant: "globex".to_owned(), broker: "nats".to_owned(), ..written(5, "t", None) };
    let verdict = verify(
        &[committed(), vec![other]].concat(),
        &[],
        &BTreeMap::from([("kafka".to_owned(), seen(&[1, 2, 3, 4])), ("nats".to_owned(), seen(&[5]))]),
    );
    assert_eq!(verdict.broker("kafka"), CLEAN);
    assert_eq!(verdict.broker("nats"), Counts { committed: 1, delivered: 1, ..Counts::default() });
    assert_eq!(verdict.total(), Counts { committed: 5, delivered: 5, ..Counts::default() });
    assert_eq!(verdict.brokers(), ["kafka", "nats"]);
    assert_eq!(verdict.rows.len(), 2);
}
