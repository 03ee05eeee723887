//! Which faults are injected, alone and in pairs. Pure: the same arguments give the same plans.

use anyhow::{Result, bail};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::args::Args;
use crate::databases::Via;
use crate::faults::{ALL, Fault, Trait};
use crate::scene::Setting;

/// Random pairs of a whole run.
const PAIRS: usize = 3;

/// Faults to inject at the same moment, under one name.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) faults: Vec<&'static Fault>,
    pub(crate) setting: Setting,
    pub(crate) long: bool,
    pub(crate) seed: u64,
}

impl Plan {
    fn new(faults: Vec<&'static Fault>, seed: u64) -> Plan {
        let any = |of| faults.iter().any(|fault| fault.is(of));
        let via = match (any(Trait::Name), any(Trait::Pooler)) {
            (true, _) => Via::Name,
            (_, true) => Via::Pooler,
            _ => Via::Direct,
        };
        let names: Vec<&str> = faults.iter().map(|fault| fault.name).collect();
        let replicas = faults.iter().map(|fault| fault.replicas).max().unwrap_or(1);
        let setting = Setting { replicas, via, alone: any(Trait::Alone), troubled: faults.len() > 1 };
        Plan { name: names.join("+"), setting, long: any(Trait::Long), faults, seed }
    }
}

/// What the arguments ask for.
///
/// # Errors
/// When a name fits no fault.
pub(crate) fn plans(args: &Args) -> Result<Vec<Plan>> {
    for name in &args.only {
        if !ALL.iter().any(|fault| fault.name.starts_with(name.as_str())) {
            bail!("find the fault `{name}`: `cargo xtask faults --list` names all");
        }
    }
    let wanted = |fault: &&Fault| {
        args.only.is_empty() || args.only.iter().any(|name| fault.name.starts_with(name.as_str()))
    };
    let chosen: Vec<&'static Fault> =
        ALL.iter().filter(wanted).filter(|fault| !args.quick || fault.is(Trait::Quick)).collect();
    let mut plans: Vec<Plan> = chosen.iter().map(|&fault| Plan::new(vec![fault], args.seed)).collect();
    let default = if args.quick || !args.only.is_empty() { 0 } else { PAIRS };
    let mut chance = StdRng::seed_from_u64(args.seed);
    let pairable: Vec<&'static Fault> = chosen.into_iter().filter(|fault| fault.is(Trait::Pairs)).collect();
    for _ in 0..args.pairs.unwrap_or(default) {
        let Some(first) = pairable.choose(&mut chance) else { break };
        let others: Vec<&&Fault> = pairable.iter().filter(|other| other.group() != first.group()).collect();
        let Some(second) = others.choose(&mut chance) else { continue };
        plans.push(Plan::new(vec![first, second], chance.random()));
    }
    Ok(plans)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn plans_of(arguments: &[&str]) -> Vec<Plan> {
        let program = ["faults", "--outrider", "outrider"];
        plans(&Args::parse_from(program.iter().chain(arguments))).unwrap()
    }

    #[test]
    fn a_whole_run_has_every_fault_and_some_pairs() {
        let plans = plans_of(&[]);
        assert_eq!(plans.len(), ALL.len() + PAIRS);
        assert!(plans.iter().filter(|plan| plan.setting.troubled).count() == PAIRS);
    }

    #[test]
    fn pairs_are_drawn_from_the_seed_and_never_break_the_same_thing() {
        let names = |seed: &str| -> Vec<String> {
            let plans = plans_of(&["--pairs", "50", "--seed", seed]);
            let pairs = plans.iter().filter(|plan| plan.setting.troubled);
            pairs
                .map(|plan| {
                    let [first, second] = plan.faults[..] else { panic!("{plan:?}") };
                    assert_ne!(first.group(), second.group());
                    plan.name.clone()
                })
                .collect()
        };
        assert_eq!(names("7"), names("7"));
        assert_ne!(names("7"), names("8"));
        assert_eq!(names("7").len(), 50);
    }

    #[test]
    fn names_are_unique_and_found_by_their_beginning() {
        let mut names: Vec<&str> = ALL.iter().map(|fault| fault.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        let kafka = plans_of(&["--only", "kafka"]);
        assert!(!kafka.is_empty() && kafka.iter().all(|plan| plan.name.starts_with("kafka.")));
        let unknown = Args::parse_from(["faults", "--outrider", "outrider", "--only", "nothing"]);
        assert!(plans(&unknown).is_err());
    }
}
