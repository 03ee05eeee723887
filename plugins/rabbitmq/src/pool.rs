//! Channels in confirm mode: a bounded number, opened on demand, each used by one batch at a time.
//!
//! Invariant: a channel comes back only when every confirm on it is in, so that no answer of an earlier batch
//! can turn up among a later one's. Must not: publish.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection, Error};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Channels on one connection, and so batches at once. A batch is up to some hundred messages, so this keeps more
/// in flight than the rate of one connection needs; twice as many would only cost the broker memory.
pub(crate) const MAX_CHANNELS: usize = 16;

#[derive(Debug)]
pub(crate) struct Pool {
    permits: Semaphore,
    idle: Mutex<Vec<Channel>>,
}

impl Pool {
    pub(crate) fn new(first: Channel) -> Self {
        Pool { permits: Semaphore::new(MAX_CHANNELS), idle: Mutex::new(vec![first]) }
    }

    /// Waits for the right to use a channel.
    pub(crate) async fn lease<'a>(&'a self, connection: &'a Connection) -> Lease<'a> {
        let permit = self.permits.acquire().await.expect("the semaphore is never closed");
        Lease { pool: self, connection, channel: None, _permit: permit }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to use one channel at a time. What is left in it when it is dropped closes.
#[derive(Debug)]
pub(crate) struct Lease<'a> {
    pool: &'a Pool,
    connection: &'a Connection,
    channel: Option<Channel>,
    _permit: SemaphorePermit<'a>,
}

impl Lease<'_> {
    /// The leased channel, an idle one, or a new one. Not bounded in time.
    pub(crate) async fn channel(&mut self) -> Result<Channel, Error> {
        let channel = match self.channel.take().or_else(|| self.pool.idle().pop()) {
            Some(channel) if channel.status().connected() => channel,
            _ => open(self.connection).await?,
        };
        self.channel = Some(channel.clone());
        Ok(channel)
    }

    /// Takes the channel out of use.
    pub(crate) fn give_up(&mut self) -> Option<Channel> {
        self.channel.take()
    }

    /// Puts the channel back for the next batch. Only when every confirm on it is in.
    pub(crate) fn give_back(mut self) {
        if let Some(channel) = self.channel.take()
            && channel.status().connected()
        {
            self.pool.idle().push(channel);
        }
    }
}

/// Opens a channel and selects confirms on it. A channel without them would answer each publish at once, with
/// nothing in it.
pub(crate) async fn open(connection: &Connection) -> Result<Channel, Error> {
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions { nowait: false }).await?;
    Ok(channel)
}
