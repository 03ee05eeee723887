//! Where a connection's client lives, and how it ends.
//!
//! The client's tasks run on a thread and runtime of their own. The client can't be told to give up what it
//! holds: after a lost connection it connects again for as long as it takes and then sends what it had queued,
//! long after whoever handed it over has gone on. Ending the runtime ends its tasks at once, with the queue;
//! every acknowledgement that is waited for fails in the same moment, and nothing leaves afterwards.
//!
//! So a connection lives once, until it is lost or closed. Must not reconnect: outrider makes a new one.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Event, ServerError};
use outrider_broker::{Cause, ErrorClass};
use tokio::runtime::Handle;
use tokio::sync::{broadcast, oneshot, watch};

use crate::complaint::{self, Complaint};

/// Time for the server's last words to come through the client's event queue after it noticed that the
/// connection is gone. They are there already; without the bound a lost event would keep the client alive.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// Longer than [`LAST_WORDS`] by far, so that the client is gone before it would connect again.
pub(crate) const NO_RECONNECT: Duration = Duration::from_secs(60);

/// Subjects remembered for those who are slow to hear that they may not publish there.
const DENIALS: usize = 1024;

#[derive(Clone, Debug)]
enum Phase {
    Live,
    /// No longer usable, for this reason; tasks may still run.
    Ending(Cause),
    /// Its thread, its tasks and their queue are gone.
    Ended(Cause),
}

/// State of one connection, shared between its thread, its callbacks and those who publish.
#[derive(Debug)]
pub(crate) struct Life {
    phase: watch::Sender<Phase>,
    /// What the server complained about last.
    said: Mutex<Option<ServerError>>,
    denials: broadcast::Sender<Arc<str>>,
}

impl Life {
    fn new() -> Life {
        Life {
            phase: watch::Sender::new(Phase::Live),
            said: Mutex::new(None),
            denials: broadcast::Sender::new(DENIALS),
        }
    }

    /// Ends the connection. The first reason counts.
    pub(crate) fn end(&self, cause: Cause) {
        self.phase.send_if_modified(|phase| {
            let live = matches!(phase, Phase::Live);
            if live {
                *phase = Phase::Ending(cause);
            }
            live
        });
    }

    /// Why the connection is over, or `None` while it lives.
    pub(crate) fn cause(&self) -> Option<Cause> {
        match &*self.phase.borrow() {
            Phase::Live => None,
            Phase::Ending(cause) | Phase::Ended(cause) => Some(cause.clone()),
        }
    }

    /// Waits until nothing of the client is left. Cancel safe.
    pub(crate) async fn ended(&self) {
        self.reached(|phase| matches!(phase, Phase::Ended(_))).await;
    }

    async fn reached(&self, fits: impl FnMut(&Phase) -> bool) {
        // Can't fail: `self` holds the sender.
        let _ = self.phase.subscribe().wait_for(fits).await;
    }

    /// Subjects that the server refuses to take from this user, from now on.
    pub(crate) fn denials(&self) -> Denials {
        Denials(self.denials.subscribe())
    }

    /// Called with each of the client's events, in their order.
    pub(crate) fn hear(&self, event: Event) {
        match event {
            Event::ServerError(error) => match complaint::complaint(&error) {
                // No receiver means that nobody waits for an acknowledgement.
                Complaint::MayNotPublish(subject) => drop(self.denials.send(subject.into())),
                Complaint::MayNotSubscribe(subject) => self.end(complaint::no_inbox(&subject)),
                Complaint::Other => *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(error),
            },
            Event::Disconnected | Event::Closed => self.end_lost(),
            Event::Connected
            | Event::LameDuckMode
            | Event::Draining
            | Event::SlowConsumer(_)
            | Event::ClientError(_) => {}
        }
    }

    /// Called on the client's runtime, by the client itself, when it lost the connection. Unlike an event this
    /// can't get lost.
    pub(crate) fn lose(self: &Arc<Self>) {
        let life = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(LAST_WORDS).await;
            life.end_lost();
        });
    }

    fn end_lost(&self) {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.end(complaint::lost(said.as_ref()));
    }
}

/// Subjects that the server refused, as it names them.
#[derive(Debug)]
pub(crate) struct Denials(broadcast::Receiver<Arc<str>>);

impl Denials {
    /// The next one. Never returns once the connection is dropped. A reader that is too slow misses some: nothing
    /// else answers a message to such a subject, and it becomes overdue. Cancel safe.
    pub(crate) async fn next(&mut self) -> Arc<str> {
        loop {
            match self.0.recv().await {
                Ok(subject) => return subject,
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
            }
        }
    }
}

/// The thread of one client. Dropping it ends the client.
#[derive(Debug)]
pub(crate) struct Home {
    runtime: Handle,
    pub(crate) life: Arc<Life>,
}

impl Home {
    /// Starts the thread. Errors are the operating system's: no thread, no file descriptors.
    pub(crate) async fn start() -> io::Result<Home> {
        let life = Arc::new(Life::new());
        let (started, starting) = oneshot::channel();
        let lived = Arc::clone(&life);
        std::thread::Builder::new().name("outrider-nats".to_owned()).spawn(move || live(&lived, started))?;
        let runtime = starting.await.map_err(io::Error::other)??;
        Ok(Home { runtime, life })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.life.end(Cause::broker(ErrorClass::Local, "the connection was dropped"));
    }
}

/// The thread's whole life.
fn live(life: &Life, started: oneshot::Sender<io::Result<Handle>>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(started.send(Err(error))),
    };
    if started.send(Ok(runtime.handle().clone())).is_ok() {
        runtime.block_on(life.reached(|phase| !matches!(phase, Phase::Live)));
    }
    // Drops every task. A name lookup that blocks may go on for a while and is not waited for.
    runtime.shutdown_background();
    life.phase.send_modify(|phase| {
        if let Phase::Ending(cause) = phase {
            *phase = Phase::Ended(cause.clone());
        }
    });
}

#[cfg(test)]
mod tests {
    use outrider_broker::Scope;

    use super::*;

    fn said(text: &str) -> Event {
        Event::ServerError(ServerError::Other(text.to_owned()))
    }

    /// The server's last words explain the end, whichever of the client's two signs comes first.
    #[tokio::test]
    async fn last_words() {
        for by_event in [true, false] {
            let life = Arc::new(Life::new());
            life.lose();
            life.hear(said("Maximum Payload Violation"));
            if by_event {
                life.hear(Event::Disconnected);
            } else {
                assert!(life.cause().is_none());
                life.reached(|phase| !matches!(phase, Phase::Live)).await;
            }
            let cause = life.cause().unwrap();
            assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Unreachable));
            assert!(cause.text.contains("`Maximum Payload Violation`"), "{cause}");
        }
    }

    #[tokio::test]
    async fn permissions() {
        let life = Life::new();
        let mut denials = life.denials();
        life.hear(said(r#"Permissions Violation for Publish to "a.b""#));
        assert_eq!(&*denials.next().await, "a.b");
        assert!(life.cause().is_none());
        life.hear(said(r#"Permissions Violation for Subscription to "_INBOX.x.*""#));
        assert_eq!(life.cause().unwrap().class, ErrorClass::Authorization);
        // The first reason stays.
        life.hear(Event::Disconnected);
        assert_eq!(life.cause().unwrap().class, ErrorClass::Authorization);
    }

    /// Invariant: a connection that ends takes every task of its client with it.
    #[tokio::test]
    async fn the_end_is_the_end_of_every_task() {
        let home = Home::start().await.unwrap();
        let life = Arc::clone(&home.life);
        let task = home.runtime().spawn(std::future::pending::<()>());
        drop(home);
        life.ended().await;
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(life.cause().unwrap().class, ErrorClass::Local);
    }
}
