//! What befalls every broker alike: power cuts, restarts, silence, refusals.

use std::time::Duration;

use anyhow::Result;
use outrider_test_support::proxy::Mode;
use tokio::task::block_in_place;

use crate::ground::Kind;
use crate::scene::Scene;

const DOWN: Duration = Duration::from_secs(2);
const PAUSED: Duration = Duration::from_secs(60);
const SWALLOWED: Duration = Duration::from_secs(20);
const REFUSED: Duration = Duration::from_secs(8);

async fn restarted(scene: &mut Scene<'_>, kind: Kind) -> Result<()> {
    block_in_place(|| scene.ground.server(kind).restart())?;
    scene.hits += 1;
    Ok(())
}

async fn paused(scene: &mut Scene<'_>, kind: Kind) -> Result<()> {
    scene.ground.server(kind).pause();
    tokio::time::sleep(PAUSED).await;
    scene.ground.server(kind).resume();
    // Each publish that is tried while the broker is silent ends unknown, and its copy may arrive afterwards.
    scene.hits += PAUSED.as_secs() / 3;
    Ok(())
}

async fn black_hole(scene: &mut Scene<'_>, kind: Kind) -> Result<()> {
    scene.ways(kind, Mode::BlackHole);
    tokio::time::sleep(SWALLOWED).await;
    scene.ways(kind, Mode::Pass);
    scene.hits += SWALLOWED.as_secs() / 3;
    Ok(())
}

/// Connections are cut and refused.
pub(super) fn refuse(scene: &mut Scene<'_>, kind: Kind) {
    scene.ways(kind, Mode::Refuse);
    (0..scene.replicas.len()).for_each(|number| scene.cut(number, kind));
    scene.hits += 1;
}

async fn refused(scene: &mut Scene<'_>, kind: Kind) -> Result<()> {
    refuse(scene, kind);
    tokio::time::sleep(REFUSED).await;
    scene.ways(kind, Mode::Pass);
    Ok(())
}

macro_rules! for_each_broker {
    ($($kind:ident $power_cut:ident $restarted:ident $paused:ident $black_hole:ident $refused:ident;)+) => {$(
        pub(super) async fn $power_cut(scene: &mut Scene<'_>) -> Result<()> {
            scene.power_cut(Kind::$kind, DOWN).await
        }

        pub(super) async fn $restarted(scene: &mut Scene<'_>) -> Result<()> {
            restarted(scene, Kind::$kind).await
        }

        pub(super) async fn $paused(scene: &mut Scene<'_>) -> Result<()> {
            paused(scene, Kind::$kind).await
        }

        pub(super) async fn $black_hole(scene: &mut Scene<'_>) -> Result<()> {
            black_hole(scene, Kind::$kind).await
        }

        pub(super) async fn $refused(scene: &mut Scene<'_>) -> Result<()> {
            refused(scene, Kind::$kind).await
        }
    )+};
}

for_each_broker! {
    Kafka kafka_power_cut kafka_restarted kafka_paused kafka_black_hole kafka_refused;
    Rabbitmq rabbitmq_power_cut rabbitmq_restarted rabbitmq_paused rabbitmq_black_hole rabbitmq_refused;
    Nats nats_power_cut nats_restarted nats_paused nats_black_hole nats_refused;
}
