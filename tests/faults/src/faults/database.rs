//! PostgreSQL misbehaves. Faults are the relay's alone where that can be: the writers go on.

use std::sync::PoisonError;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use outrider_test_support::proxy::Mode;
use tokio::task::block_in_place;

use crate::ground::Kind;
use crate::scene::{Scene, TENANTS};

pub(super) async fn sessions_terminated(scene: &Scene) -> Result<()> {
    let mut ended = 0;
    for _ in 0..10 {
        ended += scene.terminate_sessions().await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    ensure!(ended >= 10, "end the relay's sessions: there were only {ended} in 10 s");
    // A lane whose session ends while its claim is answered keeps what is in flight: no copy.
    Ok(())
}

pub(super) async fn restarted(scene: &Scene) -> Result<()> {
    scene.power_cut(Kind::Postgres, Duration::from_secs(1)).await
}

pub(super) async fn black_hole(scene: &Scene) -> Result<()> {
    scene.ways(Kind::Postgres, Mode::BlackHole);
    tokio::time::sleep(Duration::from_secs(30)).await;
    scene.ways(Kind::Postgres, Mode::Pass);
    scene.hit();
    Ok(())
}

pub(super) async fn slow(scene: &Scene) -> Result<()> {
    scene.ways(Kind::Postgres, Mode::Delay(Duration::from_millis(200)));
    tokio::time::sleep(Duration::from_secs(20)).await;
    scene.ways(Kind::Postgres, Mode::Pass);
    scene.hit();
    Ok(())
}

pub(super) async fn read_only(scene: &Scene) -> Result<()> {
    let role = scene.role();
    scene.admin_sql(&format!("ALTER ROLE {role} SET default_transaction_read_only = on")).await?;
    scene.terminate_sessions().await?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    scene.admin_sql(&format!("ALTER ROLE {role} RESET default_transaction_read_only")).await?;
    scene.terminate_sessions().await?;
    scene.hit();
    Ok(())
}

pub(super) async fn too_many_connections(scene: &Scene) -> Result<()> {
    let role = scene.role();
    scene.admin_sql(&format!("ALTER ROLE {role} CONNECTION LIMIT 0")).await?;
    scene.terminate_sessions().await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    scene.admin_sql(&format!("ALTER ROLE {role} CONNECTION LIMIT -1")).await?;
    scene.hit();
    Ok(())
}

/// Leases are renewed meanwhile, so no copy is allowed.
pub(super) async fn locked(scene: &Scene) -> Result<()> {
    let mut holders = Vec::new();
    for tenant in TENANTS {
        let mut holder = scene.connect(tenant).await?;
        sqlx::raw_sql("BEGIN; LOCK TABLE outrider.outbox IN ACCESS EXCLUSIVE MODE")
            .execute(&mut holder)
            .await
            .context("lock the outbox")?;
        holders.push(holder);
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    for mut holder in holders {
        sqlx::raw_sql("ROLLBACK").execute(&mut holder).await?;
    }
    Ok(())
}

/// A settle writes a receipt: that fails. What was confirmed waits to be written, so no copy is allowed.
pub(super) async fn disk_full(scene: &Scene) -> Result<()> {
    for tenant in TENANTS {
        let sql = "CREATE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
             CREATE TRIGGER full_disk BEFORE INSERT ON outrider.receipt EXECUTE FUNCTION public.full_disk()";
        scene.sql(tenant, sql).await.context("fill the disk")?;
    }
    tokio::time::sleep(Duration::from_secs(8)).await;
    for tenant in TENANTS {
        scene.sql(tenant, "DROP FUNCTION public.full_disk() CASCADE").await.context("free the disk")?;
    }
    Ok(())
}

/// A name stands for the old server for so long after the new one took over.
const NAME_LAGS: Duration = Duration::from_secs(5);

/// Sessions stay on the server that can only be read now (C67).
pub(super) async fn failed_over(scene: &Scene) -> Result<()> {
    let twins = scene.databases.twins()?;
    twins.on_primary("ALTER SYSTEM SET default_transaction_read_only = on").await?;
    twins.on_primary("SELECT pg_reload_conf()").await?;
    twins.promote().await?;
    tokio::time::sleep(NAME_LAGS).await;
    ensure!(
        scene.replicas[0].has_said("read-only")?,
        "meet a server that can only be read: the log has none"
    );
    name_stands_for_new(scene)
}

pub(super) async fn failed_over_after_crash(scene: &Scene) -> Result<()> {
    let twins = scene.databases.twins()?;
    block_in_place(|| twins.primary.lock().unwrap_or_else(PoisonError::into_inner).kill());
    twins.promote().await?;
    tokio::time::sleep(NAME_LAGS).await;
    name_stands_for_new(scene)
}

fn name_stands_for_new(scene: &Scene) -> Result<()> {
    scene.hit();
    scene.replicas.iter().try_for_each(|replica| replica.name_stands_for(1))
}
