//! The process's log: `tracing` to standard error, as text or JSON lines.

use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt, ParseError, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::config::{Log, LogFormat};

/// Clients that write messages, headers or frames to their log, each with the most that it may say. What an
/// application wrote, and what a login sends, must never be in a log, whatever `log.filter` asks for.
const TALKATIVE: [(&str, Option<Level>); 3] =
    [("lapin::returned_messages", None), ("lapin", Some(Level::WARN)), ("async_nats", Some(Level::WARN))];

/// Installs the log. Once per process.
///
/// # Errors
/// `log.filter` is not a filter.
pub fn init(log: &Log) -> Result<(), ParseError> {
    let filter = EnvFilter::try_new(&log.filter)?.and(filter_fn(may_be_logged));
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let registry = tracing_subscriber::registry();
    // A second installation is a second call in one process (tests): the first one stays.
    let _ = match log.format {
        LogFormat::Text => registry.with(layer.with_filter(filter)).try_init(),
        LogFormat::Json => registry.with(layer.json().flatten_event(true).with_filter(filter)).try_init(),
    };
    Ok(())
}

fn may_be_logged(metadata: &Metadata<'_>) -> bool {
    allows(metadata.target(), *metadata.level())
}

fn allows(target: &str, level: Level) -> bool {
    let module =
        |name: &str| target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    match TALKATIVE.iter().find(|(name, _)| module(name)) {
        Some((_, most)) => most.is_some_and(|most| level <= most),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C93: what a client would write of a message or a login.
    #[test]
    fn clients_that_write_messages_are_cut_short() {
        assert!(!allows("lapin::returned_messages", Level::ERROR));
        assert!(allows("lapin::channel", Level::WARN));
        assert!(!allows("lapin::channel", Level::INFO));
        assert!(!allows("async_nats", Level::TRACE));
        assert!(allows("async_nats::connection", Level::ERROR));
        assert!(allows("lapine", Level::TRACE));
        assert!(allows("outrider::telemetry", Level::TRACE));
    }
}
