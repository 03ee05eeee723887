//! The relay dies: at named steps, by fail points that are compiled in, and at random times without them.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::scene::Scene;

/// Until a fail point has to have been reached.
const REACHED_WITHIN: Duration = Duration::from_secs(60);

/// SIGKILL, as a status has it.
const KILLED: i32 = 9;

/// Starts the first replica again with a fail point, waits until it has ended there, and starts it without.
async fn killed_at(scene: &Scene, point: &str, terminate: bool) -> Result<()> {
    scene.end(0).await?;
    scene.launch(0, &[("FAILPOINTS", point)]).await?;
    scene.replicas[0].let_end();
    if terminate {
        scene.replicas[0].ready().await?;
        scene.replicas[0].with(|running| running.terminate()).await?;
    }
    ended_there(scene, point).await?;
    scene.start(0, &[]).await
}

async fn ended_there(scene: &Scene, point: &str) -> Result<()> {
    let ended = tokio::time::timeout(REACHED_WITHIN, async {
        loop {
            if let Some(status) = scene.replicas[0].ended().await? {
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
    scene.hit();
    Ok(())
}

pub(super) async fn killed_before_claim(scene: &Scene) -> Result<()> {
    killed_at(scene, "before-claim=30*off->return", false).await
}

pub(super) async fn killed_after_claim(scene: &Scene) -> Result<()> {
    killed_at(scene, "after-claim=10*off->return", false).await
}

pub(super) async fn killed_after_hand_over(scene: &Scene) -> Result<()> {
    killed_at(scene, "after-hand-over=10*off->return(1)", false).await
}

pub(super) async fn killed_after_confirm(scene: &Scene) -> Result<()> {
    killed_at(scene, "before-settle=10*off->return", false).await
}

pub(super) async fn killed_during_settle(scene: &Scene) -> Result<()> {
    killed_at(scene, "before-settle=10*off->return(1)", false).await
}

pub(super) async fn killed_after_settle(scene: &Scene) -> Result<()> {
    killed_at(scene, "after-settle=10*off->return", false).await
}

pub(super) async fn killed_during_drain(scene: &Scene) -> Result<()> {
    killed_at(scene, "drain=return(2)", true).await
}

/// The second replica is started anew, so that the first gives it its share.
pub(super) async fn killed_during_give(scene: &Scene) -> Result<()> {
    scene.end(1).await?;
    killed_at(scene, "give=return(1)", true).await?;
    scene.start(1, &[]).await
}

pub(super) async fn killed_at_random(scene: &Scene) -> Result<()> {
    for _ in 0..5 {
        let pause = scene.some_time();
        tokio::time::sleep(pause).await;
        scene.kill(0).await.context("kill at a random time")?;
        scene.start(0, &[]).await?;
    }
    Ok(())
}
