//! The live connection: what publishing, probing and closing share.
//!
//! Must not: reconnect. A connection that broke, or that was killed to throw away what it held, says so by
//! [`Link::is_alive`], and outrider makes another one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::join;
use futures_util::{Stream, StreamExt};
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, Event};
use outrider_broker::{Cause, Connection, ErrorClass, Message, Outcome};
use tokio::sync::watch;
use tokio::time::{timeout, timeout_at};
use uuid::Uuid;

use crate::flight::Times;
use crate::params::Settings;
use crate::pool::{self, Pool};
use crate::socket::Socket;
use crate::wire::Limits;
use crate::{classify, publish};

/// Names remembered at most, of exchanges and of suspects. Routes name a handful of exchanges; a template with the
/// event's key in it could name any number. Past it everything is learned again.
const MAX_REMEMBERED: usize = 4096;

const REPLY_SUCCESS: u16 = 200;

/// Messages that were on a channel when it closed for a reason that names none of them. Each travels alone the
/// next time, so that the one to blame is found. Kept for a configured broker, over its connections.
#[derive(Debug, Default)]
pub(crate) struct Suspects(Mutex<HashSet<Uuid>>);

impl Suspects {
    pub(crate) fn contains(&self, id: &Uuid) -> bool {
        lock(&self.0).contains(id)
    }

    pub(crate) fn add(&self, id: Uuid) {
        let mut suspects = lock(&self.0);
        if suspects.len() < MAX_REMEMBERED {
            suspects.insert(id);
        }
    }

    pub(crate) fn clear_of_suspicion(&self, id: &Uuid) {
        lock(&self.0).remove(id);
    }
}

pub(crate) struct Link {
    pub(crate) settings: Arc<Settings>,
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) connection: Arc<lapin::Connection>,
    pub(crate) socket: Arc<Socket>,
    pub(crate) pool: Pool,
    /// Why the broker has blocked publishers, while it has.
    blocked: watch::Receiver<Option<String>>,
    /// Exchanges to which the broker let this connection publish.
    proven: Mutex<HashSet<String>>,
    /// The broker's size limit in bytes, once it named it; 0 before.
    size_limit: AtomicUsize,
    closed: AtomicBool,
    /// How long a channel may take to close before its connection counts as dead.
    patience: Duration,
}

impl Link {
    pub(crate) fn new(
        settings: Arc<Settings>,
        suspects: Arc<Suspects>,
        connection: lapin::Connection,
        socket: Arc<Socket>,
        first: Channel,
        patience: Duration,
    ) -> Self {
        let blocked = watch_blocked(connection.events_listener());
        Link {
            settings,
            suspects,
            connection: Arc::new(connection),
            socket,
            pool: Pool::new(first),
            blocked,
            proven: Mutex::default(),
            size_limit: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            patience,
        }
    }

    fn is_alive(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.socket.is_open() && self.connection.status().connected()
    }

    /// Why nothing can be published at the moment, if so.
    pub(crate) fn trouble(&self) -> Option<Cause> {
        if self.closed.load(Ordering::Acquire) {
            return Some(Cause::broker(ErrorClass::Local, "the connection was closed by outrider"));
        }
        if !self.is_alive() {
            let text = format!("the connection to `{}` is gone", self.settings.server());
            return Some(Cause::broker(ErrorClass::Unreachable, text));
        }
        self.blocked()
    }

    /// That the broker has blocked publishers, while it has.
    fn blocked(&self) -> Option<Cause> {
        let reason = self.blocked.borrow().clone();
        let reason = reason.or_else(|| self.connection.status().blocked().then(String::new))?;
        let text = format!(
            "the broker has blocked publishers (`{reason}`): free its memory or disk, or raise the limit"
        );
        Some(Cause::broker(ErrorClass::Blocked, text))
    }

    /// Why an answer did not come in time.
    pub(crate) fn stall(&self) -> Cause {
        self.blocked().unwrap_or_else(|| {
            Cause::broker(ErrorClass::Timeout, format!("`{}` did not answer in time", self.settings.server()))
        })
    }

    pub(crate) fn limits(&self) -> Limits {
        let named = Some(self.size_limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0);
        Limits {
            payload: self.settings.max_message_bytes.into_iter().chain(named).min(),
            frame: self.connection.configuration().frame_max().try_into().unwrap_or(usize::MAX),
        }
    }

    pub(crate) fn learn_size_limit(&self, limit: usize) {
        self.size_limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn is_proven(&self, exchange: &str) -> bool {
        lock(&self.proven).contains(exchange)
    }

    pub(crate) fn prove(&self, exchange: &str) {
        let mut proven = lock(&self.proven);
        if !proven.contains(exchange) {
            if proven.len() >= MAX_REMEMBERED {
                proven.clear();
            }
            proven.insert(exchange.to_owned());
        }
    }

    /// Forgets that an exchange was proven.
    pub(crate) fn doubt(&self, exchange: &str) {
        lock(&self.proven).remove(exchange);
    }

    /// Whether the broker answers by `last`, on a channel that nothing can hold up.
    pub(crate) async fn answers(&self, last: Instant) -> bool {
        match timeout_at(last.into(), pool::open(&self.connection)).await {
            Ok(Ok(channel)) => {
                self.pool.keep(channel);
                true
            }
            _ => false,
        }
    }

    /// Closes a channel with answers outstanding on it, so that they turn up nowhere. A channel can be held up by
    /// one queue; a broker that does not open another one either is gone, and with it the connection.
    pub(crate) fn retire(&self, channel: Channel) {
        if !channel.status().connected() {
            return;
        }
        let (connection, socket) = (Arc::clone(&self.connection), Arc::clone(&self.socket));
        let patience = self.patience;
        tokio::spawn(async move {
            let closing = timeout(patience, channel.close(REPLY_SUCCESS, "OK".into()));
            let opening = timeout(patience, pool::open(&connection));
            if let (Err(_), Err(_)) = join(closing, opening).await {
                tracing::debug!(
                    "the broker neither closed a channel nor opened one in time; ending the connection"
                );
                socket.kill();
            }
        });
    }

    /// Publishes an empty message that no queue is there for, and waits for its confirm: the only question that a
    /// broker which has blocked publishers does not answer, on a connection too new to have been told.
    async fn ask(&self) -> Result<(), Cause> {
        let channel = pool::open(&self.connection).await.map_err(|error| classify::cause(&error))?;
        let nowhere = format!("outrider-probe-{}", Uuid::new_v4());
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let published =
            channel.basic_publish("".into(), nowhere.into(), options, &[], BasicProperties::default()).await;
        let answer = match published {
            Ok(confirm) => confirm.await.map(|_| ()),
            Err(error) => Err(error),
        };
        match answer {
            // A user who may not publish to the default exchange gets an answer, too.
            Err(error) if !error.is_amqp_soft_error() => Err(classify::cause(&error)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Connection for Link {
    async fn publish(&self, batch: Vec<Message>, deadline: Instant) -> Vec<Outcome> {
        publish::publish(self, &batch, deadline).await
    }

    async fn probe(&self, deadline: Instant) -> Result<(), Cause> {
        if let Some(cause) = self.trouble() {
            return Err(cause);
        }
        let mut blocked = self.blocked.clone();
        tokio::select! {
            answer = timeout_at(Times::until(deadline).cut.into(), self.ask()) => match answer {
                // It may take the first message and block with it; that is said before the confirm.
                Ok(answer) => answer.and_then(|()| self.blocked().map_or(Ok(()), Err)),
                Err(_) => {
                    let cause = self.stall();
                    self.socket.kill();
                    Err(cause)
                }
            },
            // The sender lives as long as the connection does; without it `ask` fails by itself.
            Ok(_) = blocked.wait_for(Option::is_some) => Err(self.stall()),
        }
    }

    fn alive(&self) -> bool {
        self.is_alive()
    }

    async fn close(&self, deadline: Instant) {
        let was_alive = self.is_alive();
        self.closed.store(true, Ordering::Release);
        // While blocked the library writes nothing, not even its goodbye.
        if was_alive && self.blocked().is_none() {
            let closing = self.connection.close(REPLY_SUCCESS, "OK".into());
            if let Ok(Ok(())) = timeout_at(Times::until(deadline).cut.into(), closing).await {
                self.socket.release();
            }
        }
        self.socket.kill();
    }
}

/// A connection that nobody closed must not hold on to its thread, or send what it still holds.
impl Drop for Link {
    fn drop(&mut self) {
        self.socket.kill();
    }
}

fn watch_blocked(events: impl Stream<Item = Event> + Send + 'static) -> watch::Receiver<Option<String>> {
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            match event {
                Event::ConnectionBlocked(reason) => sender.send_replace(Some(reason)),
                Event::ConnectionUnblocked => sender.send_replace(None),
                _ => continue,
            };
        }
    });
    receiver
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
