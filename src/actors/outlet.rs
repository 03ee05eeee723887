//! What a claimer knows of a broker: where to send a batch, how much may be in flight, whether the link is
//! up. Outlives the publisher behind it, which may be restarted.

use std::sync::Arc;

use actix::Recipient;
use outrider_broker::Cause;
use tokio::sync::watch;

use super::messages::PublishBatch;
use super::permits::Bound;
use crate::outbox::message::Shape;
use crate::outbox::pace::Bounds;

/// Whether a broker can be published to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    Up,
    /// The breaker is open, for this reason.
    Down(Cause),
}

/// One configured broker, as seen from a claimer.
#[derive(Debug)]
pub struct Outlet {
    pub name: Arc<str>,
    pub kind: Arc<str>,
    pub bound: Bound,
    /// What a publish may take, from its hand-over on.
    pub publish_deadline: Bounds,
    pub shape: Shape,
    state: watch::Sender<LinkState>,
    publisher: watch::Sender<Option<Recipient<PublishBatch>>>,
}

impl Outlet {
    /// Starts down, without a publisher.
    pub fn new(
        name: Arc<str>,
        kind: Arc<str>,
        bound: Bound,
        publish_deadline: Bounds,
        shape: Shape,
    ) -> Arc<Self> {
        let down = Cause::broker(outrider_broker::ErrorClass::Local, "not connected yet");
        Arc::new(Outlet {
            name,
            kind,
            bound,
            publish_deadline,
            shape,
            state: watch::Sender::new(LinkState::Down(down)),
            publisher: watch::Sender::new(None),
        })
    }

    pub fn is_up(&self) -> bool {
        *self.state.borrow() == LinkState::Up
    }

    pub fn state(&self) -> LinkState {
        self.state.borrow().clone()
    }

    /// To wait for the link to come up.
    pub fn watch(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    pub(super) fn set_state(&self, state: LinkState) {
        self.state.send_if_modified(|known| {
            let news = *known != state;
            *known = state;
            news
        });
    }

    /// The address to send to, to be taken once and kept; `None` while there is no publisher.
    pub(super) fn publisher(&self) -> watch::Receiver<Option<Recipient<PublishBatch>>> {
        self.publisher.subscribe()
    }

    pub(super) fn set_publisher(&self, publisher: Option<Recipient<PublishBatch>>) {
        if publisher.is_none() {
            let cause = Cause::broker(outrider_broker::ErrorClass::Local, "the publisher is being restarted");
            self.set_state(LinkState::Down(cause));
        }
        self.publisher.send_replace(publisher);
    }
}
