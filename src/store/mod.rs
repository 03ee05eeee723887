//! All SQL, and nobody else's: one tenant's database per [`Store`]. Statements only; what to do with their answers is
//! decided elsewhere.
//!
//! | file | what it holds |
//! |---|---|
//! | `options`, `schema` | address, session settings, the schema's name |
//! | `link` | the one connection, deadlines, sending again |
//! | `sql`, `sql/*.sql` | the statements, one file each |
//! | `row` | values between Rust and PostgreSQL |
//! | `lane` | take, reclaim, renew, give |
//! | `claim`, `settle`, `held` | the way of an event |
//! | `topics`, `stats`, `replica`, `retain`, `doctor` | what the claimer and the janitor ask |
//! | `publish` | one event, for trying |
//! | `migrate` | the tables |
//! | `error` | what can go wrong, by what to do about it |

mod claim;
mod doctor;
mod error;
mod held;
mod lane;
mod link;
pub mod migrate;
mod options;
mod publish;
mod replica;
mod retain;
mod row;
mod schema;
mod settle;
mod sql;
mod stats;
mod topics;

use std::sync::Arc;

pub use self::claim::{ClaimRequest, Claimed, Row, TopicRequest};
pub use self::doctor::{OldestWriter, TriggerState};
pub use self::error::StoreError;
pub use self::held::Discarded;
pub use self::lane::{LaneRow, Reclaim, Reclaimed};
pub use self::migrate::SchemaState;
pub use self::options::StoreOptions;
pub use self::publish::NewEvent;
pub use self::retain::Retained;
pub use self::schema::{Schema, SchemaNameError};
pub use self::settle::{Failed, FailedOutcome, MAX_DELAY, NotApplied, SettledSent};
pub use self::stats::{COUNT_CAP, Stats};
pub use self::topics::{KnownTopic, TopicWork};

use self::link::Link;
use self::sql::Statements;

/// One tenant's database over one connection, for one task. Statements run one after another.
///
/// Connects when a statement needs it; drops the connection on any doubt. Cancel safe in this sense: a call that is
/// dropped half-way takes the connection with it, and its statement counts as one whose answer was lost.
#[derive(Debug)]
pub struct Store {
    link: Link,
    statements: Arc<Statements>,
}

impl Store {
    /// Makes a store; does not connect yet.
    pub fn new(options: StoreOptions) -> Self {
        let statements = Arc::new(Statements::new(&options.schema));
        Self { link: Link::new(options), statements }
    }

    /// A second store for the same database, with a connection of its own.
    pub fn sibling(&self) -> Self {
        Self { link: Link::new(self.link.options.clone()), statements: Arc::clone(&self.statements) }
    }

    /// Connects, if there is no connection yet.
    ///
    /// # Errors
    /// Those that [`StoreError::is_connect`] is true for.
    pub async fn connect(&mut self) -> Result<(), StoreError> {
        self.link.open().await
    }

    /// Closes the connection, if there is one; the next statement opens another. An idle tenant holds none.
    pub async fn disconnect(&mut self) {
        self.link.close().await;
    }

    pub fn is_connected(&self) -> bool {
        self.link.is_open()
    }

    /// Statements that were sent again after a lock or a stale connection, since the store was made.
    pub fn resent(&self) -> u64 {
        self.link.resent()
    }

    pub fn schema(&self) -> &Schema {
        &self.link.options.schema
    }

    /// Name and text of every statement as it is sent, for those who want the server's plan of one.
    pub fn texts(&self) -> Vec<(&'static str, Arc<str>)> {
        self.statements.texts()
    }
}
