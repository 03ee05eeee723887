//! Time: a deadline that has passed, a server that falls silent, the end of a connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use outrider_broker::{Broker, Connection, Outcome};

use crate::failure::{Failure, ensure};
use crate::proxy::{Mode, Proxy};
use crate::scene::{PATIENCE, SLACK, Scene, confirm_all, connect, publish, publish_now};

pub(crate) async fn expired(scene: &Scene<'_>) -> Result<(), Failure> {
    let place = scene.place().await?;
    let connection = scene.connect().await?;
    let late = place.messages(1, 50);
    not_sent(&publish(&*connection, &late, Instant::now()).await?)?;
    // They did not stay behind in the client either: only what comes now arrives.
    let sent = place.messages(100, 20);
    confirm_all(&*connection, &sent).await?;
    scene.compare(&place, &sent, 1..=1).await
}

/// Behind a proxy that stops passing bytes on, without closing anything.
pub(crate) async fn silence(scene: &Scene<'_>) -> Result<(), Failure> {
    let Some(server) = scene.harness.server_address() else { return Ok(()) };
    let proxy = Proxy::start(server).await.map_err(|error| Failure::new(format!("no proxy: {error}")))?;
    let Some(params) = scene.harness.params_through(proxy.address()) else {
        return Err(Failure::new("`server_address` needs `params_through`"));
    };
    let broker = scene.broker_with(params)?;
    let place = scene.place().await?;
    let connection = connect(&*broker).await?;
    confirm_all(&*connection, &place.messages(1, 5)).await?;

    proxy.set(Mode::BlackHole);
    let silent = place.messages(10, 10);
    let outcomes = publish(&*connection, &silent, Instant::now() + Duration::from_secs(2)).await?;
    for outcome in &outcomes {
        ensure!(
            matches!(outcome, Outcome::Unknown(_) | Outcome::NotSent(_)),
            "the server said nothing, and yet a message ended as {outcome:?}"
        );
    }
    let deadline = Instant::now() + Duration::from_secs(2);
    match tokio::time::timeout_at((deadline + SLACK).into(), connection.probe(deadline)).await {
        Ok(Ok(())) => return Err(Failure::new("a probe of a silent server succeeded")),
        Ok(Err(cause)) => crate::scene::presentable(&cause)?,
        Err(_) => return Err(Failure::new("a probe of a silent server did not end by its deadline")),
    }

    proxy.set(Mode::Pass);
    proxy.cut();
    let connection = recovered(&*broker, connection).await?;
    confirm_all(&*connection, &place.messages(30, 5)).await
}

/// Probes until the connection has healed itself, or makes a new one where it says that it can't.
async fn recovered(
    broker: &dyn Broker,
    mut connection: Arc<dyn Connection>,
) -> Result<Arc<dyn Connection>, Failure> {
    let until = Instant::now() + 2 * PATIENCE;
    loop {
        if !connection.alive() {
            connection.close(Instant::now() + Duration::from_secs(1)).await;
            connection = connect(broker).await?;
        }
        let Err(cause) = connection.probe(Instant::now() + Duration::from_secs(2)).await else {
            return Ok(connection);
        };
        ensure!(
            Instant::now() < until,
            "the server is back, and the connection is neither working nor said to be over: {cause}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn close(scene: &Scene<'_>) -> Result<(), Failure> {
    let place = scene.place().await?;
    let connection = scene.connect().await?;
    let sent = place.messages(1, 20);
    confirm_all(&*connection, &sent).await?;
    close_in_time(&*connection).await?;
    ensure!(!connection.alive(), "a closed connection says that it is alive");

    let begun = Instant::now();
    not_sent(&publish_now(&*connection, &place.messages(100, 20)).await?)?;
    ensure!(begun.elapsed() < SLACK, "publishing on a closed connection took {:?}", begun.elapsed());

    let probe = tokio::time::timeout(SLACK, connection.probe(Instant::now() + PATIENCE)).await;
    ensure!(matches!(probe, Ok(Err(_))), "a probe of a closed connection succeeded or waited: {probe:?}");
    close_in_time(&*connection).await?;
    scene.compare(&place, &sent, 1..=1).await
}

async fn close_in_time(connection: &dyn Connection) -> Result<(), Failure> {
    let deadline = Instant::now() + PATIENCE;
    let closed = tokio::time::timeout_at((deadline + SLACK).into(), connection.close(deadline)).await;
    closed.map_err(|_| Failure::new(format!("close had not returned {SLACK:?} after its deadline")))
}

fn not_sent(outcomes: &[Outcome]) -> Result<(), Failure> {
    for outcome in outcomes {
        ensure!(
            matches!(outcome, Outcome::NotSent(_)),
            "a message that can't have left ended as {outcome:?}"
        );
    }
    Ok(())
}
