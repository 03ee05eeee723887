//! How a child says that its life ended. A child is told to end; it never ends because nobody holds its
//! address any more. Its [`ExitGuard`] reports in every case, also while it panics.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

/// Why a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was told to, and everything in hand was finished or given back.
    Drained,
    /// It was told to, and had to leave something to the lease: the time for it was over.
    CutShort,
    /// It panicked, or its task did.
    Panicked,
}

/// Which child.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChildId {
    /// Of one tenant, by name.
    Claimer(Arc<str>),
    /// Of one kind of broker.
    Publisher(Arc<str>),
    Janitor,
}

impl ChildId {
    /// Name of the role, for logs and metrics.
    pub fn role(&self) -> &'static str {
        match self {
            ChildId::Claimer(_) => "claimer",
            ChildId::Publisher(_) => "publisher",
            ChildId::Janitor => "janitor",
        }
    }

    /// The tenant or the kind; empty for the janitor.
    pub fn name(&self) -> &str {
        match self {
            ChildId::Claimer(name) | ChildId::Publisher(name) => name,
            ChildId::Janitor => "",
        }
    }
}

/// A child ended. Sent at most once per incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildExited {
    pub child: ChildId,
    /// Which life of it: a late word of an earlier one changes nothing.
    pub incarnation: u64,
    pub exit: Exit,
}

/// Held by a child for life; its drop is the report.
#[derive(Debug)]
pub struct ExitGuard {
    child: ChildId,
    incarnation: u64,
    exit: Exit,
    // Unbounded, for a drop can't wait; a child sends one message in its life.
    tell: UnboundedSender<ChildExited>,
}

impl ExitGuard {
    /// Until [`ExitGuard::set`] says otherwise, the end of this child is a panic.
    pub fn new(child: ChildId, incarnation: u64, tell: UnboundedSender<ChildExited>) -> Self {
        ExitGuard { child, incarnation, exit: Exit::Panicked, tell }
    }

    pub fn set(&mut self, exit: Exit) {
        self.exit = exit;
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        let exit = if std::thread::panicking() { Exit::Panicked } else { self.exit };
        // No receiver: the supervisor is gone, and with it the process.
        let _ =
            self.tell.send(ChildExited { child: self.child.clone(), incarnation: self.incarnation, exit });
    }
}
