//! The runs, by kind and target, and what is counted from them. Pure.

use std::collections::BTreeMap;

use outrider_test_support::verify::Counts;

use crate::backlog::Kind;
use crate::drain::Drain;
use crate::target::{Broker, Target};

/// One run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) drain: Drain,
    /// What was read back; `None` where nothing can be.
    pub(crate) arrived: Option<Counts>,
}

impl Run {
    pub(crate) fn is_clean(&self) -> bool {
        self.arrived.is_none_or(|arrived| arrived.is_clean())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    runs: BTreeMap<(Kind, Target), Vec<Run>>,
}

impl Figures {
    pub(crate) fn add(&mut self, kind: Kind, target: Target, run: Run) {
        self.runs.entry((kind, target)).or_default().push(run);
    }

    pub(crate) fn runs(&self, kind: Kind, target: Target) -> &[Run] {
        self.runs.get(&(kind, target)).map_or(&[], Vec::as_slice)
    }

    /// One figure of all runs of a kind and target.
    pub(crate) fn of(&self, kind: Kind, target: Target, figure: impl Fn(&Drain) -> f64) -> Spread {
        Spread::of(self.runs(kind, target).iter().map(|run| figure(&run.drain)))
    }

    /// A broker's rate as a part of the null publisher's, round by round: the two of a round ran one after the other.
    pub(crate) fn ratio(&self, kind: Kind, broker: Broker) -> Spread {
        let rounds = self.runs(kind, Target::Broker(broker)).iter().zip(self.runs(kind, Target::Null));
        Spread::of(rounds.map(|(broker, null)| broker.drain.events_per_second / null.drain.events_per_second))
    }

    /// All that arrived, over all runs that were read back.
    pub(crate) fn arrived(&self) -> Counts {
        let mut sum = Counts::default();
        for arrived in self.runs.values().flatten().filter_map(|run| run.arrived) {
            sum += arrived;
        }
        sum
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.runs.values().flatten().all(Run::is_clean)
    }
}

/// Several values of one figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of no values, zeros.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(0.0);
        let (half, last) = (values.len() / 2, values.len().saturating_sub(1));
        let median = if values.len().is_multiple_of(2) {
            (at(half.saturating_sub(1)) + at(half)) / 2.0
        } else {
            at(half)
        };
        Spread { median, min: at(0), max: at(last) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(events_per_second: f64, lost: u64) -> Run {
        let drain = Drain {
            seconds: 1.0,
            events_per_second,
            batches: 2,
            settles: 2,
            settled: 1_000,
            commits: 5,
            wal_bytes: 100,
            relay_cpu_seconds: None,
            database_cpu_seconds: None,
            peak_resident_bytes: None,
        };
        let arrived = Counts { committed: 10, delivered: 10 - lost, lost, ..Counts::default() };
        Run { drain, arrived: Some(arrived) }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, median, min, max) in [
            (vec![], 0.0, 0.0, 0.0),
            (vec![3.0], 3.0, 3.0, 3.0),
            (vec![9.0, 1.0], 5.0, 1.0, 9.0),
            (vec![9.0, 1.0, 2.0], 2.0, 1.0, 9.0),
        ] {
            assert_eq!(Spread::of(values.into_iter()), Spread { median, min, max });
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut figures = Figures::default();
        for (kafka, null) in [(10.0, 20.0), (80.0, 100.0), (3.0, 10.0)] {
            figures.add(Kind::Keyed, Target::Broker(Broker::Kafka), run(kafka, 0));
            figures.add(Kind::Keyed, Target::Null, run(null, 0));
        }
        assert_eq!(figures.ratio(Kind::Keyed, Broker::Kafka), Spread { median: 0.5, min: 0.3, max: 0.8 });
    }

    #[test]
    fn one_lost_event_spoils_it_all() {
        let mut figures = Figures::default();
        figures.add(Kind::Unkeyed, Target::Broker(Broker::Kafka), run(1.0, 0));
        assert!(figures.is_clean());
        figures.add(Kind::Unkeyed, Target::Broker(Broker::Kafka), run(1.0, 1));
        assert!(!figures.is_clean());
        assert_eq!(figures.arrived().lost, 1);
    }
}
