//! From a tenant of the config to its database, and the choice of tenants by `--tenant`.

use std::str::FromStr;

use secrecy::ExposeSecret;
use sqlx::postgres::PgConnectOptions;

use super::output;
use crate::config::{Config, Database, Pooling, TenantConfig};
use crate::exit::Exit;
use crate::store::{Schema, Store, StoreOptions};

/// The tenants of these names, all if there are none; an unknown name is a failure that is shown.
pub(super) fn chosen<'a>(config: &'a Config, names: &[String]) -> Result<Vec<&'a TenantConfig>, Exit> {
    if names.is_empty() {
        return Ok(config.tenants.values().collect());
    }
    names.iter().map(|name| named(config, name)).collect()
}

pub(super) fn named<'a>(config: &'a Config, name: &str) -> Result<&'a TenantConfig, Exit> {
    config.tenants.get(name).ok_or_else(|| {
        let known: Vec<String> = config.tenants.keys().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
        output::failure(&format!("find tenant `{name}` in the config; known: {known}"))
    })
}

/// Address and credentials.
pub(super) fn connect_options(database: &Database) -> PgConnectOptions {
    PgConnectOptions::from_str(database.url.expose_secret())
        .expect("the URL was parsed when the config was checked")
}

pub(super) fn schema(database: &Database) -> Schema {
    Schema::new(database.schema.as_str()).expect("a plain name is a schema's name")
}

/// A store that has not connected yet; `command` is shown to the server's operators.
pub(super) fn store(database: &Database, command: &str) -> Store {
    let mut options = StoreOptions::new(connect_options(database), schema(database));
    command.clone_into(&mut options.application);
    options.transaction_pooled = database.pooling == Pooling::Transaction;
    Store::new(options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SchemaName;

    #[test]
    fn every_schema_name_of_a_config_is_one_of_the_store() {
        for text in ["outrider", "_", "a1", &"x".repeat(63)] {
            let name = SchemaName::new(text).expect("is plain");
            assert!(Schema::new(name.as_str()).is_ok(), "{text}");
        }
    }
}
