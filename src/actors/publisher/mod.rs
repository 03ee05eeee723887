//! Publisher: one actor per kind of broker. It owns a link to each configured broker of its kind, and turns
//! batches into reports. It knows no tenant, no database and no claimer.

mod breaker;
mod link;

use std::collections::HashMap;
use std::sync::Arc;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, ResponseFuture, WrapFuture,
};
use outrider_broker::{Cause, ErrorClass, Outcome};
use tokio::task::JoinSet;

use super::exit::{Exit, ExitGuard};
use super::messages::{PublishBatch, PublishReport};
use super::signals::Signals;
use link::Link;

pub use link::LinkSettings;

/// Room for batches that were sent and not looked at yet. The true bound is the permit in each batch; a
/// mailbox only ever holds what permits let through.
const MAILBOX: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct Publisher {
    links: HashMap<Arc<str>, Arc<Link>>,
    signals: Signals,
    guard: ExitGuard,
}

impl Publisher {
    /// Links start to connect when the actor starts.
    pub fn new(links: Vec<LinkSettings>, signals: Signals, guard: ExitGuard) -> Self {
        let links =
            links.into_iter().map(|settings| (settings.outlet.name.clone(), Link::new(settings))).collect();
        Publisher { links, signals, guard }
    }
}

impl Actor for Publisher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        let mut keepers = JoinSet::new();
        for link in self.links.values() {
            keepers.spawn(link.clone().keep(self.signals.clone()));
        }
        let signals = self.signals.clone();
        let ended = async move {
            let mut exit = Exit::Drained;
            while let Some(kept) = keepers.join_next().await {
                match kept {
                    Ok(true) => {}
                    Ok(false) => exit = Exit::CutShort,
                    // The others are dropped with the set: the restart begins from nothing.
                    Err(_) => return Exit::Panicked,
                }
            }
            // A kind without brokers has nothing to keep, and lives until it is told to end.
            signals.draining().await;
            exit
        };
        let end = ended.into_actor(self).map(|exit, actor, ctx| {
            actor.guard.set(exit);
            ctx.stop();
        });
        ctx.spawn(end);
    }
}

impl Handler<PublishBatch> for Publisher {
    type Result = ResponseFuture<PublishReport>;

    fn handle(&mut self, batch: PublishBatch, _: &mut Self::Context) -> Self::Result {
        match self.links.get(&batch.broker).cloned() {
            Some(link) => Box::pin(async move { link.publish(batch).await }),
            None => {
                let cause = Cause::broker(ErrorClass::Local, format!("no link to `{}`", batch.broker));
                let outcomes = vec![Outcome::NotSent(cause); batch.messages.len()];
                Box::pin(async move { PublishReport { outcomes, permit: batch.permit } })
            }
        }
    }
}
