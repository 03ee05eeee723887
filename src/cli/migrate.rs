//! `outrider migrate`: the tables of the tenants' databases.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Context, block_on, output, tenants};
use crate::config::{Pooling, TenantConfig};
use crate::exit::Exit;
use crate::store::Schema;
use crate::store::migrate::{self, MigrateError, Migration};

/// How long a migration may wait for locks that others hold, in tries of a few seconds each.
const PATIENCE: Duration = Duration::from_secs(60);

/// Make or update outrider's tables in the tenants' databases
///
/// Forward only. Two runs at a time wait for one another. A failure in one database does not keep the others
/// from being migrated; the exit code is 1 then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    outrider migrate                      # every tenant\n  \
    outrider migrate --tenant acme --dry-run\n  \
    outrider migrate --sql > V1__outrider.sql")]
pub(super) struct Args {
    /// Only this tenant; may be given several times
    #[arg(long, value_name = "NAME")]
    tenant: Vec<String>,
    /// Show what would be done and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the whole script for another tool (Flyway, psql -1) instead; connects to nothing. Without
    /// --tenant it reads no config and is for the schema `outrider`
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    sql: bool,
    /// Result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(context: &Context<'_>, args: Args) -> Exit {
    if args.sql && args.tenant.is_empty() {
        return output::print(migrate::sql(&Schema::default()).trim_end());
    }
    let config = match context.load() {
        Ok(loaded) => loaded.config,
        Err(exit) => return exit,
    };
    let chosen = match tenants::chosen(&config, &args.tenant) {
        Ok(chosen) => chosen,
        Err(exit) => return exit,
    };
    if args.sql {
        return print_scripts(&chosen);
    }
    if chosen.is_empty() {
        output::note("there are no tenants, so there is nothing to migrate");
    }
    block_on(migrate_all(&chosen, &args))
}

/// One script for each schema that the tenants have.
fn print_scripts(tenants: &[&TenantConfig]) -> Exit {
    let mut schemas: Vec<Schema> = Vec::new();
    for tenant in tenants {
        let schema = tenants::schema(&tenant.database);
        if !schemas.contains(&schema) {
            schemas.push(schema);
        }
    }
    let scripts: Vec<String> = schemas.iter().map(migrate::sql).collect();
    output::print(scripts.join("\n").trim_end())
}

/// What was done, or would be.
struct Done {
    migrations: Vec<&'static Migration>,
    notes: Vec<String>,
}

async fn migrate_all(chosen: &[&TenantConfig], args: &Args) -> Exit {
    let mut exit = Exit::Success;
    let mut results = Vec::new();
    for tenant in chosen {
        let result = migrate_one(tenant, args.dry_run).await;
        if let Err(error) = &result {
            exit = Exit::Failure;
            if !args.json {
                output::failure(&format!("{error}\n    tenant `{}`", tenant.name));
            }
        }
        if args.json {
            results.push(as_json(tenant, args.dry_run, &result));
        } else if let Ok(done) = result {
            show(tenant, args.dry_run, &done);
        }
    }
    if args.json {
        output::print_json(&Json::Array(results));
    }
    exit
}

async fn migrate_one(tenant: &TenantConfig, dry_run: bool) -> Result<Done, MigrateError> {
    let connect = tenants::connect_options(&tenant.database);
    let schema = tenants::schema(&tenant.database);
    if tenant.database.pooling == Pooling::Transaction {
        return Err(MigrateError::Pooled { schema: schema.name().to_owned() });
    }
    if dry_run {
        let migrations = migrate::plan(&connect, &schema).await?;
        return Ok(Done { migrations, notes: Vec::new() });
    }
    let report = migrate::apply(&connect, &schema, PATIENCE).await?;
    Ok(Done { migrations: report.applied, notes: report.notes })
}

fn show(tenant: &TenantConfig, dry_run: bool, done: &Done) {
    let (name, schema) = (&tenant.name, &tenant.database.schema);
    if done.migrations.is_empty() {
        output::print(format_args!("{name}: schema `{schema}` is up to date"));
    }
    let verb = if dry_run { "would apply" } else { "applied" };
    for migration in &done.migrations {
        output::print(format_args!(
            "{name}: {verb} {:04} {} to schema `{schema}`: {}",
            migration.version,
            migration.name,
            migration.purpose()
        ));
    }
    for note in &done.notes {
        output::note(format_args!("{name}: note: {note}"));
    }
}

fn as_json(tenant: &TenantConfig, dry_run: bool, result: &Result<Done, MigrateError>) -> Json {
    let (migrations, notes, error) = match result {
        Ok(done) => (done.migrations.as_slice(), done.notes.as_slice(), None),
        Err(error) => (&[][..], &[][..], Some(error.to_string())),
    };
    let migrations: Vec<Json> = migrations
        .iter()
        .map(|migration| json!({ "version": migration.version, "name": migration.name }))
        .collect();
    json!({
        "tenant": &*tenant.name,
        "schema": tenant.database.schema.as_str(),
        "dry_run": dry_run,
        "migrations": migrations,
        "notes": notes,
        "error": error,
    })
}
