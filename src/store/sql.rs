//! The statements: one file each under `sql/`, rendered once per schema. Nothing else holds SQL text, but migrations.
//!
//! The files use `:name` for parameters. The list beside each file says in which order they are bound; a name that is in
//! one and not in the other is found by a test.

use std::sync::Arc;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres};

use super::schema::Schema;
use crate::failpoints::weaken;

/// A statement with its arguments, ready to be sent.
pub(super) type Bound<'q> = Query<'q, Postgres, PgArguments>;

/// A rendered statement; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Statement {
    /// What it is called in errors and metrics.
    pub(super) step: &'static str,
    pub(super) text: Arc<str>,
}

impl Statement {
    pub(super) fn query<'q>(&self) -> Bound<'q> {
        // Safe: the text is ours, and the only thing put into it is a checked and quoted schema name.
        sqlx::query(AssertSqlSafe(Arc::clone(&self.text)))
    }
}

macro_rules! statements {
    ($($name:ident $step:literal [$($parameter:ident),*];)+) => {
        /// Every statement of the store, for one schema.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: Statement,)+
        }

        impl Statements {
            pub(super) fn new(schema: &Schema) -> Self {
                Self {
                    $($name: Statement {
                        step: $step,
                        text: render(
                            &weaken(stringify!($name), include_str!(concat!("sql/", stringify!($name), ".sql"))),
                            &[$(stringify!($parameter)),*],
                            schema,
                        ).into(),
                    },)+
                }
            }

            /// File name and text of each.
            pub(super) fn texts(&self) -> Vec<(&'static str, Arc<str>)> {
                vec![$((stringify!($name), Arc::clone(&self.$name.text)),)+]
            }

            #[cfg(test)]
            fn sources() -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
                vec![$((
                    stringify!($name),
                    include_str!(concat!("sql/", stringify!($name), ".sql")),
                    vec![$(stringify!($parameter)),*],
                ),)+]
            }
        }
    };
}

statements! {
    take "take the lane" [lane, owner, name, lease, force];
    reclaim "reclaim" [lane, owner, known, spent];
    renew "renew the lease" [lane, owner, owners, lease];
    give "give the lane up" [lane, owner, rest];
    lanes "list the lanes" [];
    claim "claim" [lane, owner, broker, token, live, topics, afters, limits, blockings];
    claim_due "claim what is due" [lane, owner, broker, token, live, topics, limits, blockings];
    settle_sent "settle sent events" [broker, receipt, seqs, done];
    settle_sent_free "settle sent events past locked rows" [broker, receipt, seqs, done];
    settle_failed "settle failed events" [token, seqs, outcomes, delays_ms, errors, last];
    promote "promote followers" [lane, topics, keys];
    orphans "promote orphans" [lane, blocking, others];
    requeue "requeue dead events" [seqs];
    discard "discard dead events" [seqs, receipt];
    topics "look for topics" [lane, topics, floors, lows, highs];
    retention "remove old events" [gate, keep, receipts];
    stats "read the gauges" [cap];
    heartbeat "send a heartbeat" [name, alive, forget];
    depart "leave the list of replicas" [name];
    publish "publish an event" [topic, key, kind, payload, headers, available_at, serialize_key];
    trigger "check the trigger" [];
    orphan_rows "look for orphan rows" [window, cap];
    oldest_writer "look for the oldest writer" [];
    installed "look for the schema" [schema];
    applied "read the applied migrations" [];
}

/// The text that is sent: without comment lines, with numbered parameters, for one schema.
fn render(source: &str, parameters: &[&str], schema: &Schema) -> String {
    let text: String =
        source.lines().filter(|line| !line.starts_with("--")).flat_map(|line| [line, "\n"]).collect();
    let mut out = String::with_capacity(text.len());
    for piece in pieces(text.trim_end()) {
        match piece {
            Piece::Text(text) => out.push_str(&schema.place_in(text)),
            Piece::Parameter(name) => {
                let place = parameters.iter().position(|p| *p == name);
                // An unknown name is left as it stands; `every_parameter_is_listed_once` finds it.
                match place {
                    Some(index) => out.push_str(&format!("${}", index + 1)),
                    None => out.push_str(&format!(":{name}")),
                }
            }
        }
    }
    out
}

enum Piece<'a> {
    Text(&'a str),
    Parameter(&'a str),
}

/// Splits at `:name`, but not at `::type`.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut searched = 0;
    while let Some(colon) = rest[searched..].find(':').map(|at| searched + at) {
        let after = &rest[colon + 1..];
        let length = after.bytes().take_while(|b| b.is_ascii_lowercase() || *b == b'_').count();
        if after.starts_with(':') {
            searched = colon + 2;
        } else if length == 0 {
            searched = colon + 1;
        } else {
            pieces.push(Piece::Text(&rest[..colon]));
            pieces.push(Piece::Parameter(&after[..length]));
            rest = &after[length..];
            searched = 0;
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_parameter_is_listed_once() {
        for (name, source, listed) in Statements::sources() {
            let body: String = source.lines().filter(|l| !l.starts_with("--")).collect::<Vec<_>>().join("\n");
            let used: BTreeSet<&str> = pieces(&body)
                .into_iter()
                .filter_map(|p| if let Piece::Parameter(name) = p { Some(name) } else { None })
                .collect();
            assert_eq!(used, listed.iter().copied().collect(), "{name}.sql");
            assert_eq!(used.len(), listed.len(), "{name}.sql names a parameter twice in its list");
        }
    }

    #[test]
    fn every_file_opens_with_its_purpose_and_says_what_a_lost_reply_means() {
        for (name, source, _) in Statements::sources() {
            let header: String = source.lines().take_while(|l| l.starts_with("--")).collect();
            assert!(header.contains("Locks:") && header.to_lowercase().contains("lost reply:"), "{name}.sql");
        }
    }

    #[test]
    fn every_file_is_a_statement() {
        let listed: BTreeSet<String> =
            Statements::sources().into_iter().map(|(name, ..)| format!("{name}.sql")).collect();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/sql");
        let found = std::fs::read_dir(folder).unwrap();
        let found: BTreeSet<String> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(listed, found);
    }

    #[test]
    fn parameters_are_numbered_and_casts_stay() {
        let text =
            "-- header :x\nSELECT :b::int, :a, '00:00'::interval FROM outrider.t WHERE x = ANY (:a::int[])\n";
        let schema = Schema::new("s").unwrap();
        assert_eq!(
            render(text, &["a", "b"], &schema),
            "SELECT $2::int, $1, '00:00'::interval FROM \"s\".t WHERE x = ANY ($1::int[])"
        );
    }
}
