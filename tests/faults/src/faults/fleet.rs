//! Two replicas, of which one stands still, dies, is cut off or has another time.

use std::time::Duration;

use anyhow::{Context, Result};
use outrider_servers::Install;
use outrider_test_support::daemon::Running;
use outrider_test_support::proxy::Mode;

use crate::ground::{BROKERS, Kind};
use crate::scene::Scene;

/// Twice the lease.
const PAST_LEASE: Duration = Duration::from_secs(12);

/// Several leases.
const CUT_OFF: Duration = Duration::from_secs(20);

pub(super) async fn paused_past_lease(scene: &Scene) -> Result<()> {
    // Each owns some tenant's lane, so both take their turn.
    for number in 0..2 {
        scene.replicas[number].with(Running::pause).await?;
        tokio::time::sleep(PAST_LEASE).await;
        scene.replicas[number].with(Running::resume).await?;
        scene.hit();
        scene.caught_up().await?;
    }
    Ok(())
}

pub(super) async fn late_failures(scene: &Scene) -> Result<()> {
    for number in 0..2 {
        BROKERS.into_iter().for_each(|kind| scene.way(number, kind, Mode::BlackHole));
        // Handed over, and not at their deadline yet.
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.replicas[number].with(Running::pause).await?;
        tokio::time::sleep(PAST_LEASE).await;
        scene.replicas[number].with(Running::resume).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        BROKERS.into_iter().for_each(|kind| scene.way(number, kind, Mode::Pass));
        scene.hit();
        scene.caught_up().await?;
    }
    scene.expect_fenced();
    Ok(())
}

pub(super) async fn one_killed(scene: &Scene) -> Result<()> {
    scene.kill(0).await?;
    scene.caught_up().await.context("go on with one replica")?;
    scene.start(0, &[]).await
}

pub(super) async fn rolling_restart(scene: &Scene) -> Result<()> {
    for number in 0..2 {
        scene.end(number).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        scene.start(number, &[]).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    Ok(())
}

pub(super) async fn both_at_once(scene: &Scene) -> Result<()> {
    for number in 0..2 {
        scene.kill(number).await?;
    }
    for number in 0..2 {
        scene.launch(number, &[]).await?;
    }
    for replica in &scene.replicas {
        replica.ready().await?;
    }
    Ok(())
}

pub(super) async fn cut_from_database(scene: &Scene) -> Result<()> {
    scene.way(0, Kind::Postgres, Mode::BlackHole);
    tokio::time::sleep(CUT_OFF).await;
    scene.caught_up().await.context("go on with one replica")?;
    scene.way(0, Kind::Postgres, Mode::Pass);
    scene.hit();
    Ok(())
}

pub(super) async fn cut_from_brokers(scene: &Scene) -> Result<()> {
    BROKERS.into_iter().for_each(|kind| scene.way(0, kind, Mode::BlackHole));
    tokio::time::sleep(CUT_OFF).await;
    BROKERS.into_iter().for_each(|kind| scene.way(0, kind, Mode::Pass));
    scene.hit();
    Ok(())
}

pub(super) async fn clock_ahead(scene: &Scene) -> Result<()> {
    another_time(scene, "+5m").await
}

pub(super) async fn clock_behind(scene: &Scene) -> Result<()> {
    another_time(scene, "-5m").await
}

/// Nothing may change, so nothing is allowed: not one copy.
async fn another_time(scene: &Scene, offset: &str) -> Result<()> {
    let library = Install::locate().faketime();
    let library = library.context("find libfaketime (Debian: apt-get install libfaketime)")?;
    let library = library.display().to_string();
    let variables = [
        ("LD_PRELOAD", library.as_str()),
        ("FAKETIME", offset),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ("FAKETIME_DISABLE_SHM", "1"),
    ];
    scene.end(0).await?;
    scene.start(0, &variables).await?;
    tokio::time::sleep(PAST_LEASE).await;
    scene.end(0).await?;
    scene.start(0, &[]).await
}
