//! `outrider check`: the config, then whether each broker and database is there and fits. Changes nothing.

mod brokers;
mod databases;

use futures_util::future::{join, join_all};
use serde::Serialize;
use serde_json::json;

use super::{Context, block_on, output};
use crate::config::{Config, ConfigErrors, Warning};
use crate::exit::Exit;

/// Check the config; then reach each broker and database, and look at the tables
///
/// Lists every fault of the config at once. Says for each tenant whether its tables fit, whether inserts are
/// seen, and which topics wait because they have no route.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrider check --offline               # the config alone; in CI, before a deploy\n  \
    outrider check\n  \
    outrider check --json | jq '.tenants[] | select(.state != \"ok\")'")]
pub(super) struct Args {
    /// Only the config; connects to nothing
    #[arg(long)]
    offline: bool,
    /// Result as JSON
    #[arg(long)]
    json: bool,
}

/// How something stands. Ordered from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, and somebody should look at it.
    Warning,
    Failed,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Failed => "FAILED",
        }
    }
}

pub(super) fn run(context: &Context<'_>, args: Args) -> Exit {
    match Config::load(context.dir, context.environment, context.registry) {
        Err(errors) => faults(&errors, args.json),
        Ok(loaded) if args.offline => offline(&loaded.config, &loaded.warnings, args.json),
        Ok(loaded) => block_on(online(&loaded.config, &loaded.warnings, args.json)),
    }
}

fn faults(errors: &ConfigErrors, as_json: bool) -> Exit {
    if as_json {
        output::print_json(&json!({ "ok": false, "faults": errors.faults, "warnings": errors.warnings }));
        return Exit::Failure;
    }
    show_warnings(&errors.warnings);
    output::failure(errors)
}

fn offline(config: &Config, warnings: &[Warning], as_json: bool) -> Exit {
    if as_json {
        return output::print_json(&json!({ "ok": true, "faults": [], "warnings": warnings }));
    }
    show_warnings(warnings);
    output::print(format_args!("config ok: {}", size(config)))
}

async fn online(config: &Config, warnings: &[Warning], as_json: bool) -> Exit {
    if !as_json {
        show_warnings(warnings);
    }
    let brokers = join_all(config.brokers.values().map(brokers::check));
    let databases = join_all(config.tenants.values().map(databases::check));
    let (brokers, databases) = join(brokers, databases).await;
    let states = brokers.iter().map(|broker| broker.state).chain(databases.iter().map(|tenant| tenant.state));
    let ok = states.max().is_none_or(|worst| worst < State::Failed);
    if as_json {
        output::print_json(&json!({
            "ok": ok,
            "faults": [],
            "warnings": warnings,
            "brokers": brokers,
            "tenants": databases,
        }));
    } else {
        let brokers = brokers.iter().map(|broker| row("broker", &broker.name, broker.state, &broker.detail));
        let tenants =
            databases.iter().map(|tenant| row("tenant", &tenant.name, tenant.state, &tenant.detail));
        output::print(output::table(&["", "NAME", "STATE", "DETAIL"], brokers.chain(tenants)));
    }
    if ok { Exit::Success } else { Exit::Failure }
}

fn row(what: &str, name: &str, state: State, detail: &str) -> Vec<String> {
    vec![what.to_owned(), name.to_owned(), state.word().to_owned(), detail.to_owned()]
}

fn show_warnings(warnings: &[Warning]) {
    for warning in warnings {
        output::note(format_args!("warning: {warning}\n"));
    }
}

fn size(config: &Config) -> String {
    let counted = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    format!("{}, {}", counted(config.brokers.len(), "broker"), counted(config.tenants.len(), "tenant"))
}
