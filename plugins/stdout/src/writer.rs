//! The thread that writes: a pipe that nobody reads blocks a writer for ever, which must not be a runtime's thread.
//!
//! The queue holds one batch beside the one being written; a publisher waits for a place in it. The thread ends
//! with the [`Writer`], or when a write that hangs comes back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::{mpsc, oneshot};

use crate::Open;

const WAITING: u8 = 0;
const WRITING: u8 = 1;
const WITHDRAWN: u8 = 2;

/// Decides, for one batch, between the thread that is about to write and the publisher that gives up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claim(Arc<AtomicU8>);

impl Claim {
    /// False: the publisher gave up first, and nothing may be written.
    fn write(&self) -> bool {
        self.0.compare_exchange(WAITING, WRITING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// False: writing has begun, and it is unknown how far it got.
    pub(crate) fn withdraw(&self) -> bool {
        self.0.compare_exchange(WAITING, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A batch's lines on their way to the thread.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) lines: Vec<u8>,
    pub(crate) claim: Claim,
    pub(crate) done: oneshot::Sender<io::Result<()>>,
}

/// Sends jobs to the thread.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(crate) fn start(open: Open) -> io::Result<Writer> {
        let (jobs, queue) = mpsc::channel(1);
        std::thread::Builder::new().name("outrider-stdout".to_owned()).spawn(move || run(&open, queue))?;
        Ok(Writer { jobs })
    }

    /// Waits for a place in the queue. Cancel safe. An error: the thread is gone.
    pub(crate) async fn send(&self, job: Job) -> Result<(), Job> {
        self.jobs.send(job).await.map_err(|error| error.0)
    }
}

fn run(open: &Open, mut queue: mpsc::Receiver<Job>) {
    let mut output = open();
    while let Some(job) = queue.blocking_recv() {
        if !job.claim.write() {
            continue;
        }
        let written = output.write_all(&job.lines).and_then(|()| output.flush());
        // Nobody waits any more when the deadline has passed.
        let _ = job.done.send(written);
    }
}
