//! Topics, gauges, heartbeats: what pacing and people go by.

use std::time::Duration;

use outrider::outbox::OnDead;
use outrider::store::{FailedOutcome, KnownTopic, Stats, TopicWork};
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    topics_with_work_are_found,
    known_topics_are_looked_at_from_their_floor,
    topics_are_found_between_known_ones_whatever_their_letters,
    gauges_say_what_is_unsent,
    gauges_stop_counting,
    the_oldest_unsent_event_ages,
    replicas_see_each_other,
);

fn work(topic: &str, ready: bool, held: bool, due: Option<Duration>) -> TopicWork {
    TopicWork { topic: topic.into(), ready, held, next_due: due }
}

async fn topics_with_work_are_found(mut f: Fixture) {
    assert_eq!(f.store.topics(LANE, &[]).await.unwrap(), []);
    f.insert("ready", None, 3).await;
    let sent = f.insert("sent", None, 3).await;
    f.store.settle_sent("b", Uuid::new_v4(), &sent, &[]).await.unwrap();
    f.hold("waiting", "k", 2, FailedOutcome::Refused).await;
    f.hold("dead", "k", 2, FailedOutcome::Dead).await;
    f.run("INSERT INTO outrider.outbox (topic, type, payload, available_at) VALUES ('scheduled', 't', 'x', 'infinity')").await;

    let topics = f.store.topics(LANE, &[]).await.unwrap();
    let names: Vec<&str> = topics.iter().map(|t| t.topic.as_str()).collect();
    assert_eq!(names, ["dead", "ready", "scheduled", "waiting"]);
    assert_eq!(topics[0], work("dead", false, true, None));
    assert_eq!(topics[1], work("ready", true, false, None));
    let day = Duration::from_secs(86_400);
    assert!(topics[2].next_due.unwrap() > day - Duration::from_secs(9), "infinity is a day");
    let due = topics[3].next_due.unwrap();
    assert!(topics[3].held && due > Duration::from_secs(50) && due <= Duration::from_secs(60), "{due:?}");

    f.pass_time().await;
    let topics = f.store.topics(LANE, &[]).await.unwrap();
    assert_eq!(topics[3].next_due, Some(Duration::ZERO));
    assert_eq!(f.store.topics(7, &[]).await.unwrap(), [], "another lane");
}

async fn known_topics_are_looked_at_from_their_floor(mut f: Fixture) {
    let seqs = f.insert("a", None, 3).await;
    f.insert("b", None, 1).await;
    let ready =
        |topics: Vec<TopicWork>| topics.into_iter().filter(|t| t.ready).map(|t| t.topic).collect::<Vec<_>>();
    let known = [KnownTopic { topic: "a", floor: seqs[1] }, KnownTopic { topic: "zzz", floor: -1 }];
    assert_eq!(ready(f.store.topics(LANE, &known).await.unwrap()), ["a", "b"]);
    let known = [KnownTopic { topic: "a", floor: seqs[2] }];
    assert_eq!(ready(f.store.topics(LANE, &known).await.unwrap()), ["b"]);
}

async fn topics_are_found_between_known_ones_whatever_their_letters(mut f: Fixture) {
    let mut all = ["A", "B", "a", "a.b", "a-b", "b", "é", "z", "\u{10ffff}", " ", "a\u{0}b"].to_vec();
    all.pop();
    for topic in &all {
        f.insert(topic, None, 2).await;
    }
    all.sort_unstable();
    // Every subset of size one and some larger ones, in any order.
    let subsets: Vec<Vec<&str>> =
        all.iter().map(|t| vec![*t]).chain([vec!["z", "A", "é"], all.clone(), vec![]]).collect();
    for subset in subsets {
        let known: Vec<_> = subset.iter().map(|topic| KnownTopic { topic, floor: -1 }).collect();
        let found = f.store.topics(LANE, &known).await.unwrap();
        let found: Vec<&str> = found.iter().map(|t| t.topic.as_str()).collect();
        assert_eq!(found, all, "known: {subset:?}");
    }
}

async fn gauges_say_what_is_unsent(mut f: Fixture) {
    assert_eq!(f.store.stats().await.unwrap(), Stats::default());
    f.hold("t", "waiting", 3, FailedOutcome::Refused).await;
    f.hold("u", "dead", 2, FailedOutcome::Dead).await;
    f.run("INSERT INTO outrider.outbox (topic, type, payload, available_at) VALUES ('s', 't', 'x', now() + interval '1 hour')").await;
    let sent = f.insert("sent", None, 5).await;
    f.store.settle_sent("b", Uuid::new_v4(), &sent, &[]).await.unwrap();
    f.insert("t", None, 4).await;
    let (_, claimed) = f.claim("t").await;
    assert_eq!(claimed.rows.len(), 4);
    let stats = f.store.stats().await.unwrap();
    let oldest = stats.oldest_unsent_age.unwrap();
    assert!(oldest < Duration::from_secs(30), "{oldest:?}");
    assert_eq!(
        Stats { oldest_unsent_age: None, ..stats },
        Stats {
            oldest_unsent_age: None,
            ready: 4,
            waiting: 1,
            parked: 3,
            dead: 1,
            scheduled: 1,
            blocked_keys: 2,
            claims: 1,
            in_flight: 4,
        }
    );
    assert_eq!(stats.pending(), 8);
}

// C95
async fn gauges_stop_counting(mut f: Fixture) {
    // Without their outbox rows, which the gauge does not count.
    f.run(
        "INSERT INTO outrider.delivery (seq, due_at, lane, hold, topic)
         SELECT g, now(), 0, 0, 't' FROM generate_series(1, 120000) g",
    )
    .await;
    let stats = f.store.stats().await.unwrap();
    assert_eq!(stats.ready, u64::from(outrider::store::COUNT_CAP));
}

async fn the_oldest_unsent_event_ages(mut f: Fixture) {
    let age = |f: &mut Fixture| {
        let mut store = store(&f.database);
        async move { store.stats().await.unwrap().oldest_unsent_age.map(|age| age.as_secs() / 60) }
    };
    // Dead and not yet due: these do not age.
    f.run("INSERT INTO outrider.outbox (topic, type, payload, occurred_at) VALUES ('dead', 't', 'x', now() - interval '9 h')").await;
    f.run("UPDATE outrider.delivery SET hold = 3").await;
    f.run("INSERT INTO outrider.outbox (topic, type, payload, occurred_at, available_at) VALUES ('s', 't', 'x', now() - interval '8 h', now() + interval '1 h')").await;
    assert_eq!(age(&mut f).await, None);
    // Ready, on two topics.
    f.run("INSERT INTO outrider.outbox (topic, type, payload, occurred_at) VALUES ('a', 't', 'x', now() - interval '30 min')").await;
    f.run("INSERT INTO outrider.outbox (topic, type, payload, occurred_at) VALUES ('b', 't', 'x', now() - interval '10 min')").await;
    assert_eq!(age(&mut f).await, Some(30));
    // Waiting after a failure still counts from when it occurred, not from its next try.
    f.run("UPDATE outrider.delivery SET hold = 1, due_at = now() + interval '1 h' WHERE topic = 'a'").await;
    assert_eq!(age(&mut f).await, Some(30));
    // A scheduled one counts from when it became available.
    f.run("DELETE FROM outrider.delivery WHERE topic IN ('a', 'b')").await;
    f.run("UPDATE outrider.outbox SET available_at = now() - interval '5 min' WHERE topic = 's'").await;
    f.run("UPDATE outrider.delivery SET due_at = now() - interval '5 min' WHERE topic = 's'").await;
    assert_eq!(age(&mut f).await, Some(5));
    assert!(f.claim_due("s", &[], OnDead::Block).await.1.seen);
}

async fn replicas_see_each_other(mut f: Fixture) {
    let alive = Duration::from_secs(10);
    let names = |seen: Vec<(String, Duration)>| seen.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(f.store.heartbeat("b", alive).await.unwrap().is_empty());
    assert_eq!(names(f.store.heartbeat("a", alive).await.unwrap()), ["b"]);
    f.run("UPDATE outrider.replica SET seen_at = now() - interval '6 s' WHERE name = 'b'").await;
    let age = f.store.heartbeat("a", alive).await.unwrap()[0].1;
    assert!((Duration::from_secs(6)..Duration::from_secs(9)).contains(&age), "{age:?}");
    f.run("UPDATE outrider.replica SET seen_at = now() - interval '11 s' WHERE name = 'b'").await;
    assert!(f.store.heartbeat("a", alive).await.unwrap().is_empty());
    assert_eq!(names(f.store.heartbeat("b", alive).await.unwrap()), ["a"], "it was only silent");
    f.run("UPDATE outrider.replica SET seen_at = now() - interval '1 h'").await;
    assert!(f.store.heartbeat("a", alive).await.unwrap().is_empty());
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.replica").await, 1, "forgotten");
    f.store.depart("a").await.unwrap();
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.replica").await, 0);
}
