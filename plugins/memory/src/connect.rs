//! Destinations and connecting.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrider_broker::{Broker, ConnectError, ConnectOptions, Connection, Facts, Fault, async_trait};

use crate::params::Settings;
use crate::publish::MemoryConnection;
use crate::store::Store;

/// The one part of a destination.
pub(crate) const NAME: &str = "name";

#[derive(Debug)]
pub(crate) struct MemoryBroker {
    settings: Arc<Settings>,
}

impl MemoryBroker {
    pub(crate) fn new(settings: Settings) -> Self {
        MemoryBroker { settings: Arc::new(settings) }
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        let faults: Vec<Fault> = to
            .iter()
            .filter_map(|(part, value)| match (part.as_str(), value.as_str()) {
                (NAME, "") => Some(Fault::new(NAME, "must not be empty; leave it out for `{topic}`")),
                (NAME, _) => None,
                (other, _) => Some(Fault::new(other, "is not part of a destination; there is only `name`")),
            })
            .collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut full = to.clone();
        full.entry(NAME.to_owned()).or_insert_with(|| "{topic}".to_owned());
        Ok(full)
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    async fn connect(&self, _: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        let store = Store::named(&self.settings.store);
        if let Some(cause) = store.down() {
            return Err(ConnectError(cause));
        }
        store.count_connect();
        Ok(Arc::new(MemoryConnection::new(store, Arc::clone(&self.settings))))
    }
}
