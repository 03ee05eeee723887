//! `cargo xtask servers`: the private servers alone, which stay until they are told to stop.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use outrider_servers::holder::{Holder, ServerRecord, UP};
use outrider_servers::install::Install;
use outrider_servers::shared::Shared;
use serde_json::{Value, json};

use crate::compose;
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
    setup::sweep(progress);
    if Source::find(&install)? == Source::Docker {
        progress.step("containers", || {
            compose::start()?.leave_up();
            Ok(())
        })?;
        print_exports(compose::variables());
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
    setup::sweep(progress);
    match find_up() {
        Some(holder) => progress.step("stop the servers", || {
            holder.stop();
            Ok(())
        })?,
        None if Source::find(&Install::locate()).ok() == Some(Source::Docker) => compose::down()?,
        None => progress.tell("no servers run"),
    }
    Ok(ExitCode::SUCCESS)
}

fn status(as_json: bool) -> Result<ExitCode> {
    let holders = Holder::all();
    if as_json {
        let all: Vec<Value> = holders.iter().map(holder_as_json).collect();
        println!("{}", json!({ "holders": all }));
    } else {
        print_status(&holders);
        if find_up().is_none() && Source::find(&Install::locate()).ok() == Some(Source::Docker) {
            compose::status()?;
        }
    }
    let up = find_up().is_some_and(|holder| all_run(&holder.servers()));
    Ok(if up { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

fn print_status(holders: &[Holder]) {
    if holders.is_empty() {
        println!("no servers run");
    }
    for holder in holders {
        let abandoned = if holder.is_abandoned() { " (its process is gone)" } else { "" };
        println!("{}{abandoned}", holder.name());
        for server in holder.servers() {
            let state = if server.is_alive() { "runs" } else { "down" };
            let pid = server.processes.last().map_or(0, |each| each.process.pid);
            let address = server.variables.first().map_or("", |(_, value)| value);
            println!("  {:<11} {state}  pid {pid:<7}  {address}", server.name);
        }
    }
}

fn holder_as_json(holder: &Holder) -> Value {
    let servers: Vec<Value> = holder
        .servers()
        .into_iter()
        .map(|server| {
            let pid = server.processes.last().map(|each| each.process.pid);
            let runs = server.is_alive();
            let variables: BTreeMap<String, String> = server.variables.into_iter().collect();
            json!({ "name": server.name, "runs": runs, "pid": pid, "ports": server.ports, "variables": variables })
        })
        .collect();
    json!({ "name": holder.name(), "abandoned": holder.is_abandoned(), "servers": servers })
}
