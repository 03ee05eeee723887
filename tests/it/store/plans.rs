//! C02: plans of the statements as they are sent, over 300,000 sent and 5,000 pending events, with and without statistics,
//! as custom and as generic plans. No table is read whole, and nothing but a batch is sorted.

use std::fmt::Write;

use serde_json::Value;
use sqlx::AssertSqlSafe;

use super::fixture::*;
use crate::database::on_both_servers;

on_both_servers!(unowned: no_plan_grows_with_what_was_sent);

const SENT: i32 = 300_000;
const PENDING: i32 = 5_000;
const BATCH: i32 = 500;

/// Sent events have an outbox row and a share in a receipt; the trigger's work and the settle's are left out.
async fn history(f: &mut Fixture) {
    f.run(&format!(
        "ALTER TABLE outrider.outbox DISABLE TRIGGER outbox_delivery;
         INSERT INTO outrider.outbox (topic, key, type, payload) SELECT 't' || g % 5, 'k' || g % 1000, 't', 'x' FROM generate_series(1, {SENT}) g;
         INSERT INTO outrider.receipt (id, broker, seqs, first_seq, last_seq, settled_at)
           SELECT gen_random_uuid(), 'b', array_agg(seq), min(seq), max(seq), now() - (max(seq) || ' seconds')::interval
             FROM outrider.outbox GROUP BY seq / 500;
         ALTER TABLE outrider.outbox ENABLE TRIGGER outbox_delivery;
         INSERT INTO outrider.outbox (topic, key, type, payload) SELECT 't' || g % 5, 'k' || g % 1000, 't', 'x' FROM generate_series(1, {PENDING}) g;
         UPDATE outrider.delivery SET hold = 3 WHERE seq % 1000 = 7;
         UPDATE outrider.delivery SET hold = 2 WHERE seq % 1000 = 8;
         UPDATE outrider.delivery SET hold = 1 WHERE seq % 1000 = 9;
         UPDATE outrider.delivery SET hold = 4 WHERE seq % 1000 = 10;
         UPDATE outrider.lane SET owner = '00000000-0000-4000-8000-000000000001', until = now() + interval '1 hour' WHERE lane = 0;
         INSERT INTO outrider.claim (token, lane, broker, seqs)
           SELECT '00000000-0000-4000-8000-000000000002', 0, 'b', array_agg(seq) FROM (SELECT seq FROM outrider.delivery WHERE hold = 0 ORDER BY seq LIMIT 200) s"
    ))
    .await;
}

async fn no_plan_grows_with_what_was_sent(mut f: Fixture) {
    history(&mut f).await;
    let last: i64 = f.one("SELECT max(seq) FROM outrider.outbox").await;
    let seqs =
        format!("ARRAY(SELECT g::bigint FROM generate_series({}, {last}) g)", last - i64::from(BATCH) + 1);
    let owner = "'00000000-0000-4000-8000-000000000001'";
    let token = "'00000000-0000-4000-8000-000000000002'";
    let topics = "'{t0,t1,t2,t3,t4}'";
    // Statement, arguments, and how many 8 KB pages it may touch: a few per event of its batch, whatever was sent.
    let cases = [
        (
            "claim",
            format!(
                "0, {owner}, 'b', gen_random_uuid(), '{{}}', {topics}, '{{-1,-1,-1,-1,-1}}', '{{100,100,100,100,100}}', '{{3,3,3,3,3}}'"
            ),
            4_000,
        ),
        (
            "claim",
            format!(
                "0, {owner}, 'b', gen_random_uuid(), ARRAY[{token}]::uuid[], {topics}, '{{-1,-1,-1,-1,-1}}', '{{100,100,100,100,100}}', '{{2,2,2,2,2}}'"
            ),
            4_000,
        ),
        (
            "claim",
            format!("0, {owner}, 'b', gen_random_uuid(), '{{}}', '{{t9}}', '{{-1}}', '{{500}}', '{{3}}'"),
            50,
        ),
        (
            "claim_due",
            format!(
                "0, {owner}, 'b', gen_random_uuid(), '{{}}', {topics}, '{{100,100,100,100,100}}', '{{3,3,3,3,3}}'"
            ),
            500,
        ),
        ("settle_sent", format!("'b', gen_random_uuid(), {seqs}, ARRAY[{token}]::uuid[]"), 4_000),
        ("settle_sent_free", format!("'b', gen_random_uuid(), {seqs}, ARRAY[{token}]::uuid[]"), 7_000),
        (
            "settle_failed",
            format!(
                "{token}, (SELECT seqs FROM outrider.claim), array_fill(1, ARRAY[200])::smallint[], array_fill(1, ARRAY[200])::bigint[], array_fill('x'::text, ARRAY[200]), true"
            ),
            4_000,
        ),
        ("reclaim", format!("0, {owner}, '{{}}', 1"), 6_000),
        ("orphans", "0, 3, '{}'".to_owned(), 100),
        ("promote", "0, '{t0,t1}', '{k0,k8}'".to_owned(), 50),
        ("retention", "1, '1 second', 2".to_owned(), 10_000),
        ("retention", "1, '10 years', 2".to_owned(), 50),
        ("stats", "100000".to_owned(), 2_000),
        (
            "topics",
            format!(
                "0, {topics}, '{{-1,-1,-1,-1,-1}}', '{{\"\",t0,t1,t2,t3,t4}}', '{{t0,t1,t2,t3,t4,NULL}}'"
            ),
            150,
        ),
        ("topics", "0, '{}', '{}', '{\"\"}', '{NULL}'".to_owned(), 150),
        ("orphan_rows", "500, 10".to_owned(), 1_500),
    ];
    f.run("SET enable_seqscan = off; SET jit = off").await;
    let mut faults = String::new();
    for analysed in [false, true] {
        if analysed {
            f.run(
                "ANALYZE outrider.outbox, outrider.delivery, outrider.receipt, outrider.claim, outrider.lane",
            )
            .await;
        }
        for mode in ["force_custom_plan", "force_generic_plan"] {
            f.run(&format!("SET plan_cache_mode = {mode}")).await;
            for (name, arguments, pages) in &cases {
                let plan = explain(&mut f, name, arguments).await;
                let what = format!("{name}({arguments}) {mode} analysed: {analysed}");
                judge(&plan, &what, *pages, &mut faults);
            }
        }
    }
    f.run("RESET plan_cache_mode").await;
    // People have no settings of their own.
    f.run("RESET enable_seqscan; RESET jit").await;
    let view = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM outrider.blocked_keys";
    let plan: Value = f.one(view).await;
    judge(&plan[0]["Plan"], "blocked_keys", 500, &mut faults);
    f.run("SET enable_seqscan = off; SET jit = off").await;
    topics_cost_by_topic_not_by_row(&mut f, &mut faults).await;
    assert!(faults.is_empty(), "{faults}");
}

async fn topics_cost_by_topic_not_by_row(f: &mut Fixture, faults: &mut String) {
    // 100,000 rows that were sent a moment ago, whose index entries a snapshot keeps. Only these matter to the plan.
    f.run(
        "INSERT INTO outrider.delivery (seq, due_at, lane, hold, topic)
         SELECT g, now(), 0, 0, 't2' FROM generate_series(10000001, 10100000) g",
    )
    .await;
    let floor: i64 = f.one("SELECT max(seq) FROM outrider.delivery").await;
    let mut reader = f.database.connect().await.unwrap();
    run(&mut reader, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outrider.lane").await;
    f.run("DELETE FROM outrider.delivery WHERE topic = 't2'").await;
    let arguments = format!("0, '{{t2}}', '{{{floor}}}', '{{\"\",t2}}', '{{t2,NULL}}'");
    let plan = explain(f, "topics", &arguments).await;
    judge(&plan, "topics above a held snapshot", 500, faults);
}

/// The plan of a statement as it is sent, run and rolled back.
async fn explain(f: &mut Fixture, name: &str, arguments: &str) -> Value {
    let text =
        f.store.texts().into_iter().find(|(found, _)| *found == name).expect("a statement of that name").1;
    run(&mut f.sql, &format!("PREPARE p AS {text}")).await;
    run(&mut f.sql, "BEGIN").await;
    // `EXECUTE` takes no sub-select, so arguments are worked out first.
    let explain =
        format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE p({})", worked_out(f, arguments).await);
    let plan: Value = sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut f.sql).await.unwrap();
    run(&mut f.sql, "ROLLBACK; DEALLOCATE p").await;
    plan[0]["Plan"].clone()
}

async fn worked_out(f: &mut Fixture, arguments: &str) -> String {
    if !arguments.contains("SELECT") {
        return arguments.to_owned();
    }
    let mut out = String::new();
    for argument in split(arguments) {
        if argument.contains("SELECT") {
            let value: Vec<i64> = f.one(&format!("SELECT ({argument})::bigint[]")).await;
            write!(out, "'{{{}}}', ", value.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
                .unwrap();
        } else {
            write!(out, "{argument}, ").unwrap();
        }
    }
    out.trim_end_matches(", ").to_owned()
}

/// Splits at commas outside of brackets and quotes.
fn split(arguments: &str) -> Vec<&str> {
    let (mut depth, mut quoted, mut start, mut parts) = (0, false, 0, Vec::new());
    for (at, c) in arguments.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                parts.push(arguments[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(arguments[start..].trim());
    parts
}

fn judge(plan: &Value, what: &str, pages: i64, faults: &mut String) {
    let count = |field: &str| plan[field].as_i64().unwrap_or(0);
    let touched = count("Shared Hit Blocks") + count("Shared Read Blocks");
    if touched > pages {
        writeln!(faults, "{what}: {touched} pages, at most {pages} expected").unwrap();
    }
    walk(plan, &mut |node| {
        let kind = node["Node Type"].as_str().unwrap_or_default();
        let table = node["Relation Name"].as_str().unwrap_or_default();
        let rows = (node["Actual Rows"].as_f64().unwrap_or(0.0)
            * node["Actual Loops"].as_f64().unwrap_or(1.0)) as i64;
        // Claim, lane and replica hold a few rows each.
        if kind == "Seq Scan" && matches!(table, "outbox" | "delivery" | "receipt") {
            writeln!(faults, "{what}: reads {table} whole").unwrap();
        }
        if kind.ends_with("Sort") && rows > i64::from(BATCH) {
            writeln!(faults, "{what}: sorts {rows} rows").unwrap();
        }
    });
}

fn walk(node: &Value, see: &mut impl FnMut(&Value)) {
    see(node);
    for child in node["Plans"].as_array().into_iter().flatten() {
        walk(child, see);
    }
}
