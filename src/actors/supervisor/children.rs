//! Builds children. What a child needs is here; when it lives is the plan's business.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Actor, Addr};

use crate::actors::board::Board;
use crate::actors::claimer::{Claimer, ClaimerSettings};
use crate::actors::exit::{ChildId, ExitGuard};
use crate::actors::fleet::Fleet;
use crate::actors::janitor::{Janitor, JanitorSettings};
use crate::actors::outlet::Outlet;
use crate::actors::permits::Bound;
use crate::actors::publisher::{LinkSettings, Publisher};
use crate::actors::signals::Signals;
use crate::config::Config;

/// A living child. Its address is made once and held for its life.
#[derive(Debug)]
pub(super) enum Child {
    Claimer { _addr: Addr<Claimer> },
    Publisher { _addr: Addr<Publisher>, outlets: Vec<Arc<Outlet>> },
    Janitor { _addr: Addr<Janitor> },
}

/// Config and shared parts, from which any child can be built at any time.
#[derive(Debug)]
pub(super) struct Nursery {
    config: Arc<Config>,
    outlets: BTreeMap<Arc<str>, Arc<Outlet>>,
    board: Arc<Board>,
    fleet: Arc<Fleet>,
}

impl Nursery {
    pub(super) fn new(config: Arc<Config>, board: Arc<Board>) -> Self {
        let outlets = config
            .brokers
            .values()
            .map(|broker| {
                let bound = Bound::new(broker.max_in_flight.events, broker.max_in_flight.bytes);
                let (name, kind) = (broker.name.clone(), broker.kind.as_str().into());
                (name.clone(), Outlet::new(name, kind, bound, broker.publish_deadline, broker.shape))
            })
            .collect();
        let fleet = Arc::new(Fleet::new(config.replica.name.as_str().into(), config.tenants.keys().cloned()));
        Nursery { config, outlets, board, fleet }
    }

    pub(super) fn outlets(&self) -> impl Iterator<Item = &Arc<Outlet>> {
        self.outlets.values()
    }

    /// Everything that should live while the daemon runs.
    pub(super) fn desired(&self) -> BTreeSet<ChildId> {
        let claimers = self.config.tenants.keys().map(|name| ChildId::Claimer(name.clone()));
        let publishers = self.outlets.values().map(|outlet| ChildId::Publisher(outlet.kind.clone()));
        claimers.chain(publishers).chain([ChildId::Janitor]).collect()
    }

    /// Starts a child; `None` if the config does not know it.
    pub(super) fn start(&self, child: &ChildId, signals: Signals, guard: ExitGuard) -> Option<Child> {
        Some(match child {
            ChildId::Claimer(name) => {
                let settings = ClaimerSettings {
                    tenant: self.config.tenants.get(name)?.clone(),
                    replica: self.config.replica.name.as_str().into(),
                    outlets: self.outlets.clone(),
                    board: self.board.clone(),
                    fleet: self.fleet.clone(),
                };
                Child::Claimer { _addr: Claimer::new(settings, signals, guard).start() }
            }
            ChildId::Publisher(kind) => {
                let brokers = self.config.brokers.values().filter(|broker| **kind == *broker.kind);
                let links: Vec<LinkSettings> = brokers
                    .filter_map(|broker| {
                        Some(LinkSettings {
                            broker: broker.broker.clone(),
                            connect_timeout: broker.connect_timeout,
                            outlet: self.outlets.get(&broker.name)?.clone(),
                            board: self.board.clone(),
                        })
                    })
                    .collect();
                let outlets: Vec<Arc<Outlet>> = links.iter().map(|link| link.outlet.clone()).collect();
                let addr = Publisher::new(links, signals, guard).start();
                for outlet in &outlets {
                    outlet.set_publisher(Some(addr.clone().recipient()));
                }
                Child::Publisher { _addr: addr, outlets }
            }
            ChildId::Janitor => {
                let settings = JanitorSettings { config: self.config.clone(), board: self.board.clone() };
                Child::Janitor { _addr: Janitor::new(settings, signals, guard).start() }
            }
        })
    }
}

impl Child {
    /// It ended: nobody should send to it any more.
    pub(super) fn gone(&self) {
        if let Child::Publisher { outlets, .. } = self {
            outlets.iter().for_each(|outlet| outlet.set_publisher(None));
        }
    }
}
