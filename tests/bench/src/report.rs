//! The table and the JSON object.

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table, TableComponent};
use serde_json::{Map, Value, json};

use crate::backlog::Kind;
use crate::bench::KINDS;
use crate::drain::Drain;
use crate::figures::{Figures, Run, Spread};
use crate::machine::Machine;
use crate::target::{Broker, Target};

/// A broker should reach at least this part of the null publisher's rate; below, something in between is in the way.
const RATIO: f64 = 0.5;

/// On two lines each, so that a terminal of 80 columns holds them all.
const COLUMNS: [&str; 8] = [
    "events",
    "to",
    "events/s\nmedian",
    "min–max",
    "CPU s/M\nrelay",
    "CPU s/M\nsessions",
    "peak RSS\nMiB",
    "settles\nper batch",
];

/// Everything that was found out.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    pub(crate) events: u32,
    pub(crate) payload: u32,
    pub(crate) broker: Broker,
    /// Of its client, beside the defaults.
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) figures: Figures,
}

/// One run on one line.
pub(crate) fn line(run: &Run) -> String {
    let drain = &run.drain;
    let verdict = match &run.arrived {
        None => String::new(),
        Some(arrived) => format!(
            "; {} lost, {}, {} duplicates",
            arrived.lost,
            if arrived.order_violations == 0 {
                "order held".to_owned()
            } else {
                format!("{} OUT OF ORDER", arrived.order_violations)
            },
            arrived.duplicates_seen
        ),
    };
    format!("{:>7.0} events/s, {:.2} s{verdict}", drain.events_per_second, drain.seconds)
}

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        self.figures.is_clean()
    }

    /// The table; with `as_json` the object after it.
    pub(crate) fn print(&self, as_json: bool) -> Result<()> {
        self.print_table();
        if as_json {
            println!("{}", serde_json::to_string(&self.json())?);
        }
        Ok(())
    }

    fn targets(&self) -> [Target; 2] {
        [Target::Broker(self.broker), Target::Null]
    }

    fn print_table(&self) {
        println!("\n{}", self.machine.describe());
        println!(
            "{} events of {} bytes a run, one tenant, one lane; {}{}",
            self.events,
            self.payload,
            self.broker.describe(),
            self.parameters.iter().map(|(name, value)| format!(", {name}={value}")).collect::<String>(),
        );
        let mut table = Table::new();
        table.load_preset(NOTHING).set_style(TableComponent::HeaderLines, '─').set_header(COLUMNS);
        for kind in KINDS {
            for target in self.targets() {
                table.add_row(self.row(kind, target));
            }
        }
        println!("{table}");
        for kind in KINDS {
            let ratio = self.figures.ratio(kind, self.broker);
            let below = if ratio.median < RATIO { format!("  BELOW {RATIO}") } else { String::new() };
            println!(
                "{} / null, {:<8} {:.2} ({:.2}–{:.2}){below}",
                self.broker,
                format!("{}:", kind.name()),
                ratio.median,
                ratio.min,
                ratio.max
            );
        }
        let arrived = self.figures.arrived();
        println!(
            "read back from {}: {} lost, {} out of order, {} strangers, {} duplicates among {}",
            self.broker,
            arrived.lost,
            arrived.order_violations,
            arrived.strangers,
            arrived.duplicates_seen,
            arrived.committed
        );
        println!("The rates are this machine's, and everything shared it. What carries over is the ratio.");
    }

    fn row(&self, kind: Kind, target: Target) -> Vec<Cell> {
        let median = |figure: fn(&Drain) -> f64| self.figures.of(kind, target, figure).median;
        let rate = self.figures.of(kind, target, |drain| drain.events_per_second);
        let known = |value: f64, digits: usize| match value.is_nan() {
            true => "?".to_owned(),
            false => format!("{value:.digits$}"),
        };
        let cells = [
            format!("{:.0}", rate.median),
            format!("{:.0}–{:.0}", rate.min, rate.max),
            known(median(relay_cpu), 1),
            known(median(database_cpu), 1),
            known(median(peak_mib), 0),
            known(median(settles_per_batch), 2),
        ];
        let left = [kind.name().to_owned(), target.to_string()].into_iter().map(Cell::new);
        left.chain(cells.into_iter().map(|cell| Cell::new(cell).set_alignment(CellAlignment::Right)))
            .collect()
    }

    fn json(&self) -> Value {
        let arrived = self.figures.arrived();
        let kinds: Map<String, Value> =
            KINDS.iter().map(|&kind| (kind.name().to_owned(), self.json_of(kind))).collect();
        let postgres: Map<String, Value> =
            self.machine.postgres.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        json!({
            "events": self.events,
            "payload_bytes": self.payload,
            "lost": arrived.lost,
            "order_violations": arrived.order_violations,
            "strangers": arrived.strangers,
            "duplicates": arrived.duplicates_seen,
            "cores": self.machine.cores,
            "load": self.machine.load,
            "postgres": postgres,
            "broker": self.broker.to_string(),
            "parameters": self.parameters.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "backlogs": kinds,
        })
    }

    fn json_of(&self, kind: Kind) -> Value {
        let targets = self.targets().into_iter().map(|target| {
            let of = |figure: fn(&Drain) -> f64| spread(self.figures.of(kind, target, figure));
            let figures = json!({
                "runs": self.figures.runs(kind, target).len(),
                "events_per_second": of(|drain| drain.events_per_second),
                "relay_cpu_seconds_per_million": of(relay_cpu),
                "database_cpu_seconds_per_million": of(database_cpu),
                "peak_resident_mib": of(peak_mib),
                "batches": of(|drain| drain.batches as f64),
                "settles_per_batch": of(settles_per_batch),
                "transactions_per_batch": of(|drain| drain.commits as f64 / drain.batches as f64),
                "wal_bytes_per_event": of(|drain| drain.wal_bytes as f64 / drain.settled as f64),
            });
            (target.to_string(), figures)
        });
        let mut kinds: Map<String, Value> = targets.collect();
        kinds.insert("broker_to_null".to_owned(), spread(self.figures.ratio(kind, self.broker)));
        Value::Object(kinds)
    }
}

/// What is not known is NaN, and `null` in JSON.
fn spread(spread: Spread) -> Value {
    json!({ "median": spread.median, "min": spread.min, "max": spread.max })
}

fn per_million(value: Option<f64>, events: u64) -> f64 {
    value.map_or(f64::NAN, |value| value * 1e6 / events as f64)
}

fn relay_cpu(drain: &Drain) -> f64 {
    per_million(drain.relay_cpu_seconds, drain.settled)
}

fn database_cpu(drain: &Drain) -> f64 {
    per_million(drain.database_cpu_seconds, drain.settled)
}

fn peak_mib(drain: &Drain) -> f64 {
    drain.peak_resident_bytes.map_or(f64::NAN, |bytes| bytes as f64 / f64::from(1 << 20))
}

fn settles_per_batch(drain: &Drain) -> f64 {
    drain.settles as f64 / drain.batches as f64
}
