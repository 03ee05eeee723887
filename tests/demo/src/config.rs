//! The daemon's config: three brokers, a route for each part of the business, a file for each tenant.
//!
//! Addresses may hold passwords, so they are references to variables that [`variables`] sets.

use std::fmt::Write;

use anyhow::Result;

use crate::stage::{DUPLICATE_WINDOW, Stage, TENANTS};

/// Short, so that a restart after the kill takes over soon; in real life leave them alone.
const LEASE: &str = "6s";
const PUBLISH_DEADLINE: &str = "3s";

/// Writes `outrider.toml` and `tenants/*.toml`.
pub(crate) fn write(stage: &Stage) -> Result<()> {
    let database = |tenant| format!("database = {{ url = \"env:{}\" }}\n", variable(tenant));
    stage.daemon.write(&main(stage), &TENANTS.map(|tenant| (tenant, database(tenant))))
}

/// What the references stand for.
pub(crate) fn variables(stage: &Stage) -> Vec<(String, String)> {
    let mut variables = vec![
        ("DEMO_KAFKA".to_owned(), stage.kafka.clone()),
        ("DEMO_RABBITMQ_URL".to_owned(), stage.rabbitmq.clone()),
        ("DEMO_NATS_URL".to_owned(), stage.nats.clone()),
    ];
    for tenant in TENANTS {
        variables.push((variable(tenant), stage.database_url(tenant)));
    }
    variables
}

fn variable(tenant: &str) -> String {
    format!("DEMO_{}_DATABASE_URL", tenant.to_uppercase())
}

fn main(stage: &Stage) -> String {
    let run = &stage.run;
    let mut text = format!("[delivery]\nlease = \"{LEASE}\"\n");
    let window =
        format!("url = \"env:DEMO_NATS_URL\", duplicate_window = \"{}s\"", DUPLICATE_WINDOW.as_secs());
    let brokers = [
        ("kafka", "\"bootstrap.servers\" = \"env:DEMO_KAFKA\""),
        ("rabbitmq", "url = \"env:DEMO_RABBITMQ_URL\""),
        ("nats", window.as_str()),
    ];
    for (kind, params) in brokers {
        let _ = write!(
            text,
            "\n[brokers.{kind}]\nkind = \"{kind}\"\npublish_deadline = \"{PUBLISH_DEADLINE}\"\nparams = {{ {params} }}\n"
        );
    }
    let routes = [
        ("orders.*", "kafka", format!("topic = \"{run}.{{tenant}}.{{topic}}\"")),
        ("billing.*", "rabbitmq", format!("exchange = \"{run}\", routing_key = \"{{tenant}}.{{topic}}\"")),
        ("shipping.*", "nats", format!("subject = \"{run}.{{tenant}}.{{topic}}\"")),
    ];
    for (topic, broker, to) in routes {
        let _ = write!(text, "\n[[routes]]\ntopic = \"{topic}\"\nbroker = \"{broker}\"\nto = {{ {to} }}\n");
    }
    text
}
