//! The fault kit: what `cargo xtask faults` runs.
//!
//! Starts a PostgreSQL, a Kafka, a RabbitMQ and a NATS of its own, and for each fault fresh databases and destinations, a
//! relay or two behind proxies, and a load. Judges from the outside only: uses the `outrider` program, never its library,
//! and reads what committed and what arrived by itself.

mod args;
mod databases;
mod destinations;
mod faults;
mod ground;
mod judge;
mod load;
mod plan;
mod replica;
mod report;
mod scene;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use futures_util::{StreamExt, TryStreamExt, stream};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;

use crate::args::Args;
use crate::ground::Ground;
use crate::judge::Judgement;
use crate::plan::Plan;
use crate::report::Report;
use crate::scene::Scene;

/// 128 + SIGINT, as a shell reports a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

#[tokio::main(flavor = "multi_thread", worker_threads = 8)]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = tokio::select! {
        outcome = run(args) => outcome,
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

/// What every injection needs.
#[derive(Clone)]
struct Kit {
    args: Arc<Args>,
    ground: Arc<Ground>,
    report: Arc<Mutex<Report>>,
}

async fn run(args: Args) -> Result<bool> {
    if args.list {
        report::list();
        return Ok(true);
    }
    let plans = plan::plans(&args)?;
    let report = Report::new(&args, plans.len());
    report.tell("servers of its own");
    let jobs = usize::from(args.jobs);
    let long = plans.iter().filter(|plan| plan.long).count();
    let ground = Arc::new(Ground::start(jobs + long).await?);
    let kit = Kit { args: Arc::new(args), ground, report: Arc::new(Mutex::new(report)) };

    // Long ones first: they are on the ground alone now and then, and the others come in between.
    let (long, short): (Vec<Plan>, Vec<Plan>) = plans.into_iter().partition(|plan| plan.long);
    let (alone, shared): (Vec<Plan>, Vec<Plan>) = short.into_iter().partition(|plan| plan.setting.alone);
    let mut running = JoinSet::new();
    for plan in long {
        let (entered, enters) = tokio::sync::oneshot::channel();
        running.spawn(inject(kit.clone(), plan, Some(entered)));
        // Before anybody else.
        let _ = enters.await;
    }
    let each = |plans: Vec<Plan>, jobs| {
        let injected = stream::iter(plans).map(|plan| tokio::spawn(inject(kit.clone(), plan, None)));
        injected.buffer_unordered(jobs).map(|ended| ended.context("join an injection")?).try_collect::<()>()
    };
    each(shared, jobs).await?;
    each(alone, 1).await?;
    while let Some(ended) = running.join_next().await {
        ended.context("join an injection")??;
    }
    let report = kit.report.lock().unwrap_or_else(PoisonError::into_inner);
    report.sum()
}

/// Sets the scene, injects, judges, clears.
async fn inject(kit: Kit, plan: Plan, entered: Option<tokio::sync::oneshot::Sender<()>>) -> Result<()> {
    let report = || kit.report.lock().unwrap_or_else(PoisonError::into_inner);
    let chance = StdRng::seed_from_u64(plan.seed);
    let pass = kit.ground.enter(plan.setting.alone).await;
    drop(entered);
    report().begins(&plan.name);
    let begun = Instant::now();
    let judgement = match Scene::set(kit.ground.clone(), kit.args.clone(), pass, plan.setting, chance).await {
        Ok(scene) => stage(Arc::new(scene), &kit.args, &plan, begun).await,
        Err(error) => Judgement::broken(&error.context("set the scene")),
    };
    report().ended(&plan.name, judgement)
}

async fn stage(scene: Arc<Scene>, args: &Args, plan: &Plan, begun: Instant) -> Judgement {
    let mut judgement = match play(&scene, args, plan).await {
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

async fn play(scene: &Arc<Scene>, args: &Args, plan: &Plan) -> Result<Judgement> {
    let around = Duration::from_secs(args.seconds);
    scene.begin(plan.seed).await?;
    tokio::time::sleep(around).await;
    // Of two, both at the same moment. Dropped when one fails, it ends the other.
    let mut acts = JoinSet::new();
    for fault in &plan.faults {
        acts.spawn((fault.act)(scene.clone()));
    }
    while let Some(done) = acts.join_next().await {
        done.context("join a fault")??;
    }
    let catch_up = scene.caught_up().await?;
    tokio::time::sleep(around).await;
    let (told, fenced) = scene.finish().await?;
    judge::judge(scene, &told, fenced, catch_up.as_secs_f64()).await
}
