//! Janitor: one actor for all tenants. It measures from the database what no claimer can know of a tenant that
//! does not run, and removes what retention lets go. It never claims, settles or decides an event's fate.

mod pass;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorContext, ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::task::JoinSet;

use super::board::{Board, STATEMENT};
use super::exit::{Exit, ExitGuard};
use super::signals::Signals;
use crate::config::Config;

/// Pause between two passes over all tenants: how old a gauge may be. A pass connects and sends two statements; half of it
/// would make them a fifth of what an idle tenant's database is asked.
const EVERY: Duration = Duration::from_secs(30);

/// What the janitor needs to know.
#[derive(Clone, Debug)]
pub struct JanitorSettings {
    pub config: Arc<Config>,
    pub board: Arc<Board>,
}

/// See the module.
#[derive(Debug)]
pub struct Janitor {
    settings: JanitorSettings,
    signals: Signals,
    guard: ExitGuard,
}

impl Janitor {
    pub fn new(settings: JanitorSettings, signals: Signals, guard: ExitGuard) -> Self {
        Janitor { settings, signals, guard }
    }
}

impl Actor for Janitor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        let mut life = JoinSet::new();
        life.spawn(live(self.settings.clone(), self.signals.clone()));
        let ended = async move { life.join_next().await.and_then(Result::ok) };
        let end = ended.into_actor(self).map(|exit, actor, ctx| {
            actor.guard.set(exit.unwrap_or(Exit::Panicked));
            ctx.stop();
        });
        ctx.spawn(end);
    }
}

/// One pass after another. Passes are cheap to repeat, so an order to end waits for the statement in hand only.
async fn live(settings: JanitorSettings, signals: Signals) -> Exit {
    let pulse = settings.board.pulse("the janitor".to_owned(), STATEMENT);
    loop {
        for tenant in settings.config.tenants.values() {
            pass::over(tenant, &signals, &pulse).await;
            if signals.is_draining() {
                return Exit::Drained;
            }
        }
        pulse.acts_within(EVERY);
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = signals.draining() => return Exit::Drained,
        }
    }
}
