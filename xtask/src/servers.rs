//! `cargo xtask servers`: the servers alone, private ones or containers, which stay until they are told to stop.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use outrider_servers::holder::{Holder, ServerRecord, UP};
use outrider_servers::install::Install;
use outrider_servers::shared::Shared;
use serde_json::{Value, json};

use crate::compose::Project;
use crate::progress::Progress;
use crate::setup::{self, Source};

#[derive(Debug, Subcommand)]
pub(crate) enum ServersCommand {
    /// Install what is missing, start the servers, print `export NAME=value` lines.
    ///
    /// They stay until `cargo xtask servers down`; up again with them running prints the lines again.
    /// For a shell: eval "$(cargo xtask servers up)"
    #[command(verbatim_doc_comment)]
    Up,
    /// Stop the servers and remove their data. Also those that a killed test run left behind.
    Down,
    /// Show which servers run, and for whom. Exit code 0 if those of `up` all run, else 1.
    Status {
        /// One JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: ServersCommand, progress: &Progress) -> Result<ExitCode> {
    match command {
        ServersCommand::Up => up(progress),
        ServersCommand::Down => down(progress),
        ServersCommand::Status { json } => status(json),
    }
}

fn up(progress: &Progress) -> Result<ExitCode> {
    let install = Install::locate();
    let source = Source::find(&install)?;
    setup::sweep(Some(source), progress);
    if source == Source::Docker {
        let project = Project::up();
        progress.step("containers", || project.start())?;
        print_exports(project.variables());
        return Ok(ExitCode::SUCCESS);
    }
    match find_up() {
        Some(holder) if all_run(&holder.servers()) => progress.tell("the servers run already"),
        found => {
            if let Some(broken) = found {
                progress.step("stop what is left of the servers", || {
                    broken.stop();
                    Ok(())
                })?;
            }
            setup::packages(&install, progress)?;
            setup::downloads(&install, progress)?;
            progress.step("servers", || Shared::leave_up(&install))?;
        }
    }
    let servers = find_up().map(|holder| holder.servers()).unwrap_or_default();
    print_exports(servers.into_iter().flat_map(|server| server.variables));
    Ok(ExitCode::SUCCESS)
}

fn down(progress: &Progress) -> Result<ExitCode> {
    let source = Source::find(&Install::locate()).ok();
    setup::sweep(source, progress);
    match find_up() {
        Some(holder) => progress.step("stop the servers", || {
            holder.stop();
            Ok(())
        })?,
        None if source == Some(Source::Docker) => Project::up().down()?,
        None => progress.tell("no servers run"),
    }
    Ok(ExitCode::SUCCESS)
}

fn status(as_json: bool) -> Result<ExitCode> {
    let mut holders: Vec<Shown> = Holder::all().iter().map(Shown::holder).collect();
    if find_up().is_none() && Source::find(&Install::locate()).ok() == Some(Source::Docker) {
        holders.extend(Shown::containers(&Project::up())?);
    }
    if as_json {
        let all: Vec<Value> = holders.iter().map(Shown::as_json).collect();
        println!("{}", json!({ "holders": all }));
    } else {
        print_status(&holders);
    }
    let up = holders.iter().find(|holder| holder.name == UP);
    let all_run = |up: &Shown| !up.servers.is_empty() && up.servers.iter().all(|server| server.runs);
    Ok(if up.is_some_and(all_run) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn find_up() -> Option<Holder> {
    Holder::all().into_iter().find(|holder| holder.name() == UP)
}

fn all_run(servers: &[ServerRecord]) -> bool {
    !servers.is_empty() && servers.iter().all(ServerRecord::is_alive)
}

fn print_exports(variables: impl IntoIterator<Item = (String, String)>) {
    for (name, value) in variables {
        println!("export {name}='{value}'");
    }
}

/// A holder, as `status` shows it; containers have neither pids nor ports to tell.
struct Shown {
    name: String,
    abandoned: bool,
    servers: Vec<ShownServer>,
}

struct ShownServer {
    name: String,
    runs: bool,
    pid: Option<u32>,
    ports: BTreeMap<String, u16>,
    variables: Vec<(String, String)>,
}

impl Shown {
    fn holder(holder: &Holder) -> Shown {
        let server = |record: ServerRecord| ShownServer {
            runs: record.is_alive(),
            name: record.name,
            pid: record.processes.last().map(|each| each.process.pid),
            ports: record.ports,
            variables: record.variables,
        };
        let servers = holder.servers().into_iter().map(server).collect();
        Shown { name: holder.name(), abandoned: holder.is_abandoned(), servers }
    }

    /// `None` where there is no container of the project.
    fn containers(project: &Project) -> Result<Option<Shown>> {
        let running = project.running()?;
        if running.is_empty() {
            return Ok(None);
        }
        let servers = project.servers().into_iter().map(|(name, variables)| ShownServer {
            runs: running.iter().any(|service| service == name),
            name: name.to_owned(),
            pid: None,
            ports: BTreeMap::new(),
            variables,
        });
        Ok(Some(Shown { name: UP.to_owned(), abandoned: false, servers: servers.collect() }))
    }

    fn as_json(&self) -> Value {
        let server = |server: &ShownServer| {
            let variables: BTreeMap<&str, &str> =
                server.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            json!({
                "name": server.name,
                "runs": server.runs,
                "pid": server.pid,
                "ports": server.ports,
                "variables": variables,
            })
        };
        let servers: Vec<Value> = self.servers.iter().map(server).collect();
        json!({ "name": self.name, "abandoned": self.abandoned, "servers": servers })
    }
}

fn print_status(holders: &[Shown]) {
    if holders.is_empty() {
        println!("no servers run");
    }
    for holder in holders {
        let abandoned = if holder.abandoned { " (its process is gone)" } else { "" };
        println!("{}{abandoned}", holder.name);
        for server in &holder.servers {
            let state = if server.runs { "runs" } else { "down" };
            let process = server.pid.map_or("container".to_owned(), |pid| format!("pid {pid}"));
            let address = server.variables.first().map_or("", |(_, value)| value);
            println!("  {:<11} {state}  {process:<11}  {address}", server.name);
        }
    }
}
