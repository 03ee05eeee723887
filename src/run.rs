//! `outrider run`: the assembly, in order. Port, metrics, actors; then it waits for a signal and for the end.

use std::process;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, System};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{error, info, warn};

use crate::actors::board::Board;
use crate::actors::exit::Exit;
use crate::actors::signals::Signals;
use crate::actors::supervisor::Supervisor;
use crate::api::{self, AdminError};
use crate::config::Config;
use crate::failpoints;
use crate::telemetry;

/// How much longer than the grace period the process waits for its actors before it ends without them.
const OVERDUE: Duration = Duration::from_secs(2);

/// Threads for I/O on a machine of any size: one that encodes must not keep another from renewing a lease.
const LEAST_THREADS: usize = 2;

/// The daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("start the I/O threads: {0}")]
    Runtime(#[source] std::io::Error),
    #[error("install the metrics: {0}")]
    Metrics(#[source] metrics_exporter_prometheus::BuildError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("listen for signals: {0}")]
    Signals(#[source] std::io::Error),
}

/// Runs until SIGTERM or SIGINT, then drains within `shutdown.grace`. A second signal ends the process at once, with
/// `at_once` as its exit code. Returns how the drain went.
///
/// # Errors
/// The daemon could not start; nothing was claimed.
pub fn run(config: Config, at_once: i32) -> Result<Exit, RunError> {
    let threads =
        std::thread::available_parallelism().map_or(LEAST_THREADS, |cores| cores.get().max(LEAST_THREADS));
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    // Shared: sockets and timers belong to these threads and outlive any actor.
    let runtime: Arc<Runtime> = Arc::new(runtime.map_err(RunError::Runtime)?);
    // Another part of the process may have chosen one before; any will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exit = System::with_tokio_rt(|| runtime.clone()).block_on(daemon(config, at_once));
    // Dropped, it would wait for blocking calls (a name that is looked up, a client that connects) as long as they take.
    if let Some(runtime) = Arc::into_inner(runtime) {
        runtime.shutdown_background();
    }
    exit
}

async fn daemon(config: Config, at_once: i32) -> Result<Exit, RunError> {
    let _armed = failpoints::arm();
    let recorder = telemetry::metrics::install().map_err(RunError::Metrics)?;
    let listener = api::bind(config.admin.listen).await?;
    announce(&config, &listener);
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;

    let grace = config.shutdown.grace;
    let board = Board::new();
    serve_admin(listener, board.clone(), recorder)?;
    let signals = Signals::new();
    let (done, mut ended) = oneshot::channel();
    // Held for the supervisor's life.
    let _supervisor = Supervisor::new(Arc::new(config), board, signals.clone(), done).start();

    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    info!(?grace, "draining; a second signal ends at once");
    signals.drain(grace);
    failpoints::reach("drain");
    let exit = tokio::select! {
        ended = &mut ended => ended.unwrap_or(Exit::Panicked),
        () = tokio::time::sleep(grace + OVERDUE) => Exit::CutShort,
        _ = terminate.recv() => process::exit(at_once),
        _ = interrupt.recv() => process::exit(at_once),
    };
    match exit {
        Exit::Drained => info!("drained"),
        Exit::CutShort => {
            warn!("not everything was finished within the grace period; leases give back the rest")
        }
        Exit::Panicked => warn!("an actor panicked while it drained; leases give back what it held"),
    }
    Ok(exit)
}

/// Answers on a thread of its own, until the process ends: it has to say who is stuck while all other threads are.
fn serve_admin(listener: TcpListener, board: Arc<Board>, recorder: PrometheusHandle) -> Result<(), RunError> {
    let listener = listener.into_std().map_err(RunError::Runtime)?;
    let runtime = Builder::new_current_thread().enable_all().build().map_err(RunError::Runtime)?;
    let handle = tokio::runtime::Handle::current();
    let serve = async move {
        tokio::spawn(keep_turning(handle));
        api::serve(TcpListener::from_std(listener)?, board, recorder).await
    };
    let thread = std::thread::Builder::new().name("admin".to_owned());
    thread
        .spawn(move || {
            if let Err(error) = runtime.block_on(serve) {
                error!("the admin port is gone: {error}");
            }
        })
        .map_err(RunError::Runtime)?;
    Ok(())
}

/// Wakes an idle I/O thread each second. A thread that blocks (a plugin that breaks its contract) may be the one that
/// waited for all sockets and timers, and tokio gives that to another only when there is something to run.
///
/// Runs on a runtime of its own, and for ever.
pub async fn keep_turning(runtime: tokio::runtime::Handle) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        runtime.spawn(async {});
    }
}

fn announce(config: &Config, listener: &TcpListener) {
    let admin =
        listener.local_addr().map_or_else(|_| config.admin.listen.to_string(), |address| address.to_string());
    let (tenants, brokers) = (config.tenants.len(), config.brokers.len());
    let (version, replica) = (env!("CARGO_PKG_VERSION"), &config.replica.name);
    info!(version, replica, tenants, brokers, admin, "outrider starts");
}
