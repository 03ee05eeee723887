//! What befalls every broker alike: power cuts, restarts, silence, refusals.

use std::time::Duration;

use anyhow::Result;
use outrider_test_support::proxy::Mode;

use crate::ground::Kind;
use crate::scene::Scene;

const DOWN: Duration = Duration::from_secs(2);
const PAUSED: Duration = Duration::from_secs(60);
const SWALLOWED: Duration = Duration::from_secs(20);
const REFUSED: Duration = Duration::from_secs(8);

async fn restarted(scene: &Scene, kind: Kind) -> Result<()> {
    scene.ground.with(kind, |server| server.restart())?;
    scene.hit();
    Ok(())
}

async fn paused(scene: &Scene, kind: Kind) -> Result<()> {
    scene.ground.with(kind, |server| server.pause());
    tokio::time::sleep(PAUSED).await;
    scene.ground.with(kind, |server| server.resume());
    // Each publish that is tried while the broker is silent ends unknown, and its copy may arrive afterwards.
    scene.hit_times(PAUSED.as_secs() / 3);
    Ok(())
}

async fn black_hole(scene: &Scene, kind: Kind) -> Result<()> {
    scene.ways(kind, Mode::BlackHole);
    tokio::time::sleep(SWALLOWED).await;
    scene.ways(kind, Mode::Pass);
    scene.hit_times(SWALLOWED.as_secs() / 3);
    Ok(())
}

/// Connections are cut and refused.
pub(super) fn refuse(scene: &Scene, kind: Kind) {
    scene.ways(kind, Mode::Refuse);
    (0..scene.replicas.len()).for_each(|number| scene.cut(number, kind));
    scene.hit();
}

async fn refused(scene: &Scene, kind: Kind) -> Result<()> {
    refuse(scene, kind);
    tokio::time::sleep(REFUSED).await;
    scene.ways(kind, Mode::Pass);
    Ok(())
}

macro_rules! for_each_broker {
    ($($kind:ident $power_cut:ident $restarted:ident $paused:ident $black_hole:ident $refused:ident;)+) => {$(
        pub(super) async fn $power_cut(scene: &Scene) -> Result<()> {
            scene.power_cut(Kind::$kind, DOWN).await
        }

        pub(super) async fn $restarted(scene: &Scene) -> Result<()> {
            restarted(scene, Kind::$kind).await
        }

        pub(super) async fn $paused(scene: &Scene) -> Result<()> {
            paused(scene, Kind::$kind).await
        }

        pub(super) async fn $black_hole(scene: &Scene) -> Result<()> {
            black_hole(scene, Kind::$kind).await
        }

        pub(super) async fn $refused(scene: &Scene) -> Result<()> {
            refused(scene, Kind::$kind).await
        }
    )+};
}

for_each_broker! {
    Kafka kafka_power_cut kafka_restarted kafka_paused kafka_black_hole kafka_refused;
    Rabbitmq rabbitmq_power_cut rabbitmq_restarted rabbitmq_paused rabbitmq_black_hole rabbitmq_refused;
    Nats nats_power_cut nats_restarted nats_paused nats_black_hole nats_refused;
}
