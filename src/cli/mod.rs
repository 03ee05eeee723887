//! The command line: one file a command. Must hold no rule of delivery.

mod check;
mod config;
mod migrate;
mod output;
mod publish;
mod run;
mod tenants;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::brokers::Registry;
use crate::config::{Config, Environment, Loaded};
use crate::exit::Exit;

#[derive(Debug, Parser)]
#[command(name = "outrider", version, about = ABOUT, after_help = after_help(), max_term_width = 100)]
struct Cli {
    /// Directory with outrider.toml and tenants/*.toml
    #[arg(long, global = true, value_name = "DIR", env = "OUTRIDER_CONFIG", default_value = "config")]
    config: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Migrate(migrate::Args),
    Check(check::Args),
    Config(config::Args),
    Publish(publish::Args),
}

const ABOUT: &str = "Relays events from an outbox table in PostgreSQL to Kafka, RabbitMQ and NATS JetStream";

fn after_help() -> String {
    let codes = Exit::ALL.map(|exit| format!("  {}  {}\n", exit.code(), exit.meaning())).concat();
    format!(
        "Examples:\n  \
           outrider check --offline                 # is the config right?\n  \
           outrider migrate                         # make the tables of every tenant\n  \
           outrider check                           # can every database and broker be reached?\n  \
           outrider run                             # relay until SIGTERM\n  \
           outrider publish --tenant acme --topic orders --key 42 --payload '{{\"total\": 12}}'\n\n\
         Exit codes:\n{codes}"
    )
}

/// Runs the command that the process was started with.
pub fn main(registry: Registry) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Also `--help` and `--version`, which go to standard output. Nothing is left to do if that fails.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Success }.into();
        }
    };
    let environment = Environment::of_process();
    let context = Context { dir: &cli.config, environment: &environment, registry: &registry };
    match cli.command {
        Command::Run(args) => run::run(&context, args),
        Command::Migrate(args) => migrate::run(&context, args),
        Command::Check(args) => check::run(&context, args),
        Command::Config(args) => config::run(&context, args),
        Command::Publish(args) => publish::run(&context, args),
    }
    .into()
}

/// What every command has.
struct Context<'a> {
    dir: &'a std::path::Path,
    environment: &'a Environment,
    registry: &'a Registry,
}

impl Context<'_> {
    /// The config; if it has faults, they are shown.
    fn load(&self) -> Result<Loaded, Exit> {
        Config::load(self.dir, self.environment, self.registry).map_err(|errors| output::failure(&errors))
    }
}

/// Runs a command's future. The daemon has a runtime of its own.
fn block_on(command: impl Future<Output = Exit>) -> Exit {
    // For TLS. Another part of the process may have chosen one before; any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime.block_on(command),
        Err(error) => output::failure(&format!("start the threads: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
