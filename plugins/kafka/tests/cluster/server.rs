//! What a real Kafka refuses, and that a refusal hits the right record.

use std::time::{Duration, Instant, UNIX_EPOCH};

use outrider_broker::{ErrorClass, Outcome, Scope};

use crate::support::{
    PATIENCE, assert_all, bootstrap, connect, create_topic, delete_topic, message, messages, publish,
    publish_until_confirmed, read, unique,
};

const DEADLINE: Duration = Duration::from_secs(8);

/// C29: not dead, not after the whole message timeout, not at the neighbours' cost; and it mends itself.
#[tokio::test]
async fn an_unknown_topic_is_trouble_of_that_topic_until_it_is_created() {
    let (known, missing) = (unique("known"), unique("missing"));
    create_topic(&known, 2, &[]).await;
    let connection = connect(&bootstrap(), &[], DEADLINE).await;
    for attempt in 0..2 {
        let begun = Instant::now();
        let batch = vec![message(&known, 1, Some("k"), "x"), message(&missing, 2, Some("k"), "x")];
        let outcomes = publish(&*connection, batch, DEADLINE).await;
        assert_eq!(outcomes[0].name(), "confirmed");
        let Outcome::Retry(cause) = &outcomes[1] else { panic!("{:?}", outcomes[1]) };
        assert_eq!((cause.scope, cause.class), (Scope::Destination, ErrorClass::UnknownDestination));
        assert!(cause.text.contains(&missing) && cause.text.contains("--create"), "{}", cause.text);
        // The first time the client waits a second for news of the topic.
        let allowed = Duration::from_secs(if attempt == 0 { 4 } else { 2 });
        assert!(begun.elapsed() < allowed, "attempt {attempt} took {:?}", begun.elapsed());
    }
    create_topic(&missing, 2, &[]).await;
    publish_until_confirmed(&*connection, vec![message(&missing, 2, Some("k"), "x")]).await;
    assert_eq!(read(&bootstrap(), &missing, 1, Instant::now() + PATIENCE).await.len(), 1);
    connection.close(Instant::now() + DEADLINE).await;
}

/// C29: a topic that is deleted under the producer's hands, and comes back.
#[tokio::test]
async fn a_topic_may_be_deleted_and_made_again() {
    let topic = unique("deleted");
    create_topic(&topic, 2, &[]).await;
    let connection = connect(&bootstrap(), &[], DEADLINE).await;
    assert_all(&publish(&*connection, messages(&topic, 100, 10), DEADLINE).await, "confirmed");
    delete_topic(&topic).await;
    let until = Instant::now() + PATIENCE;
    loop {
        let outcomes = publish(&*connection, messages(&topic, 100, 10), DEADLINE).await;
        let refused = outcomes.iter().find(|outcome| matches!(outcome, Outcome::Refused(_)));
        assert!(refused.is_none(), "{refused:?}");
        let unknown_topic = |outcome: &Outcome| matches!(outcome, Outcome::Retry(cause) if cause.class == ErrorClass::UnknownDestination);
        if outcomes.iter().all(unknown_topic) {
            break;
        }
        assert!(Instant::now() < until, "the topic is gone, and the last outcome is {:?}", outcomes.last());
    }
    create_topic(&topic, 2, &[]).await;
    let connection = if connection.alive() { connection } else { connect(&bootstrap(), &[], DEADLINE).await };
    publish_until_confirmed(&*connection, messages(&topic, 100, 10)).await;
}

/// C32: the topic's limit is lower than the client's. A request is refused as a whole, and only the record that
/// is too large by itself is to blame.
#[tokio::test]
async fn a_record_over_the_topics_limit_is_refused_alone() {
    let topic = unique("small");
    create_topic(&topic, 1, &[("max.message.bytes", "100000")]).await;
    let connection = connect(&bootstrap(), &[], DEADLINE).await;
    let mut batch = messages(&topic, 20, 20_000);
    batch.insert(10, message(&topic, 500, Some("big"), vec![b'x'; 150_000]));
    let outcomes = publish(&*connection, batch, DEADLINE).await;
    for (index, outcome) in outcomes.iter().enumerate() {
        if index != 10 {
            assert_eq!(outcome.name(), "confirmed", "{index}: {outcome:?}");
        }
    }
    let Outcome::Refused(refusal) = &outcomes[10] else { panic!("{:?}", outcomes[10]) };
    assert!(refusal.permanent);
    assert_eq!(refusal.cause.class, ErrorClass::TooLarge);
    assert!(refusal.cause.text.contains("max.message.bytes") && refusal.cause.text.contains("1500"));
    let read = read(&bootstrap(), &topic, 20, Instant::now() + PATIENCE).await;
    let mut seqs: Vec<i64> = read.iter().map(|record| record.seq()).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (0..20).collect::<Vec<_>>());
    connection.close(Instant::now() + DEADLINE).await;
}

/// A compacted topic takes no record without a key; the others of the request are taken.
#[tokio::test]
async fn a_record_that_breaks_the_topics_rules_is_refused_alone() {
    let topic = unique("compacted");
    create_topic(&topic, 1, &[("cleanup.policy", "compact")]).await;
    let connection = connect(&bootstrap(), &[], DEADLINE).await;
    let mut batch = messages(&topic, 10, 10);
    batch.insert(5, message(&topic, 500, None, "x"));
    let mut outcomes = publish(&*connection, batch, DEADLINE).await;
    let outcome = outcomes.remove(5);
    assert_all(&outcomes, "confirmed");
    let Outcome::Refused(refusal) = &outcome else { panic!("{outcome:?}") };
    assert!(!refusal.permanent, "the topic's settings can be changed");
    assert_eq!((refusal.cause.scope, refusal.cause.class), (Scope::Event, ErrorClass::Invalid));
    assert!(refusal.cause.text.contains("needs a key"), "{}", refusal.cause.text);
}

#[tokio::test]
async fn a_receipt_names_the_place_and_the_record_has_the_events_time() {
    let topic = unique("times");
    create_topic(&topic, 1, &[]).await;
    let connection = connect(&bootstrap(), &[], DEADLINE).await;
    let mut one = message(&topic, 1, Some("k"), "x");
    one.occurred_at = UNIX_EPOCH + Duration::from_millis(1_790_000_000_123);
    for offset in 0..2 {
        let outcomes = publish(&*connection, vec![one.clone()], DEADLINE).await;
        let Outcome::Confirmed(receipt) = &outcomes[0] else { panic!("{outcomes:?}") };
        assert_eq!(receipt.position, Some(format!("0/{offset}")));
    }
    let read = read(&bootstrap(), &topic, 2, Instant::now() + PATIENCE).await;
    assert!(read.iter().all(|record| record.timestamp == Some(1_790_000_000_123)), "{read:?}");
}
