//! The process's log: `tracing` to standard error, as text or JSON lines.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::{Log, LogFormat};

/// Always part of the filter: these clients log returned messages with their bodies, and headers with their values. What
/// an application wrote must never be in a log.
const NEVER: [&str; 2] = ["lapin::returned_messages=off", "async_nats=warn"];

/// Installs the log. Once per process.
pub fn init(log: &Log) -> Result<(), ParseError> {
    let mut filter = EnvFilter::try_new(&log.filter)?;
    for never in NEVER {
        filter = filter.add_directive(never.parse()?);
    }
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second installation is a second call in one process (tests): the first one stays.
    let _ = match log.format {
        LogFormat::Text => builder.with_ansi(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    Ok(())
}
