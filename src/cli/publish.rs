//! `outrider publish`: one event into a tenant's outbox, the way an application would, for trying things out.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

use serde_json::json;

use super::{Context, block_on, output, tenants};
use crate::config::TenantConfig;
use crate::exit::Exit;
use crate::store::NewEvent;

/// Insert one event into a tenant's outbox, for trying things out
///
/// It is relayed by whichever `outrider run` serves the tenant. Prints the event's id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrider publish --tenant acme --topic orders --key 42 --payload '{\"total\": 12}'\n  \
    outrider publish --tenant acme --topic orders --header source=shop --payload-file order.json\n  \
    echo hello | outrider publish --tenant acme --topic greetings")]
pub(super) struct Args {
    #[arg(long, value_name = "NAME")]
    tenant: String,
    #[arg(long)]
    topic: String,
    /// Ordering key; without one the event has no order
    #[arg(long)]
    key: Option<String>,
    /// Contract name, such as orders.order-created.v1 [default: the topic]
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
    /// A header; may be given several times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// The payload; without this and --payload-file it is read from standard input, as it is
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    payload: Option<String>,
    /// File with the payload
    #[arg(long, value_name = "FILE")]
    payload_file: Option<PathBuf>,
    /// Result as JSON
    #[arg(long)]
    json: bool,
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("must be NAME=VALUE".to_owned()),
    }
}

pub(super) fn run(context: &Context<'_>, args: Args) -> Exit {
    let config = match context.load() {
        Ok(loaded) => loaded.config,
        Err(exit) => return exit,
    };
    let tenant = match tenants::named(&config, &args.tenant) {
        Ok(tenant) => tenant,
        Err(exit) => return exit,
    };
    let payload = match payload(&args) {
        Ok(payload) => payload,
        Err(what) => return output::failure(&what),
    };
    block_on(publish(tenant, &args, &payload))
}

fn payload(args: &Args) -> Result<Vec<u8>, String> {
    if let Some(text) = &args.payload {
        return Ok(text.clone().into_bytes());
    }
    if let Some(file) = &args.payload_file {
        return std::fs::read(file)
            .map_err(|error| format!("read the payload from `{}`: {error}", file.display()));
    }
    let mut payload = Vec::new();
    io::stdin()
        .read_to_end(&mut payload)
        .map_err(|error| format!("read the payload from standard input: {error}"))?;
    Ok(payload)
}

async fn publish(tenant: &TenantConfig, args: &Args, payload: &[u8]) -> Exit {
    let headers: BTreeMap<&str, &str> =
        args.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let headers = (!headers.is_empty()).then(|| json!(headers).to_string());
    let event = NewEvent {
        topic: &args.topic,
        key: args.key.as_deref(),
        kind: args.kind.as_deref(),
        payload,
        headers: headers.as_deref(),
        available_at: None,
        serialize_key: false,
    };
    let mut store = tenants::store(&tenant.database, "publish");
    let published = store.publish(&event).await;
    store.disconnect().await;
    let id = match published {
        Ok(id) => id,
        Err(error) => return output::failure(&error),
    };
    if tenant.routes.find(&args.topic).is_none() {
        output::note(format_args!(
            "note: topic `{}` has no route, so the event is held until one is added",
            args.topic
        ));
    }
    match args.json {
        true => output::print_json(&json!({ "id": id, "tenant": args.tenant, "topic": args.topic })),
        false => output::print(id),
    }
}
