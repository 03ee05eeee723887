//! Judges a run by what is certain: what the writers committed or rolled back, and what each consumer saw. Pure.
//!
//! An event belongs to one broker. What another broker's consumer sees of it is a stranger there.

use std::collections::{BTreeMap, HashMap};
use std::ops::AddAssign;

use uuid::Uuid;

#[cfg(test)]
mod tests;

/// An event that a writer inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub id: Uuid,
    /// Its place in its tenant's outbox.
    pub seq: i64,
    pub tenant: String,
    /// The broker that its topic is routed to.
    pub broker: String,
    pub topic: String,
    /// `None` has no order.
    pub key: Option<String>,
}

/// A message that a consumer got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: Uuid,
    /// The inbox let it have its effect.
    pub effect: bool,
}

/// What was counted. All but the first two, and [`Counts::duplicates_seen`], have to be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events whose transaction committed.
    pub committed: u64,
    /// Of those: had their effect at the consumer.
    pub delivered: u64,
    /// Of those: had none.
    pub lost: u64,
    /// Copies beyond the first. At-least-once delivery allows them.
    pub duplicates_seen: u64,
    /// Effects beyond the first: what the inbox let through.
    pub duplicates_left: u64,
    /// First copies that came after the first copy of a later event of their topic and key.
    pub order_violations: u64,
    /// Copies of events whose transaction rolled back.
    pub rolled_back_seen: u64,
    /// Copies of events that nobody wrote, or that belong to another broker.
    pub strangers: u64,
}

impl Counts {
    /// Nothing lost, nothing wrong.
    pub fn is_clean(&self) -> bool {
        let Counts { committed, delivered, lost, order_violations, .. } = *self;
        committed == delivered
            && [lost, self.duplicates_left, order_violations, self.rolled_back_seen, self.strangers] == [0; 5]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.committed += other.committed;
        self.delivered += other.delivered;
        self.lost += other.lost;
        self.duplicates_seen += other.duplicates_seen;
        self.duplicates_left += other.duplicates_left;
        self.order_violations += other.order_violations;
        self.rolled_back_seen += other.rolled_back_seen;
        self.strangers += other.strangers;
    }
}

/// The judgement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// By tenant and broker. Strangers that nobody wrote have an empty tenant.
    pub rows: BTreeMap<(String, String), Counts>,
}

impl Verdict {
    pub fn total(&self) -> Counts {
        self.sum(|_| true)
    }

    pub fn broker(&self, name: &str) -> Counts {
        self.sum(|(_, broker)| broker == name)
    }

    pub fn brokers(&self) -> Vec<&str> {
        let mut brokers: Vec<&str> = self.rows.keys().map(|(_, broker)| broker.as_str()).collect();
        brokers.sort_unstable();
        brokers.dedup();
        brokers
    }

    fn sum(&self, belongs: impl Fn(&(String, String)) -> bool) -> Counts {
        let mut sum = Counts::default();
        for (_, counts) in self.rows.iter().filter(|(row, _)| belongs(row)) {
            sum += *counts;
        }
        sum
    }
}

/// Compares. `seen` has, for each broker, what its consumer saw in the order in which it saw it (for Kafka, the order
/// of each partition is enough). Between two events of a key, the one with the lower `seq` is the earlier.
pub fn verify(committed: &[Written], rolled_back: &[Written], seen: &BTreeMap<String, Vec<Seen>>) -> Verdict {
    let mut verdict = Verdict::default();
    let committed: HashMap<Uuid, &Written> = committed.iter().map(|event| (event.id, event)).collect();
    let rolled_back: HashMap<Uuid, &Written> = rolled_back.iter().map(|event| (event.id, event)).collect();
    for (broker, seen) in seen {
        judge(broker, seen, &committed, &rolled_back, &mut verdict);
    }
    for event in committed.values() {
        verdict.row(&event.tenant, &event.broker).committed += 1;
    }
    for counts in verdict.rows.values_mut() {
        counts.lost = counts.committed - counts.delivered;
    }
    verdict
}

impl Verdict {
    fn row(&mut self, tenant: &str, broker: &str) -> &mut Counts {
        self.rows.entry((tenant.to_owned(), broker.to_owned())).or_default()
    }
}

fn judge(
    broker: &str,
    seen: &[Seen],
    committed: &HashMap<Uuid, &Written>,
    rolled_back: &HashMap<Uuid, &Written>,
    verdict: &mut Verdict,
) {
    let mut copies: HashMap<Uuid, u64> = HashMap::new();
    let mut effects: HashMap<Uuid, u64> = HashMap::new();
    // By tenant, topic and key: the highest `seq` of a first copy so far.
    let mut heads: HashMap<(&str, &str, &str), i64> = HashMap::new();
    for one in seen {
        let Some(event) = committed.get(&one.id).filter(|event| event.broker == broker) else {
            match rolled_back.get(&one.id) {
                Some(event) => verdict.row(&event.tenant, broker).rolled_back_seen += 1,
                None => {
                    let tenant = committed.get(&one.id).map_or("", |event| &event.tenant);
                    verdict.row(tenant, broker).strangers += 1;
                }
            }
            continue;
        };
        let counts = verdict.row(&event.tenant, broker);
        let copies = copies.entry(one.id).or_default();
        *copies += 1;
        if *copies > 1 {
            counts.duplicates_seen += 1;
        } else if let Some(key) = &event.key {
            let head = heads.entry((&event.tenant, &event.topic, key)).or_insert(i64::MIN);
            if event.seq < *head {
                counts.order_violations += 1;
            }
            *head = event.seq.max(*head);
        }
        if one.effect {
            let effects = effects.entry(one.id).or_default();
            *effects += 1;
            if *effects == 1 {
                counts.delivered += 1;
            } else {
                counts.duplicates_left += 1;
            }
        }
    }
}
