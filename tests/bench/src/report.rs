//! What the figures come to.

use anyhow::Result;
use serde_json::{Value, json};

use crate::args::Args;
use crate::drain::{Figure, Target};

/// Below this share of the ceiling something is wrong with how the broker is fed.
const EXPECTED_SHARE: f64 = 0.5;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    null: Vec<Figure>,
    broker: Vec<Figure>,
}

impl Figures {
    pub(crate) fn add(&mut self, target: Target, figure: Figure) {
        match target {
            Target::Null => self.null.push(figure),
            Target::Broker(_) => self.broker.push(figure),
        }
    }

    pub(crate) fn print(&self, args: &Args) -> Result<()> {
        let (Some(null), Some(broker)) = (middle(&self.null), middle(&self.broker)) else {
            anyhow::bail!("report: nothing was measured");
        };
        let share = broker.events_per_second / null.events_per_second;
        let target = Target::from(args.broker);
        println!(
            "{} events of {} bytes, {} keys, one tenant, the middle of {} rounds:",
            args.events, args.payload_bytes, args.keys, args.rounds
        );
        println!("  {:16} {null}", Target::Null.to_string());
        println!("  {:16} {broker}", target.to_string());
        println!("  {share:.2} of the ceiling");
        if share < EXPECTED_SHARE {
            println!("  that is below {EXPECTED_SHARE}: find out why");
        }
        if args.json {
            let json = json!({
                "events": args.events,
                "payload_bytes": args.payload_bytes,
                "keys": args.keys,
                "rounds": args.rounds,
                "broker": target.to_string(),
                "null": self::json(null),
                "measured": self::json(broker),
                "share": share,
            });
            println!("{}", serde_json::to_string(&json)?);
        }
        Ok(())
    }
}

fn middle(figures: &[Figure]) -> Option<Figure> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(|a, b| a.events_per_second.total_cmp(&b.events_per_second));
    sorted.get(sorted.len() / 2).copied()
}

fn json(figure: Figure) -> Value {
    json!({
        "events_per_second": figure.events_per_second,
        "batches": figure.batches,
        "settles": figure.settles,
        "transactions_per_batch": figure.transactions_per_batch,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one_counts() {
        let figure = |events_per_second| Figure {
            events_per_second,
            batches: 1,
            settles: 1,
            transactions_per_batch: 2.0,
        };
        let of = |figures: &[f64]| middle(&figures.iter().copied().map(figure).collect::<Vec<_>>());
        assert_eq!(of(&[30.0, 10.0, 20.0]).map(|figure| figure.events_per_second), Some(20.0));
        assert_eq!(of(&[10.0, 20.0]).map(|figure| figure.events_per_second), Some(20.0));
        assert!(of(&[]).is_none());
    }
}
