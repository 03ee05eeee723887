//! What the demo says at its end: the table, the JSON object, where to look.

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table, TableComponent};
use outrider_test_support::verify::{Counts, Verdict};
use serde_json::{Map, Value, json};

use crate::numbers::grouped;
use crate::stage::{BROKERS, Stage, TENANTS};

/// On two lines, so that a terminal of 80 columns holds them all.
const COLUMNS: [&str; 7] = [
    "committed",
    "delivered",
    "lost",
    "duplicates\nseen",
    "left after\nthe inbox",
    "order\nviolations",
    "rolled-back\nseen",
];

/// A run that was judged.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) verdict: Verdict,
    pub(crate) kills: u64,
    pub(crate) seconds: f64,
    /// Transactions that were rolled back, of all tenants.
    pub(crate) rolled_back: u64,
}

impl Run {
    /// A line per tenant and broker, and the sum.
    pub(crate) fn print_table(&self) {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_style(TableComponent::HeaderLines, '─');
        table.set_header(["tenant", "broker"].into_iter().chain(COLUMNS));
        for ((tenant, broker), counts) in &self.verdict.rows {
            table.add_row(row(if tenant.is_empty() { "(nobody)" } else { tenant }, broker, counts));
        }
        let total = self.verdict.total();
        table.add_row(row("all", "", &total));
        println!("{table}");
        println!(
            "{} transactions were rolled back, outrider was killed {}, {:.0} s, {} events/s committed and delivered",
            grouped(self.rolled_back),
            if self.kills == 1 { "once".to_owned() } else { format!("{} times", self.kills) },
            self.seconds,
            grouped((total.delivered as f64 / self.seconds) as u64),
        );
        if total.strangers > 0 {
            println!("{} messages were seen that nobody wrote for that broker", grouped(total.strangers));
        }
    }

    pub(crate) fn print_json(&self) -> Result<()> {
        println!("{}", serde_json::to_string(&self.json())?);
        Ok(())
    }

    fn json(&self) -> Value {
        let mut all = counts(&self.verdict.total());
        all.insert("rolled_back".to_owned(), self.rolled_back.into());
        all.insert("kills".to_owned(), self.kills.into());
        all.insert("seconds".to_owned(), json!((self.seconds * 10.0).round() / 10.0));
        let brokers: Map<String, Value> = BROKERS
            .iter()
            .map(|&broker| (broker.to_owned(), Value::Object(counts(&self.verdict.broker(broker)))))
            .collect();
        all.insert("brokers".to_owned(), Value::Object(brokers));
        Value::Object(all)
    }
}

fn values(counts: &Counts) -> [u64; 7] {
    [
        counts.committed,
        counts.delivered,
        counts.lost,
        counts.duplicates_seen,
        counts.duplicates_left,
        counts.order_violations,
        counts.rolled_back_seen,
    ]
}

fn row(tenant: &str, broker: &str, counts: &Counts) -> Vec<Cell> {
    let numbers = values(counts)
        .into_iter()
        .map(|number| Cell::new(grouped(number)).set_alignment(CellAlignment::Right));
    [Cell::new(tenant), Cell::new(broker)].into_iter().chain(numbers).collect()
}

fn counts(counts: &Counts) -> Map<String, Value> {
    let names = [
        "committed",
        "delivered",
        "lost",
        "duplicates_seen",
        "duplicates_left",
        "order_violations",
        "rolled_back_seen",
    ];
    let mut object: Map<String, Value> =
        names.into_iter().map(str::to_owned).zip(values(counts).map(Value::from)).collect();
    object.insert("strangers".to_owned(), counts.strangers.into());
    object
}

/// Where to look when everything has ended.
pub(crate) fn print_further(clean: bool, stage: &Stage) {
    if clean {
        eprintln!("demo: nothing lost, doubled, disordered or invented");
    } else {
        eprintln!("demo: NOT clean; the end of outrider's log:\n{}", stage.daemon.quote());
    }
    eprintln!(
        "\nto look further:\n  \
         cargo xtask demo --keep              leaves it all running, with metrics, databases and brokers to look at\n  \
         cargo xtask demo --events 200000     for longer\n  \
         cargo xtask demo --json              the result for programs\n  \
         cargo xtask test                     every test, on the same servers\n  \
         README.md                            the delivery contract, and a test for each of its sentences"
    );
}

/// Where to look while everything runs.
pub(crate) fn print_kept(stage: &Stage) {
    let admin = format!("http://{}", stage.daemon.admin());
    eprintln!("\neverything is still running; Ctrl-C stops it all");
    eprintln!("  metrics    {admin}/metrics   {admin}/healthz   {admin}/readyz");
    eprintln!("  config     {}", stage.daemon.config().display());
    eprintln!("  log        {}", stage.daemon.log().display());
    for tenant in TENANTS {
        eprintln!("  {tenant:9}  psql '{}'", stage.database_url(tenant));
    }
    eprintln!("  consumers  psql '{}'   (tables inbox and journal)", stage.database_url("consumer"));
    eprintln!("  kafka      {}   topics {}", stage.kafka, stage.kafka_topics().join(" "));
    eprintln!("  rabbitmq   {}   exchange and queue {}", stage.rabbitmq, stage.run);
    eprintln!("  nats       {}   stream {}", stage.nats, stage.run);
    eprintln!("what is not sent yet, of one tenant:");
    eprintln!(
        "  psql '{}' -c \"SELECT state, count(*) FROM outrider.events GROUP BY state\"",
        stage.database_url(TENANTS[0])
    );
    eprintln!("an event of your own (it will be announced below):");
    eprintln!(
        "  psql '{}' -c \"SELECT outrider.publish('orders.placed', 'customer-1', 'orders.order-placed.v1', \
         convert_to('{{\\\"hello\\\": \\\"world\\\"}}', 'UTF8'))\"\n",
        stage.database_url(TENANTS[0])
    );
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn json_has_every_number() {
        let one = Counts { committed: 7, delivered: 6, lost: 1, duplicates_seen: 3, ..Counts::default() };
        let rows = BTreeMap::from([(("acme".to_owned(), "kafka".to_owned()), one)]);
        let run = Run { verdict: Verdict { rows }, kills: 1, seconds: 12.345, rolled_back: 2 };
        let json = run.json();
        for name in [
            "committed",
            "delivered",
            "lost",
            "duplicates_seen",
            "duplicates_left",
            "order_violations",
            "rolled_back_seen",
            "kills",
            "seconds",
        ] {
            assert!(json[name].is_number(), "{name}");
        }
        assert_eq!((&json["lost"], &json["seconds"]), (&json!(1), &json!(12.3)));
        for broker in BROKERS {
            assert!(json["brokers"][broker]["committed"].is_number(), "{broker}");
        }
        assert_eq!(json["brokers"]["kafka"]["duplicates_seen"], json!(3));
        assert_eq!(json["brokers"]["nats"]["duplicates_seen"], json!(0));
    }
}
