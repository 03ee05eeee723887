//! The admin port: `/metrics`, `/healthz` and `/readyz`. Reads what others wrote; no request waits for a database or a
//! broker.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;

use crate::actors::board::Board;

/// What the routes read.
#[derive(Clone)]
struct Seen {
    board: Arc<Board>,
    metrics: PrometheusHandle,
}

/// The admin port can't be opened.
#[derive(Debug, thiserror::Error)]
#[error("listen on `{address}` for the admin port: {source}; set another `admin.listen`")]
pub struct AdminError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Opens the port, so that a taken one is known before anything starts.
///
/// # Errors
/// The address can't be listened on.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, AdminError> {
    TcpListener::bind(address).await.map_err(|source| AdminError { address, source })
}

/// Serves until dropped.
pub async fn serve(
    listener: TcpListener,
    board: Arc<Board>,
    metrics: PrometheusHandle,
) -> std::io::Result<()> {
    let seen = Seen { board, metrics };
    let routes = Router::new()
        .route("/metrics", get(metrics_text))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(seen);
    axum::serve(listener, routes).await
}

async fn metrics_text(State(seen): State<Seen>) -> impl IntoResponse {
    seen.metrics.run_upkeep();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], seen.metrics.render())
}

/// 200 while the process makes progress, whatever databases and brokers do; 503 and who is stuck otherwise.
async fn healthz(State(seen): State<Seen>) -> (StatusCode, String) {
    answer(seen.board.health())
}

/// 200 while at least one tenant works; 503 and the reasons otherwise.
async fn readyz(State(seen): State<Seen>) -> (StatusCode, String) {
    answer(seen.board.ready())
}

fn answer(result: Result<(), String>) -> (StatusCode, String) {
    match result {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}
