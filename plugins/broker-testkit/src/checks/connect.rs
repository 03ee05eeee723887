//! Connecting: bounded, truthful about why not, and never a secret in a text.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use outrider_broker::{ErrorClass, Params, Scope};
use tokio::net::TcpListener;

use crate::MARKER;
use crate::failure::{Failure, ensure};
use crate::scene::{PATIENCE, SLACK, Scene, presentable};

/// Short, so that a plugin that ignores it is told from one that is merely slow.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) async fn unreachable(scene: &Scene<'_>) -> Result<(), Failure> {
    if let Some(params) = scene.harness.params_at(closed_port().await?) {
        refused(scene, params, TIMEOUT, &[ErrorClass::Unreachable, ErrorClass::Timeout]).await?;
    }
    // Accepts (the backlog does), and never says a word.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.map_err(io)?;
    if let Some(params) = scene.harness.params_at(silent.local_addr().map_err(io)?) {
        refused(scene, params, TIMEOUT, &[ErrorClass::Unreachable, ErrorClass::Timeout]).await?;
    }
    Ok(())
}

pub(crate) async fn wrong_credentials(scene: &Scene<'_>) -> Result<(), Failure> {
    match scene.harness.params_with_wrong_credentials() {
        Some(params) => refused(scene, params, PATIENCE, &[ErrorClass::Authentication]).await,
        None => Ok(()),
    }
}

pub(crate) async fn probe(scene: &Scene<'_>) -> Result<(), Failure> {
    let connection = scene.connect().await?;
    ensure!(connection.alive(), "a new connection is not alive");
    let deadline = Instant::now() + PATIENCE;
    match tokio::time::timeout_at((deadline + SLACK).into(), connection.probe(deadline)).await {
        Ok(Ok(())) => {}
        Ok(Err(cause)) => return Err(Failure::new(format!("a probe of a live server failed: {cause}"))),
        Err(_) => return Err(Failure::new("a probe did not end by its deadline")),
    }
    connection.close(Instant::now() + PATIENCE).await;
    Ok(())
}

async fn refused(
    scene: &Scene<'_>,
    params: Params,
    timeout: Duration,
    classes: &[ErrorClass],
) -> Result<(), Failure> {
    let broker = scene.broker_with(params)?;
    let connecting = broker.connect(Scene::options(timeout));
    let Ok(connected) = tokio::time::timeout(timeout + SLACK, connecting).await else {
        return Err(Failure::new(format!(
            "connect had not returned {SLACK:?} after its timeout of {timeout:?}"
        )));
    };
    let Err(error) = connected else {
        return Err(Failure::new("connected to a server that is not there or refuses the credentials"));
    };
    presentable(&error.0)?;
    ensure!(!format!("{error:?}").contains(MARKER), "the error's `Debug` shows a password");
    ensure!(error.0.scope == Scope::Broker, "scope {:?} instead of the broker's: {error}", error.0.scope);
    ensure!(
        classes.contains(&error.0.class),
        "class {:?}, expected one of {classes:?}: {error}",
        error.0.class
    );
    Ok(())
}

/// A loopback port that was free a moment ago.
async fn closed_port() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(io)?;
    listener.local_addr().map_err(io)
}

fn io(error: std::io::Error) -> Failure {
    Failure::new(format!("no loopback port to test with: {error}"))
}
