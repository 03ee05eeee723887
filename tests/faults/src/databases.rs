//! The database server of a scene, and the ways to it: the relay's, and everybody else's.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use outrider_servers::{Install, Server, pgbouncer, postgres};
use outrider_test_support::proxy::Proxy;
use sqlx::{Connection, PgConnection};
use tokio::task::block_in_place;

use crate::ground::{Ground, Kind, loopback};

/// How the relay gets to its databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    /// The server that all scenes share.
    Direct,
    /// The same, behind pgbouncer in transaction mode.
    Pooler,
    /// A host name, which stands for one of two servers of this scene's own.
    Name,
}

/// The name that stands for one of two servers.
pub(crate) const NAME: &str = "outbox-database.test";

#[derive(Debug)]
pub(crate) struct Databases {
    /// Everybody but the relay finds them here.
    address: SocketAddr,
    pub(crate) pooler: Option<Server>,
    pub(crate) twins: Option<Twins>,
}

/// A server, and a standby that has all that was committed.
#[derive(Debug)]
pub(crate) struct Twins {
    pub(crate) primary: Mutex<Server>,
    standby: Server,
    /// To the one that counts.
    front: Proxy,
}

impl Databases {
    pub(crate) async fn find(ground: &Ground, via: Via) -> Result<Databases> {
        if via != Via::Name {
            return Ok(Databases { address: ground.socket(Kind::Postgres)?, pooler: None, twins: None });
        }
        let twins = Twins::start().await?;
        Ok(Databases { address: twins.front.address(), pooler: None, twins: Some(twins) })
    }

    /// Puts pgbouncer in front of them, for this role.
    pub(crate) fn pool(&mut self, role: &str) -> Result<()> {
        let pooler = block_in_place(|| pgbouncer::start(&Install::locate(), self.address.port(), &[role]))?;
        self.pooler = Some(pooler);
        Ok(())
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the relay's ways lead; two, where a name stands for one of them.
    pub(crate) fn relay_targets(&self) -> Result<Vec<SocketAddr>> {
        if let Some(twins) = &self.twins {
            return Ok(vec![twins.primary_address()?, twins.standby_address()?]);
        }
        match &self.pooler {
            Some(pooler) => Ok(vec![loopback(pooler.port("pgbouncer").context("find the pooler's port")?)]),
            None => Ok(vec![self.address]),
        }
    }

    pub(crate) fn twins(&self) -> Result<&Twins> {
        self.twins.as_ref().context("find two database servers")
    }
}

impl Twins {
    async fn start() -> Result<Twins> {
        let install = Install::locate();
        let (primary, standby) = block_in_place(|| {
            let primary = postgres::start(&install, postgres::Version::Distribution)?;
            let standby = postgres::standby(&install, port(&primary)?)?;
            anyhow::Ok((primary, standby))
        })?;
        let front = Proxy::start(loopback(port(&primary)?)).await.context("start a proxy")?;
        let twins = Twins { primary: Mutex::new(primary), standby, front };
        // From now on a commit is answered when the standby has it.
        twins.on_primary("ALTER SYSTEM SET synchronous_standby_names = '*'").await?;
        twins.on_primary("SELECT pg_reload_conf()").await?;
        Ok(twins)
    }

    fn primary_address(&self) -> Result<SocketAddr> {
        port(&self.primary.lock().unwrap_or_else(PoisonError::into_inner)).map(loopback)
    }

    fn standby_address(&self) -> Result<SocketAddr> {
        port(&self.standby).map(loopback)
    }

    pub(crate) async fn on_primary(&self, sql: &'static str) -> Result<()> {
        run(self.primary_address()?, sql).await
    }

    /// The standby takes over. Everybody but the relay is told at once.
    pub(crate) async fn promote(&self) -> Result<()> {
        let address = self.standby_address()?;
        run(address, "SELECT pg_promote()").await.context("promote the standby")?;
        self.front.point(address);
        self.front.cut();
        Ok(())
    }
}

async fn run(address: SocketAddr, sql: &'static str) -> Result<()> {
    let url = format!("postgres://postgres@{address}/postgres");
    let mut server = PgConnection::connect(&url).await.context("connect to PostgreSQL")?;
    sqlx::raw_sql(sql).execute(&mut server).await.with_context(|| format!("run `{sql}`"))?;
    Ok(())
}

fn port(server: &Server) -> Result<u16> {
    server.port("postgres").context("find PostgreSQL's port")
}
