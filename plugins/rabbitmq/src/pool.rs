//! Channels in confirm mode, opened on demand and kept for the next batch, and how many batches run at once.
//!
//! Invariant: a channel comes back only when every confirm on it is in, so that no answer of an earlier batch
//! can turn up among a later one's. Must not: publish.

use std::sync::{Mutex, MutexGuard, PoisonError};

use lapin::options::ConfirmSelectOptions;
use lapin::{Channel, Connection, Error};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Batches at once on one connection, channels that one batch may use at once, and idle channels that are kept. A
/// batch is up to some hundred messages on one channel, so this keeps more in flight than the rate of one
/// connection needs; twice as many would only cost the broker memory.
pub(crate) const MAX_CHANNELS: usize = 16;

#[derive(Debug)]
pub(crate) struct Pool {
    batches: Semaphore,
    idle: Mutex<Vec<Channel>>,
}

impl Pool {
    pub(crate) fn new(first: Channel) -> Self {
        Pool { batches: Semaphore::new(MAX_CHANNELS), idle: Mutex::new(vec![first]) }
    }

    /// Waits until one more batch may run; it does until the permit is dropped.
    pub(crate) async fn admit(&self) -> SemaphorePermit<'_> {
        self.batches.acquire().await.expect("the semaphore is never closed")
    }

    /// An idle channel, or a new one. Not bounded in time.
    pub(crate) async fn take(&self, connection: &Connection) -> Result<Channel, Error> {
        loop {
            let idle = self.idle().pop();
            match idle {
                Some(channel) if channel.status().connected() => return Ok(channel),
                Some(_) => {}
                None => return open(connection).await,
            }
        }
    }

    /// Keeps a channel for the next batch. Only when every confirm on it is in.
    pub(crate) fn keep(&self, channel: Channel) {
        let mut idle = self.idle();
        if channel.status().connected() && idle.len() < MAX_CHANNELS {
            idle.push(channel);
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a channel and selects confirms on it. A channel without them would answer each publish at once, with
/// nothing in it.
pub(crate) async fn open(connection: &Connection) -> Result<Channel, Error> {
    let channel = connection.create_channel().await?;
    sync(&channel).await?;
    Ok(channel)
}

/// Selects confirms, which may be done over and over: the answer says that the broker has processed everything that
/// was written on the channel before, and did not close it over that.
pub(crate) async fn sync(channel: &Channel) -> Result<(), Error> {
    channel.confirm_select(ConfirmSelectOptions { nowait: false }).await
}
