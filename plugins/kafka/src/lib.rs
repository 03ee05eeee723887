//! The Kafka plugin: idempotent, `acks=all`, one confirmed record for each event.
//!
//! | file | what it is |
//! |---|---|
//! | `params`, `names` | the section's parameters, checked without I/O |
//! | `topic`, `record` | what Kafka can carry: topic names, record sizes, keys, headers, times |
//! | `connect` | a librdkafka producer, and what of it may block |
//! | `context` | what librdkafka calls back, and why a client cannot work |
//! | `batch` | one countdown for each batch |
//! | `publish` | the connection: batches in, outcomes out, before a deadline |
//! | `classify`, `verdict` | from error codes to outcomes |
//! | `native` | the three calls that need `unsafe` |
//!
//! # Parameters
//!
//! librdkafka's own names (`"bootstrap.servers"`, `"compression.type"`, `"sasl.password"`); numbers and booleans
//! may be written as such. Required: `bootstrap.servers`. Fixed, and a fault if given: idempotence, acks,
//! retries, requests in flight, the client's id, and the message timeout, which follows from the section's
//! `publish_deadline`. Unknown names are faults; so are consumers' parameters and what would have no effect.
//!
//! | parameter | default here | why |
//! |---|---|---|
//! | `partitioner` | `murmur2_random` | as Java's producer: equal keys meet, whoever writes them |
//! | `message.max.bytes` | 1000000 | checked before the client, with framing and headers, before compression |
//! | `queue.buffering.max.messages` | 100000 | the section's `max_in_flight` must not be more |
//! | `queue.buffering.max.kbytes` | 1048576 | likewise, in bytes of payload |
//! | `reconnect.backoff.max.ms` | 2000, with SASL 10000 | an outage ends sooner; wrong passwords lock accounts |
//! | `linger.ms` | 1, at most 1000 | events come in groups, and the next of a key waits for the one before |
//!
//! # Keys
//!
//! The event's key is the record's key. No key is a null key: any partition, no order. The empty key is a key:
//! it is hashed like any other, so its records share a partition. (`consistent_random` would spread them.)

mod batch;
mod classify;
mod connect;
mod context;
mod names;
mod native;
mod params;
mod publish;
mod record;
mod stall;
mod topic;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outrider_broker::{
    Broker, ConnectError, ConnectOptions, Connection, Facts, Fault, Params, Plugin, async_trait,
};

use crate::connect::{Blueprint, Client};
use crate::context::Health;
use crate::params::Settings;
use crate::publish::KafkaConnection;

/// `kind = "kafka"`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kafka;

impl Plugin for Kafka {
    fn kind(&self) -> &'static str {
        "kafka"
    }

    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        Ok(Arc::new(KafkaBroker { settings: Arc::new(Settings::parse(params)?) }))
    }

    fn public_params(&self) -> &'static [&'static str] {
        names::PUBLIC
    }
}

/// One configured cluster.
struct KafkaBroker {
    settings: Arc<Settings>,
}

/// The names of the parameters; values may be secrets.
impl fmt::Debug for KafkaBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaBroker").field("params", &self.settings).finish()
    }
}

#[async_trait]
impl Broker for KafkaBroker {
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        topic::destination(to)
    }

    fn facts(&self) -> Facts {
        Facts {
            max_in_flight_events: self.settings.queue_messages,
            max_in_flight_bytes: Some(self.settings.queue_bytes),
            duplicate_window: None,
        }
    }

    async fn connect(&self, options: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        let health = Arc::new(Health::new(options.client_name.clone(), Arc::clone(&self.settings)));
        let blueprint = Blueprint { settings: Arc::clone(&self.settings), options, health };
        let client = Client::connect(blueprint.clone()).await?;
        Ok(Arc::new(KafkaConnection::new(blueprint, client)))
    }
}
