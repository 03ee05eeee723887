//! The judgement of one fault: what the databases say has committed against what the brokers hold.

use std::collections::HashSet;

use anyhow::Result;
use outrider_test_support::verify::{self, Counts, Written};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ground::BROKERS;
use crate::load::{TOPICS, Told};
use crate::scene::{IN_FLIGHT, Scene, TENANTS};

/// What a fault came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) counts: Counts,
    /// Copies that the contract allows.
    pub(crate) bound: u64,
    pub(crate) dead: u64,
    /// Events that had to be dead, and are.
    pub(crate) dead_wanted: u64,
    pub(crate) fenced: u64,
    pub(crate) catch_up: f64,
    pub(crate) seconds: f64,
    /// Events that are lost, for the evidence: broker, tenant, topic, key, `seq`, id.
    pub(crate) missing: Vec<String>,
    /// Why it has not passed.
    pub(crate) faults: Vec<String>,
}

impl Judgement {
    /// One that could not be judged.
    pub(crate) fn broken(error: &anyhow::Error) -> Judgement {
        Judgement { faults: vec![format!("failed to {error:#}")], ..Judgement::default() }
    }

    pub(crate) fn passed(&self) -> bool {
        self.faults.is_empty()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        json!({
            "fault": name,
            "passed": self.passed(),
            "committed": self.counts.committed,
            "lost": self.counts.lost,
            "duplicates": self.counts.duplicates_seen,
            "duplicates_bound": self.bound,
            "order_violations": self.counts.order_violations,
            "rolled_back_seen": self.counts.rolled_back_seen,
            "dead": self.dead.saturating_sub(self.dead_wanted),
            "dead_wanted": self.dead_wanted,
            "fenced": self.fenced,
            "catch_up_seconds": self.catch_up,
            "seconds": self.seconds,
            "why": self.faults,
        })
    }
}

/// An event that committed, and what is left of its delivery.
#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    seq: i64,
    topic: String,
    key: Option<String>,
    hold: Option<i16>,
    last_error: Option<String>,
}

fn broker_of(topic: &str) -> Option<&'static str> {
    TOPICS.iter().find(|(name, _)| *name == topic).map(|(_, broker)| *broker)
}

/// Compares. The replicas have ended.
pub(crate) async fn judge(scene: &Scene, told: &Told, fenced: u64, catch_up: f64) -> Result<Judgement> {
    let mut committed = Vec::new();
    let mut dead: HashSet<Uuid> = HashSet::new();
    let mut reasonless = 0;
    for tenant in TENANTS {
        let mut database = scene.connect(tenant).await?;
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT o.id, o.seq, o.topic, o.key, d.hold, d.last_error
               FROM outrider.outbox o LEFT JOIN outrider.delivery d USING (seq)",
        )
        .fetch_all(&mut database)
        .await?;
        for Row { id, seq, topic, key, hold, last_error } in rows {
            if hold == Some(3) {
                dead.insert(id);
                reasonless += u64::from(last_error.is_none());
                continue;
            }
            // Of a topic that the load does not write: its fault's own question.
            let Some(broker) = broker_of(&topic) else { continue };
            let broker = broker.to_owned();
            committed.push(Written { id, seq, tenant: tenant.to_owned(), broker, topic, key });
        }
    }
    let rolled_back: Vec<Written> = told
        .rolled_back
        .iter()
        .map(|(tenant, id, topic)| Written {
            id: *id,
            seq: 0,
            tenant: TENANTS[*tenant].to_owned(),
            broker: broker_of(topic).unwrap_or_default().to_owned(),
            topic: (*topic).to_owned(),
            key: None,
        })
        .collect();
    let seen = scene.seen();
    let counts = verify::verify(&committed, &rolled_back, &seen).total();
    let arrived: HashSet<Uuid> = seen.values().flatten().map(|seen| seen.id).collect();
    let missing = committed.iter().filter(|event| !arrived.contains(&event.id));
    let missing = missing.map(|event| {
        let Written { id, seq, tenant, broker, topic, key } = event;
        format!("{broker} {tenant} {topic} {} {seq} {id}", key.as_deref().unwrap_or_default())
    });
    let healthy: HashSet<Uuid> = committed.iter().map(|event| event.id).collect();
    let escaped = told.poison.iter().filter(|id| healthy.contains(id)).count();
    let dead_wanted = dead.iter().filter(|id| told.poison.contains(id)).count() as u64;
    let mut judgement = Judgement {
        counts,
        bound: scene.hits() * IN_FLIGHT * BROKERS.len() as u64,
        dead: dead.len() as u64,
        dead_wanted,
        fenced,
        catch_up,
        missing: missing.collect(),
        ..Judgement::default()
    };
    judgement.faults = faults(&judgement, escaped, reasonless, scene.expects_poison());
    if scene.expects_fenced() && fenced == 0 {
        judgement.faults.push("failures that came too late were not fenced".to_owned());
    }
    Ok(judgement)
}

fn faults(judgement: &Judgement, escaped: usize, reasonless: u64, poisoned: bool) -> Vec<String> {
    let counts = judgement.counts;
    let mut faults = Vec::new();
    let mut check = |count: u64, what: &str| {
        if count > 0 {
            faults.push(format!("{count} {what}"));
        }
    };
    check(counts.lost, "lost");
    check(counts.order_violations, "first copies out of order");
    check(counts.rolled_back_seen, "copies of what was rolled back");
    check(counts.strangers, "messages that nobody wrote for that broker");
    check(judgement.dead - judgement.dead_wanted, "dead that a broker would have taken");
    check(reasonless, "dead without a reason");
    check(escaped as u64, "sent that can't be published");
    check(counts.duplicates_seen.saturating_sub(judgement.bound), "copies beyond the bound");
    check(u64::from(counts.committed == 0), "load: nothing committed");
    check(u64::from(poisoned && judgement.dead_wanted == 0), "load: no event was poison");
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_that_must_be_zero_fails_a_fault() {
        let good = Judgement {
            counts: Counts { committed: 10, delivered: 10, duplicates_seen: 3, ..Counts::default() },
            bound: 3,
            ..Judgement::default()
        };
        assert_eq!(faults(&good, 0, 0, false), [""; 0]);
        let with = |counts: Counts| faults(&Judgement { counts, ..good.clone() }, 0, 0, false).len();
        assert_eq!(with(Counts { lost: 1, ..good.counts }), 1);
        assert_eq!(with(Counts { order_violations: 1, ..good.counts }), 1);
        assert_eq!(with(Counts { rolled_back_seen: 1, ..good.counts }), 1);
        assert_eq!(with(Counts { strangers: 1, ..good.counts }), 1);
        assert_eq!(with(Counts { duplicates_seen: 4, ..good.counts }), 1);
        assert_eq!(with(Counts::default()), 1, "no load");
        assert_eq!(
            faults(&Judgement { dead: 1, ..good.clone() }, 0, 0, false),
            ["1 dead that a broker would have taken"]
        );
        assert_eq!(faults(&Judgement { dead: 2, dead_wanted: 2, ..good.clone() }, 0, 0, true), [""; 0]);
        assert_eq!(faults(&Judgement { dead: 2, dead_wanted: 2, ..good.clone() }, 0, 1, true).len(), 1);
        assert_eq!(faults(&good, 1, 0, false), ["1 sent that can't be published"]);
        assert_eq!(faults(&good, 0, 0, true).len(), 1, "poison that never came proves nothing");
    }
}
