//! The fault kit: what `cargo xtask faults` runs.
//!
//! Starts a PostgreSQL, a Kafka, a RabbitMQ and a NATS of its own, and for each fault fresh databases and destinations, a
//! relay or two behind proxies, and a load. Judges from the outside only: uses the `outrider` program, never its library,
//! and reads what committed and what arrived by itself.

mod args;
mod faults;
mod ground;
mod judge;
mod load;
mod report;
mod scene;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Parser;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::args::Args;
use crate::faults::Fault;
use crate::ground::Ground;
use crate::judge::Judgement;
use crate::report::Report;
use crate::scene::Scene;

/// 128 + SIGINT, as a shell reports a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Random pairs of a whole run.
const PAIRS: usize = 3;

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = tokio::select! {
        outcome = run(&args) => outcome,
        _ = tokio::signal::ctrl_c() => return ExitCode::from(INTERRUPTED),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("faults: failed to {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Faults to inject together, under one name.
struct Plan {
    name: String,
    faults: Vec<&'static Fault>,
    seed: u64,
}

fn plans(args: &Args) -> Result<Vec<Plan>> {
    let wanted = |fault: &&Fault| {
        args.only.is_empty()
            || args.only.iter().any(|name| fault.name == name || fault.name.starts_with(name))
    };
    for name in &args.only {
        if !faults::ALL.iter().any(|fault| fault.name.starts_with(name.as_str())) {
            bail!("find the fault `{name}`: `cargo xtask faults --list` names all");
        }
    }
    let chosen: Vec<&'static Fault> =
        faults::ALL.iter().filter(wanted).filter(|fault| !args.quick || fault.quick).collect();
    let mut plans: Vec<Plan> = chosen
        .iter()
        .map(|&fault| Plan { name: fault.name.to_owned(), faults: vec![fault], seed: args.seed })
        .collect();
    let default = if args.quick || !args.only.is_empty() { 0 } else { PAIRS };
    let mut chance = StdRng::seed_from_u64(args.seed);
    let pairable: Vec<&'static Fault> = chosen.into_iter().filter(|fault| fault.pairs).collect();
    for _ in 0..args.pairs.unwrap_or(default) {
        let pair: Vec<&'static Fault> = pairable.choose_multiple(&mut chance, 2).copied().collect();
        if let [first, second] = pair[..] {
            let name = format!("{}+{}", first.name, second.name);
            plans.push(Plan { name, faults: pair, seed: chance.random() });
        }
    }
    Ok(plans)
}

async fn run(args: &Args) -> Result<bool> {
    if args.list {
        report::list();
        return Ok(true);
    }
    let plans = plans(args)?;
    let mut report = Report::new(args, plans.len());
    report.tell("servers of its own");
    let mut ground = Ground::start().await?;
    for plan in plans {
        report.begins(&plan.name);
        let judgement = inject(&mut ground, args, &plan).await;
        report.ended(&plan.name, judgement)?;
    }
    report.sum()
}

/// Sets the scene, injects, judges, clears.
async fn inject(ground: &mut Ground, args: &Args, plan: &Plan) -> Judgement {
    let begun = Instant::now();
    let replicas = plan.faults.iter().map(|fault| fault.replicas).max().unwrap_or(1);
    let pooled = plan.faults.iter().any(|fault| fault.name.starts_with("pooler."));
    let chance = StdRng::seed_from_u64(plan.seed);
    let mut scene = match Scene::set(ground, args, replicas, pooled, chance).await {
        Ok(scene) => scene,
        Err(error) => return Judgement::broken(&error.context("set the scene")),
    };
    let mut judgement = match play(&mut scene, args, plan).await {
        Ok(judgement) => judgement,
        Err(error) => Judgement::broken(&error),
    };
    judgement.seconds = begun.elapsed().as_secs_f64();
    if !judgement.passed() {
        let missing = judgement.missing.join("\n");
        let notes = format!("{}\n{judgement:#?}\n\nmissing:\n{missing}\n", plan.name);
        match scene.keep_evidence(&plan.name, &notes) {
            Ok(folder) => judgement.faults.push(format!("see `{}`", folder.display())),
            Err(error) => judgement.faults.push(format!("failed to {error:#}")),
        }
    }
    if let Err(error) = scene.clear().await {
        judgement.faults.push(format!("failed to clear up: {error:#}"));
    }
    judgement
}

async fn play(scene: &mut Scene<'_>, args: &Args, plan: &Plan) -> Result<Judgement> {
    let around = Duration::from_secs(args.seconds);
    scene.begin(plan.seed).await?;
    tokio::time::sleep(around).await;
    // Of two, the second comes before the relay is over the first.
    for fault in &plan.faults {
        (fault.act)(scene).await?;
    }
    let catch_up = scene.caught_up().await?;
    tokio::time::sleep(around).await;
    let (told, fenced) = scene.finish().await?;
    judge::judge(scene, &told, fenced, catch_up.as_secs_f64()).await
}
