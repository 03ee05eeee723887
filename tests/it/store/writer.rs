//! The writer's side: an event exists exactly when its transaction committed, in both tables or in none.

use sqlx::Executor;
use uuid::Uuid;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(unowned:
    after_a_rollback_there_is_nothing,
    after_a_rolled_back_savepoint_there_is_nothing,
    after_a_rerun_on_a_serialization_failure_there_is_one,
    one_statement_makes_one_delivery_row_per_event,
    copy_makes_delivery_rows_too,
    a_seq_is_not_chosen,
    a_race_for_a_number_fails_one_writer,
    serialized_keys_take_their_seq_in_turn,
    the_trigger_works_whatever_the_search_path,
);

async fn counts(f: &mut Fixture) -> (i64, i64) {
    (
        f.one("SELECT count(*) FROM outrider.outbox").await,
        f.one("SELECT count(*) FROM outrider.delivery").await,
    )
}

async fn after_a_rollback_there_is_nothing(mut f: Fixture) {
    f.run("BEGIN").await;
    f.insert("t", Some("k"), 3).await;
    f.run("SELECT outrider.publish('t', 'k', NULL, 'x')").await;
    assert_eq!(counts(&mut f).await, (4, 4));
    f.run("ROLLBACK").await;
    assert_eq!(counts(&mut f).await, (0, 0));
}

async fn after_a_rolled_back_savepoint_there_is_nothing(mut f: Fixture) {
    f.run("BEGIN; SAVEPOINT s").await;
    f.insert("t", Some("k"), 3).await;
    f.run("ROLLBACK TO SAVEPOINT s; COMMIT").await;
    assert_eq!(counts(&mut f).await, (0, 0));
}

async fn after_a_rerun_on_a_serialization_failure_there_is_one(mut f: Fixture) {
    f.run("CREATE TABLE public.account (id int PRIMARY KEY, balance int); INSERT INTO public.account VALUES (1, 0)").await;
    let mut rival = f.database.connect().await.unwrap();
    let business = "UPDATE public.account SET balance = balance + 1 WHERE id = 1";
    let mut tries = 0;
    loop {
        tries += 1;
        f.run("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        f.insert("account", Some("1"), 1).await;
        if tries == 1 {
            run(&mut rival, business).await;
        }
        match f.sql.execute(business).await {
            Ok(_) => {
                f.run("COMMIT").await;
                break;
            }
            Err(error) => {
                assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("40001"));
                f.run("ROLLBACK").await;
            }
        }
    }
    assert_eq!(tries, 2);
    assert_eq!(counts(&mut f).await, (1, 1));
}

async fn one_statement_makes_one_delivery_row_per_event(mut f: Fixture) {
    let seqs = f.insert("t", Some("k"), 1_000).await;
    f.run("INSERT INTO outrider.outbox (topic, type, payload) SELECT 't', 't', 'x' WHERE false").await;
    f.run("INSERT INTO outrider.outbox (id, topic, type, payload) VALUES ('00000000-0000-4000-8000-000000000001', 't', 't', 'x')").await;
    f.run("INSERT INTO outrider.outbox (id, topic, type, payload) VALUES ('00000000-0000-4000-8000-000000000001', 't', 't', 'x') ON CONFLICT DO NOTHING").await;
    assert_eq!(counts(&mut f).await, (1_001, 1_001));
    let same: i64 = f.one("SELECT count(*) FROM outrider.outbox o JOIN outrider.delivery d USING (seq) WHERE o.topic = d.topic AND o.key IS NOT DISTINCT FROM d.key AND d.pos = d.seq").await;
    assert_eq!(same, 1_001);
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]));
}

async fn copy_makes_delivery_rows_too(mut f: Fixture) {
    let mut copy =
        f.sql.copy_in_raw("COPY outrider.outbox (topic, key, type, payload) FROM STDIN").await.unwrap();
    copy.send(&b"t\tk\tt\t\\\\x01\nt\t\\N\tt\t\\\\x02\n"[..]).await.unwrap();
    copy.finish().await.unwrap();
    assert_eq!(counts(&mut f).await, (2, 2));
}

async fn a_seq_is_not_chosen(mut f: Fixture) {
    let chosen = f
        .sql
        .execute("INSERT INTO outrider.outbox (seq, topic, type, payload) VALUES (1, 't', 't', 'x')")
        .await;
    assert!(chosen.is_err());
    assert_eq!(
        f.one::<i64>("SELECT seqcache FROM pg_sequence WHERE seqrelid = 'outrider.outbox_seq_seq'::regclass")
            .await,
        1
    );
}

async fn a_race_for_a_number_fails_one_writer(mut f: Fixture) {
    let sql = "INSERT INTO outrider.outbox (topic, type, payload, aggregate_type, aggregate_id, sequence_no) VALUES ('t', 't', 'x', 'order', '1', 1)";
    f.run(sql).await;
    let error = f.sql.execute(sql).await.unwrap_err();
    assert_eq!(error.as_database_error().unwrap().constraint(), Some("outbox_aggregate"));
    assert_eq!(counts(&mut f).await, (1, 1));
}

async fn serialized_keys_take_their_seq_in_turn(mut f: Fixture) {
    let publish = "SELECT outrider.publish('t', 'k', NULL, 'x', serialize_key => true)";
    f.run("BEGIN").await;
    f.run(publish).await;
    let mut other = f.database.connect().await.unwrap();
    // Another key is not held up.
    run(&mut other, "SELECT outrider.publish('t', 'other', NULL, 'x', serialize_key => true)").await;
    let second = tokio::spawn(async move { one::<Uuid>(&mut other, publish).await });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !f.one::<bool>(waits).await {}
    let before: i64 = f.one("SELECT last_value FROM outrider.outbox_seq_seq").await;
    f.run("COMMIT").await;
    let id = second.await.unwrap();
    let seq: i64 = f.one(&format!("SELECT seq FROM outrider.outbox WHERE id = '{id}'")).await;
    assert!(seq > before, "it took its seq after the first had committed");
}

async fn the_trigger_works_whatever_the_search_path(mut f: Fixture) {
    f.run(
        "CREATE SCHEMA evil; CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT 'infinity'::timestamptz $$;
         CREATE TABLE evil.delivery (seq bigint); SET search_path = evil, pg_catalog",
    )
    .await;
    f.insert("t", None, 1).await;
    f.run("SET search_path = ''").await;
    f.insert("t", None, 1).await;
    f.run("RESET search_path").await;
    assert_eq!(counts(&mut f).await, (2, 2));
}
