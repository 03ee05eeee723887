//! The table and the JSON object.

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, Table, TableComponent};
use serde_json::{Map, Value, json};

use crate::backlog::Kind;
use crate::bench::KINDS;
use crate::ceiling::Ceiling;
use crate::drain::Drain;
use crate::figures::{Figures, Run, Spread};
use crate::goals::{self, Goal};
use crate::machine::Machine;
use crate::target::{Broker, Target};

/// The backlog that the goals are about.
const GOAL_KIND: Kind = Kind::Keyed;

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
    /// The client alone, before the runs and after them.
    pub(crate) ceilings: [Vec<Ceiling>; 2],
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

    /// Whether each ratio that has a floor is above it.
    pub(crate) fn is_above_floors(&self) -> bool {
        self.part_of_ceiling(GOAL_KIND) >= self.goal().floor
    }

    /// Whether something else had a part in the figures: a ceiling was another one afterwards.
    pub(crate) fn is_void(&self) -> bool {
        let [before, after] = self.ceilings.each_ref().map(|ceilings| rates(ceilings).median);
        let null = |kind| self.figures.runs(kind, Target::Null);
        let rate = |run: Option<&Run>| run.map_or(0.0, |run| run.drain.events_per_second);
        goals::drifted(before, after)
            || KINDS.into_iter().any(|kind| goals::drifted(rate(null(kind).first()), rate(null(kind).last())))
    }

    fn goal(&self) -> Goal {
        match self.broker {
            Broker::Kafka => goals::T1,
            Broker::Rabbitmq | Broker::Nats => goals::T3,
        }
    }

    /// The client alone.
    fn alone(&self) -> Spread {
        rates(self.ceilings.iter().flatten())
    }

    /// The rate as a part of the lower ceiling.
    fn part_of_ceiling(&self, kind: Kind) -> f64 {
        let rate = |target| self.figures.of(kind, target, |drain| drain.events_per_second).median;
        rate(Target::Broker(self.broker)) / rate(Target::Null).min(self.alone().median)
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
        let alone = self.alone();
        println!(
            "{}'s client alone, the same messages: {:.0} events/s ({:.0}–{:.0}), {:.1} CPU s/M",
            self.broker,
            alone.median,
            alone.min,
            alone.max,
            self.alone_cpu().median
        );
        for kind in KINDS {
            let ratio = self.figures.ratio(kind, self.broker);
            println!(
                "{} / null, {:<8} {:.2} ({:.2}–{:.2}); / the lower ceiling {:.2}",
                self.broker,
                format!("{}:", kind.name()),
                ratio.median,
                ratio.min,
                ratio.max,
                self.part_of_ceiling(kind)
            );
        }
        let (goal, reached) = (self.goal(), self.part_of_ceiling(GOAL_KIND));
        println!(
            "{}, {}: {reached:.2}, floor {:.2}, target {:.2}: {}",
            goal.name,
            goal.says,
            goal.floor,
            goal.target,
            goal.verdict(reached)
        );
        if self.is_void() {
            println!(
                "VOID: a ceiling was another one after the runs than before; something else had a part in it"
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

    fn alone_cpu(&self) -> Spread {
        let ceilings = self.ceilings.iter().flatten();
        Spread::of(ceilings.map(|ceiling| ceiling.cpu_seconds_per_million.unwrap_or(f64::NAN)))
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
            "fsyncs_per_second": self.machine.syncs_per_second,
            "client_alone_events_per_second": spread(self.alone()),
            "client_alone_cpu_seconds_per_million": spread(self.alone_cpu()),
            (self.goal().name): self.part_of_ceiling(GOAL_KIND),
            "void": self.is_void(),
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

fn rates<'a>(ceilings: impl IntoIterator<Item = &'a Ceiling>) -> Spread {
    Spread::of(ceilings.into_iter().map(|ceiling| ceiling.events_per_second))
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
