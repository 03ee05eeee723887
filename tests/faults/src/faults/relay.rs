//! The relay dies: at named steps, by fail points that are compiled in, and at random times without them.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::scene::Scene;

/// Until a fail point has to have been reached.
const REACHED_WITHIN: Duration = Duration::from_secs(30);

/// SIGKILL, as a status has it.
const KILLED: i32 = 9;

/// Starts the first replica again with a fail point, waits until it has ended there, and starts it without.
async fn killed_at(scene: &mut Scene<'_>, point: &str, terminate: bool) -> Result<()> {
    scene.end(0).await?;
    scene.start(0, &[("FAILPOINTS", point)]).await?;
    if terminate {
        scene.running(0)?.terminate()?;
    }
    ended_there(scene, point).await?;
    scene.start(0, &[]).await
}

async fn ended_there(scene: &mut Scene<'_>, point: &str) -> Result<()> {
    let ended = tokio::time::timeout(REACHED_WITHIN, async {
        loop {
            if let Some(status) = scene.running(0)?.ended()? {
                return anyhow::Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let Ok(status) = ended.await else { bail!("reach the fail point `{point}` within {REACHED_WITHIN:?}") };
    let status = status?;
    ensure!(
        status.signal() == Some(KILLED),
        "end the relay at `{point}`: {status}; was the daemon built with the feature `failpoints`?"
    );
    scene.replicas[0].running = None;
    scene.hits += 1;
    Ok(())
}

pub(super) async fn killed_before_claim(scene: &mut Scene<'_>) -> Result<()> {
    killed_at(scene, "before-claim=30*off->return", false).await
}

pub(super) async fn killed_after_claim(scene: &mut Scene<'_>) -> Result<()> {
    killed_at(scene, "after-claim=10*off->return", false).await
}

pub(super) async fn killed_after_hand_over(scene: &mut Scene<'_>) -> Result<()> {
    killed_at(scene, "after-hand-over=10*off->return(1)", false).await
}

pub(super) async fn killed_after_confirm(scene: &mut Scene<'_>) -> Result<()> {
    killed_at(scene, "before-settle=10*off->return", false).await
}

pub(super) async fn killed_during_settle(scene: &mut Scene<'_>) -> Result<()> {
    killed_at(scene, "before-settle=10*off->return(1)", false).await
}

pub(super) async fn killed_after_settle(scene: &mut Scene<'_>) -> Result<()> {
    killed_at(scene, "after-settle=10*off->return", false).await
}

pub(super) async fn killed_during_drain(scene: &mut Scene<'_>) -> Result<()> {
    killed_at(scene, "drain=return(2)", true).await
}

/// The second replica is started anew, so that the first gives it its share.
pub(super) async fn killed_during_give(scene: &mut Scene<'_>) -> Result<()> {
    scene.end(1).await?;
    killed_at(scene, "give=return(1)", true).await?;
    scene.start(1, &[]).await
}

pub(super) async fn killed_at_random(scene: &mut Scene<'_>) -> Result<()> {
    for _ in 0..5 {
        let pause = scene.some_time();
        tokio::time::sleep(pause).await;
        scene.kill(0).await.context("kill at a random time")?;
        scene.start(0, &[]).await?;
    }
    Ok(())
}
