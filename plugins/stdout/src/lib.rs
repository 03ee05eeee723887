//! `kind = "stdout"`: prints each message as one JSON line, for trying things out.
//!
//! This is the one place where a payload is printed, since that is its purpose. Confirmed means that the line
//! was written and flushed. There are no parameters.
//!
//! ```json
//! {"destination":{"name":"orders"},"id":"0192…","seq":7,"key":"42","type":"orders.order-created.v1",
//!  "content_type":"application/json","occurred_at":"2026-01-31T09:30:00Z","headers":{"ce_id":"0192…"},
//!  "payload":"{\"total\": 12}"}
//! ```
//! (on one line). A payload that is not UTF-8 stands under `payload_base64` instead.

mod classify;
mod connect;
mod line;
mod params;
mod publish;
mod writer;

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use outrider_broker::{Broker, Fault, Params, Plugin};

/// Opens what is written to; called once for each connection.
type Open = Arc<dyn Fn() -> Box<dyn Write + Send> + Send + Sync>;

/// The plugin to register.
#[derive(Clone)]
pub struct Stdout {
    open: Open,
}

impl Stdout {
    /// Prints to the process's standard output.
    pub fn new() -> Self {
        Stdout::writing_to(|| Box::new(std::io::stdout()))
    }

    /// Prints to what `open` gives instead. Writes may block: they happen on a thread of their own.
    pub fn writing_to(open: impl Fn() -> Box<dyn Write + Send> + Send + Sync + 'static) -> Self {
        Stdout { open: Arc::new(open) }
    }
}

impl Default for Stdout {
    fn default() -> Self {
        Stdout::new()
    }
}

impl fmt::Debug for Stdout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdout").finish_non_exhaustive()
    }
}

impl Plugin for Stdout {
    fn kind(&self) -> &'static str {
        "stdout"
    }

    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        params::check(params)?;
        Ok(Arc::new(connect::StdoutBroker::new(Arc::clone(&self.open))))
    }
}
