//! C61: a settle hits the rows of its own claim and nobody else's, whatever they have in common.

use outrider::outbox::OnDead;
use outrider::store::{
    ClaimRequest, FailedOutcome, NotApplied, Schema, SettledSent, Store, StoreOptions, TopicRequest, migrate,
};
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(owned:
    equal_seqs_and_ids_of_two_schemas_are_two_events,
    a_settle_under_another_claims_token_changes_nothing,
    no_row_can_have_a_twin,
);

/// All that a settle could change in a schema, as text.
async fn content(f: &mut Fixture, schema: &str) -> String {
    let all = format!(
        "SELECT concat_ws(E'\\n', (SELECT string_agg(d::text, ' ' ORDER BY seq) FROM {schema}.delivery d),
           (SELECT string_agg(c::text, ' ' ORDER BY token) FROM {schema}.claim c),
           (SELECT string_agg(r::text, ' ' ORDER BY settled_at, id) FROM {schema}.receipt r))"
    );
    f.one(&all).await
}

// Two tenants that share a database: same seqs, same ids, same topic and key, and one claims what the other does.
async fn equal_seqs_and_ids_of_two_schemas_are_two_events(mut f: Fixture) {
    let schema = Schema::new("twin").unwrap();
    f.run(&migrate::sql(&schema)).await;
    let mut twin = Store::new(StoreOptions::new(f.database.options(), schema));
    let owner = Uuid::new_v4();
    assert_eq!(twin.take(LANE, owner, "twin", LEASE, false).await.unwrap(), Some(1));
    let seqs = f.insert("t", Some("k"), 3).await;
    f.run(
        "INSERT INTO twin.outbox (id, topic, key, type, payload)
           SELECT id, topic, key, type, payload FROM outrider.outbox ORDER BY seq",
    )
    .await;
    assert_eq!(f.one::<Vec<i64>>("SELECT array_agg(seq ORDER BY seq) FROM twin.outbox").await, seqs);
    let (token, claimed) = f.claim("t").await;
    assert_eq!(claimed_seqs(&claimed), seqs);
    let topics = [TopicRequest { topic: "t", after: -1, limit: 100, on_dead: OnDead::Block }];
    let request = ClaimRequest { owner, ..f.request(&[], &topics) };
    assert_eq!(claimed_seqs(&twin.claim(&request).await.unwrap()), seqs);

    let before = content(&mut f, "twin").await;
    let settled = f.store.settle_sent("b", Uuid::new_v4(), &seqs[..1], &[]).await.unwrap();
    assert_eq!(settled, SettledSent { deleted: 1, promoted: 0, locked: vec![] });
    let dead = [failed(seqs[1], FailedOutcome::Dead), failed(seqs[2], FailedOutcome::Blocked)];
    assert_eq!(f.store.settle_failed(token, &dead, true).await.unwrap(), []);
    assert_eq!(content(&mut f, "twin").await, before, "the other tenant's events are as they were");

    let before = content(&mut f, "outrider").await;
    let settled = twin.settle_sent("b", Uuid::new_v4(), &seqs, &[request.token]).await.unwrap();
    assert_eq!(settled, SettledSent { deleted: 3, promoted: 0, locked: vec![] });
    assert_eq!(content(&mut f, "outrider").await, before);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM twin.delivery").await, 0);
}

async fn a_settle_under_another_claims_token_changes_nothing(mut f: Fixture) {
    let mine = f.insert("mine", Some("k"), 2).await;
    let theirs = f.insert("theirs", Some("k"), 2).await;
    let (my_token, _) = f.claim("mine").await;
    let (their_token, claimed) = f.claim("theirs").await;
    assert_eq!(claimed_seqs(&claimed), theirs);
    let before = content(&mut f, "outrider").await;
    for outcome in [
        FailedOutcome::Refused,
        FailedOutcome::Unknown,
        FailedOutcome::Dead,
        FailedOutcome::Released,
        FailedOutcome::Blocked,
    ] {
        // A token that stands, of another claim; and one that nobody ever had.
        for (token, seqs) in [(my_token, &theirs), (their_token, &mine), (Uuid::new_v4(), &mine)] {
            let given: Vec<_> = seqs.iter().map(|seq| failed(*seq, outcome)).collect();
            let fenced = f.store.settle_failed(token, &given, false).await.unwrap();
            assert_eq!(fenced, seqs.iter().map(|seq| (*seq, NotApplied::Fenced)).collect::<Vec<_>>());
        }
    }
    assert_eq!(content(&mut f, "outrider").await, before);

    // One of each: only the claim's own event changes.
    let given = [failed(mine[0], FailedOutcome::Refused), failed(theirs[0], FailedOutcome::Dead)];
    let fenced = f.store.settle_failed(my_token, &given, false).await.unwrap();
    assert_eq!(fenced, [(theirs[0], NotApplied::Fenced)]);
    assert_eq!((f.state(mine[0]).await, f.state(theirs[0]).await), (Some((1, 1, 1)), Some((0, 0, 0))));
    // An event that is nobody's is no reason to change one that is somebody's.
    let settled = f.store.settle_sent("b", Uuid::new_v4(), &[mine[0], 1_000_000], &[]).await.unwrap();
    assert_eq!(settled.deleted, 1);
    assert_eq!(f.one::<i64>("SELECT count(*) FROM outrider.delivery").await, 3);
}

/// What names a row in a settle is unique by the table's own word, so that no statement has to count what it hit.
async fn no_row_can_have_a_twin(mut f: Fixture) {
    f.insert("t", Some("k"), 2).await;
    for (table, key) in [
        ("outbox", "seq"),
        ("outbox", "id"),
        ("delivery", "seq"),
        ("claim", "token"),
        ("receipt", "id"),
        ("lane", "lane"),
    ] {
        let unique = format!(
            "SELECT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                WHERE i.indrelid = 'outrider.{table}'::regclass AND i.indisunique AND i.indisvalid AND i.indnkeyatts = 1
                  AND i.indpred IS NULL AND a.attname = '{key}' AND a.attnotnull)"
        );
        assert!(f.one::<bool>(&unique).await, "{table}.{key}");
    }
    let twin = sqlx::query("INSERT INTO outrider.delivery (seq, due_at, lane, topic) SELECT seq, due_at, lane, topic FROM outrider.delivery")
        .execute(&mut f.sql)
        .await
        .unwrap_err();
    assert_eq!(twin.as_database_error().unwrap().code().as_deref(), Some("23505"));
}
