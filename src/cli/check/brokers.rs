//! Whether a broker answers: connect, ask for a sign of life, close. Publishes nothing.

use std::time::{Duration, Instant};

use outrider_broker::{Cause, ConnectOptions};
use serde::Serialize;

use super::State;
use crate::config::BrokerConfig;

/// Time for the connection to close; nothing is in flight on it.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How a broker stands.
#[derive(Debug, Serialize)]
pub(super) struct BrokerReport {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) state: State,
    pub(super) detail: String,
}

pub(super) async fn check(config: &BrokerConfig) -> BrokerReport {
    let begun = Instant::now();
    let (state, detail) = match reach(config).await {
        Ok(()) => (State::Ok, format!("{} answered within {} ms", config.kind, begun.elapsed().as_millis())),
        Err(cause) => (State::Failed, format!("{} ({})", cause.text, cause.class.name())),
    };
    BrokerReport { name: config.name.to_string(), kind: config.kind.clone(), state, detail }
}

async fn reach(config: &BrokerConfig) -> Result<(), Cause> {
    let options = ConnectOptions {
        client_name: format!("outrider/{}/check", config.name),
        timeout: config.connect_timeout,
        publish_deadline: config.publish_deadline.max,
    };
    let connection = config.broker.connect(options).await.map_err(|error| error.0)?;
    let probed = connection.probe(Instant::now() + config.connect_timeout).await;
    connection.close(Instant::now() + CLOSE_TIMEOUT).await;
    probed
}
