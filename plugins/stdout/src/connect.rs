//! Destinations, and the connection's thread.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outrider_broker::{
    Broker, Cause, ConnectError, ConnectOptions, Connection, ErrorClass, Facts, Fault, async_trait,
};

use crate::Open;
use crate::publish::StdoutConnection;
use crate::writer::Writer;

/// The one part of a destination.
const NAME: &str = "name";

pub(crate) struct StdoutBroker {
    open: Open,
}

impl StdoutBroker {
    pub(crate) fn new(open: Open) -> Self {
        StdoutBroker { open }
    }
}

impl fmt::Debug for StdoutBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdoutBroker").finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for StdoutBroker {
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        let unknown: Vec<Fault> = to
            .keys()
            .filter(|part| *part != NAME)
            .map(|part| Fault::new(part, "is not part of a destination; there is only `name`"))
            .collect();
        if !unknown.is_empty() {
            return Err(unknown);
        }
        let mut full = to.clone();
        full.entry(NAME.to_owned()).or_insert_with(|| "{topic}".to_owned());
        Ok(full)
    }

    fn facts(&self) -> Facts {
        Facts::default()
    }

    async fn connect(&self, _: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        let writer = Writer::start(Arc::clone(&self.open)).map_err(|error| {
            ConnectError(Cause::broker(ErrorClass::Other, format!("no thread to write from: {error}")))
        })?;
        Ok(Arc::new(StdoutConnection::new(writer)))
    }
}
