//! `outrider config`: the config as it counts, secrets masked.

use super::{Context, output};
use crate::exit::Exit;

/// Print the effective config: files, environment and defaults together, secrets masked
///
/// A value that was given by reference is shown as that reference. Other texts in `params` are masked, unless
/// the broker's plugin says that they may be seen.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  outrider config\n  outrider config --json | jq .tenants.acme.delivery")]
pub(super) struct Args {
    /// As JSON instead of TOML
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context<'_>, args: Args) -> Exit {
    let config = match context.load() {
        Ok(loaded) => loaded.config,
        Err(exit) => return exit,
    };
    if args.json { output::print_json(&config.to_json()) } else { output::print(config.to_toml().trim_end()) }
}
