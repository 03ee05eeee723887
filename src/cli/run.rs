//! `outrider run`: the daemon.

use super::{Context, output};
use crate::actors::exit::Exit as Drain;
use crate::config::{Loaded, Warning};
use crate::exit::Exit;
use crate::{run, telemetry};

/// Relay events until SIGTERM or SIGINT
///
/// On the first signal it claims nothing more, finishes what is in flight within `shutdown.grace`, and
/// releases the rest; the exit code says whether all was finished. A second signal ends it at once.
/// Logs go to standard error; /metrics, /healthz and /readyz are at `admin.listen`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrider run\n  \
    outrider --config /etc/outrider run\n  \
    OUTRIDER_LOG__FORMAT=json OUTRIDER_LOG__FILTER=debug outrider run")]
pub(super) struct Args {}

pub(super) fn run(context: &Context<'_>, Args {}: Args) -> Exit {
    let Loaded { config, warnings } = match context.load() {
        Ok(loaded) => loaded,
        Err(exit) => return exit,
    };
    if let Err(error) = telemetry::init_log(&config.log) {
        return output::failure(&format!("start the log: {error}"));
    }
    for Warning(fault) in warnings {
        tracing::warn!(place = %fault.place, key = fault.key, help = fault.remedy, "config: {}", fault.rule);
    }
    // After a second signal the drain is as incomplete as it gets.
    match run::run(config, Exit::DrainIncomplete.code().into()) {
        Ok(Drain::Drained) => Exit::Success,
        Ok(Drain::CutShort | Drain::Panicked) => Exit::DrainIncomplete,
        Err(error) => output::failure(&error),
    }
}
