//! `kind = "memory"`: a broker inside the process.
//!
//! In the daemon it is a null publisher: it confirms and keeps nothing, which is how the cost of everything but
//! a broker is measured. Tests ask it to keep the messages, and tell its [`Store`] what to do with them: stall,
//! refuse, lose an answer, panic, go down. Nothing leaves the process, and nothing is kept beyond its end.
//!
//! | param | default | meaning |
//! |---|---|---|
//! | `store` | `default` | name of the process-wide store |
//! | `keep` | `false` | keep what was confirmed |
//! | `capacity` | 100000 | most messages kept; a full store answers "try later" |
//! | `latency` | `0ms` | time between hand-over and confirm of a batch |
//! | `max_message_bytes` | none | larger messages are refused for good |

mod connect;
mod params;
mod publish;
mod rules;
mod store;

use std::sync::Arc;

use outrider_broker::{Broker, Fault, Params, Plugin};

pub use rules::{Behaviour, RuleId};
pub use store::Store;

/// The plugin to register.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory;

impl Plugin for Memory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        Ok(Arc::new(connect::MemoryBroker::new(params::Settings::parse(params)?)))
    }

    fn public_params(&self) -> &'static [&'static str] {
        &["store", "keep", "capacity", "latency", "max_message_bytes"]
    }
}
