//! The order of events: a warm-up, then rounds in which every kind of backlog is drained to every target in turns, so
//! that what else the machine does falls on all of them.

use anyhow::{Context, Result};
use outrider_servers::address;
use outrider_test_support::consume::Delivered;
use outrider_test_support::daemon::Daemon;
use outrider_test_support::database::TestDatabase;
use outrider_test_support::verify::Counts;
use uuid::Uuid;

use crate::args::Args;
use crate::backlog::{self, Kind};
use crate::ceiling::{self, Ceiling};
use crate::check;
use crate::config::{self, TENANT};
use crate::drain::{Drain, drain};
use crate::figures::{Figures, Run};
use crate::machine::Machine;
use crate::report::{self, Report};
use crate::target::Target;

pub(crate) const KINDS: [Kind; 2] = [Kind::Unkeyed, Kind::Keyed];

/// Measurements of the client alone before the rounds, and as many after them.
const CEILINGS: usize = 3;

/// See the module.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) args: Args,
    /// Topic, queue or stream that is there now.
    destination: Option<String>,
}

impl Bench {
    pub(crate) fn new(args: Args) -> Bench {
        Bench { args, destination: None }
    }

    /// All runs. What the last one left at the broker is removed by [`Bench::clear`].
    pub(crate) async fn run(&mut self) -> Result<Report> {
        let machine = Machine::look().await?;
        eprintln!("bench: {}", machine.describe());
        let broker = self.args.broker;
        let targets = [Target::Broker(broker), Target::Null];
        // Kafka compiles its hot code while it works, and the first run would pay for that.
        let mut messages = Vec::new();
        let warm_up = self.one(Kind::Keyed, targets[0], Some(&mut messages)).await?;
        eprintln!("bench: warm-up, does not count: {}", report::line(&warm_up));
        let messages = ceiling::enough(messages);
        let before = self.ceilings("before", &messages).await?;
        let mut figures = Figures::default();
        for round in 1..=self.args.runs {
            for kind in KINDS {
                for target in targets {
                    let run = self.one(kind, target, None).await?;
                    let name = format!("{} to {target}", kind.name());
                    eprintln!("bench: {round} of {}, {name:<19} {}", self.args.runs, report::line(&run));
                    figures.add(kind, target, run);
                }
            }
        }
        let after = self.ceilings("after", &messages).await?;
        let (events, payload) = (self.args.events, self.args.payload);
        let parameters = self.args.param.clone();
        Ok(Report { machine, events, payload, broker, parameters, figures, ceilings: [before, after] })
    }

    /// What the broker takes from its client alone, a few times.
    async fn ceilings(&mut self, when: &str, messages: &[Delivered]) -> Result<Vec<Ceiling>> {
        let mut ceilings = Vec::new();
        for _ in 0..CEILINGS {
            let name = format!("bench-{}", Uuid::new_v4().simple());
            self.destination = Some(name.clone());
            let ceiling = ceiling::measure(self.args.broker, &self.args, &name, messages).await?;
            self.destination = None;
            eprintln!("bench: {when}, the client alone     {:>7.0} events/s", ceiling.events_per_second);
            ceilings.push(ceiling);
        }
        Ok(ceilings)
    }

    async fn one(&mut self, kind: Kind, target: Target, keep: Option<&mut Vec<Delivered>>) -> Result<Run> {
        let database = TestDatabase::empty_at(&address::postgres()).await?;
        let daemon = Daemon::new(&self.args.outrider)?;
        let name = format!("bench-{}", Uuid::new_v4().simple());
        daemon.write(&config::main(&self.args, target, &name), &[(TENANT, config::tenant())])?;
        daemon.tell(config::variables(database.url(), target));
        let written = backlog::load(&database, &daemon, kind, self.args.events, self.args.payload).await?;
        let Target::Broker(broker) = target else {
            return Ok(Run { drain: self.drain(&database, &daemon).await?, arrived: None });
        };
        broker.make(&name).await?;
        self.destination = Some(name.clone());
        let drain = self.drain(&database, &daemon).await?;
        let arrived: Counts = check::read_back(broker, &name, &written, self.args.payload, keep).await?;
        self.clear().await;
        Ok(Run { drain, arrived: Some(arrived) })
    }

    async fn drain(&self, database: &TestDatabase, daemon: &Daemon) -> Result<Drain> {
        drain(database, daemon, u64::from(self.args.events)).await.context("measure a run")
    }

    /// Removes what a run left at the broker. What can't be removed is named, and does no harm.
    pub(crate) async fn clear(&mut self) {
        if let Some(name) = self.destination.take()
            && let Err(error) = self.args.broker.remove(&name).await
        {
            eprintln!("bench: left `{name}` behind: {error:#}");
        }
    }
}
