//! Whether a tenant's database can be reached, has the tables of this program, sees inserts, and which topics
//! wait there without a route.

use std::collections::BTreeSet;

use serde::Serialize;

use super::super::tenants;
use super::State;
use crate::config::TenantConfig;
use crate::store::{SchemaState, Store, StoreError, TriggerState};

/// Topics that are named in the text; the JSON has all.
const NAMED_TOPICS: usize = 5;

/// How a tenant's database stands. What is not known is absent.
#[derive(Debug, Serialize)]
pub(super) struct TenantReport {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) detail: String,
    /// `missing`, `behind`, `current`, `newer` or `changed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<&'static str>,
    /// `enabled`, `disabled` or `missing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<&'static str>,
    /// Topics with unsent events that no route matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    unrouted: Option<Vec<String>>,
}

pub(super) async fn check(tenant: &TenantConfig) -> TenantReport {
    let mut report = TenantReport {
        name: tenant.name.to_string(),
        state: State::Ok,
        detail: String::new(),
        schema: None,
        trigger: None,
        unrouted: None,
    };
    let mut store = tenants::store(&tenant.database, "check");
    if let Err(error) = look(&mut store, tenant, &mut report).await {
        report.state = State::Failed;
        report.detail = format!("failed to {error}");
    }
    store.disconnect().await;
    report
}

async fn look(store: &mut Store, tenant: &TenantConfig, report: &mut TenantReport) -> Result<(), StoreError> {
    store.connect().await?;
    let (word, schema_fault) = judge_schema(&store.schema_state().await?, tenant);
    report.schema = Some(word);
    if let Some(fault) = schema_fault {
        report.state = State::Failed;
        report.detail = fault;
        return Ok(());
    }
    let (word, trigger_fault) = judge_trigger(store.trigger_state().await?, tenant);
    report.trigger = Some(word);
    let unrouted = unrouted(store, tenant).await?;
    report.detail = match &trigger_fault {
        Some(fault) => fault.clone(),
        None => format!("schema `{}` is current", tenant.database.schema),
    };
    if !unrouted.is_empty() {
        report.detail = format!("{}; {}", report.detail, describe_unrouted(&unrouted));
        report.state = State::Warning;
    }
    if trigger_fault.is_some() {
        report.state = State::Failed;
    }
    report.unrouted = Some(unrouted);
    Ok(())
}

/// A word for the state, and what is wrong with it.
fn judge_schema(state: &SchemaState, tenant: &TenantConfig) -> (&'static str, Option<String>) {
    let schema = &tenant.database.schema;
    let migrate = format!("run `outrider migrate --tenant {}`", tenant.name);
    match state {
        SchemaState::Current => ("current", None),
        SchemaState::Missing => ("missing", Some(format!("schema `{schema}` is not there: {migrate}"))),
        SchemaState::Behind { version, latest } => (
            "behind",
            Some(format!("schema `{schema}` has version {version}, this program needs {latest}: {migrate}")),
        ),
        SchemaState::Newer { version, known } => (
            "newer",
            Some(format!(
                "schema `{schema}` has version {version}, this program knows {known}: use a newer outrider"
            )),
        ),
        SchemaState::Changed { version, name } => (
            "changed",
            Some(format!(
                "schema `{schema}` was made with another migration {version} `{name}`: use the outrider that made it"
            )),
        ),
    }
}

fn judge_trigger(state: TriggerState, tenant: &TenantConfig) -> (&'static str, Option<String>) {
    let schema = &tenant.database.schema;
    match state {
        TriggerState::Enabled => ("enabled", None),
        TriggerState::Disabled => (
            "disabled",
            Some(format!(
                "inserts are not seen: the trigger is disabled; run `ALTER TABLE {schema}.outbox ENABLE TRIGGER outbox_delivery`"
            )),
        ),
        TriggerState::Missing => (
            "missing",
            Some(format!(
                "inserts are not seen: the trigger `outbox_delivery` on `{schema}.outbox` is gone; create it as in migrations/0002_delivery.sql"
            )),
        ),
    }
}

/// The topics, over all lanes, that have unsent events and no route.
async fn unrouted(store: &mut Store, tenant: &TenantConfig) -> Result<Vec<String>, StoreError> {
    let mut topics = BTreeSet::new();
    for lane in store.lanes().await? {
        let found = store.topics(lane.lane, &[]).await?;
        topics.extend(
            found.into_iter().map(|work| work.topic).filter(|topic| tenant.routes.find(topic).is_none()),
        );
    }
    Ok(topics.into_iter().collect())
}

fn describe_unrouted(topics: &[String]) -> String {
    let named: Vec<String> = topics.iter().take(NAMED_TOPICS).map(|topic| format!("`{topic}`")).collect();
    let more = if topics.len() > NAMED_TOPICS { ", …" } else { "" };
    let (count, noun) = (topics.len(), if topics.len() == 1 { "topic has" } else { "topics have" });
    format!(
        "{count} {noun} events and no route, so they are held: {}{more}; add `[[routes]]`",
        named.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_counted_and_a_few_are_named() {
        let topics = |count: usize| (0..count).map(|n| format!("t{n}")).collect::<Vec<_>>();
        assert!(describe_unrouted(&topics(1)).starts_with("1 topic has events and no route"));
        let many = describe_unrouted(&topics(9));
        assert!(
            many.starts_with("9 topics have") && many.contains("`t4`, …") && !many.contains("t5"),
            "{many}"
        );
    }
}
