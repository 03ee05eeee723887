//! From an event to its message: which broker, which destination, which shape. Remembers the answers, for most
//! events of a topic have the same.

use std::collections::HashMap;
use std::sync::Arc;

use outrider_broker::{Destination, Message, Refusal};

use crate::outbox::message::{Shape, compose};
use crate::outbox::route::DestinationTemplate;
use crate::outbox::{Event, OnDead, RouteTable};

/// Topics remembered. An application that makes a topic of each event costs time, not memory.
const MAX_TOPICS: usize = 10_000;

/// Where the events of one topic go.
#[derive(Clone, Debug)]
pub(super) struct TopicRoute {
    pub(super) broker: Arc<str>,
    pub(super) on_dead: OnDead,
    to: DestinationTemplate,
    /// Rendered once, if it is the same for all events of the topic.
    fixed: Option<Destination>,
}

#[derive(Debug)]
pub(super) struct Routing {
    tenant: Arc<str>,
    routes: RouteTable,
    on_dead: OnDead,
    known: HashMap<Arc<str>, Option<TopicRoute>>,
}

impl Routing {
    /// `on_dead` is the tenant's, for routes that say nothing.
    pub(super) fn new(tenant: Arc<str>, routes: RouteTable, on_dead: OnDead) -> Self {
        Routing { tenant, routes, on_dead, known: HashMap::new() }
    }

    /// `None`: no route; its events are held.
    pub(super) fn topic(&mut self, topic: &Arc<str>) -> Option<&TopicRoute> {
        if self.known.len() >= MAX_TOPICS && !self.known.contains_key(topic) {
            self.known.clear();
        }
        let (tenant, routes, on_dead) = (&self.tenant, &self.routes, self.on_dead);
        self.known
            .entry(topic.clone())
            .or_insert_with(|| {
                let route = routes.find(topic)?;
                let fixed = !route.to.depends_on_event();
                Some(TopicRoute {
                    broker: route.broker.clone(),
                    on_dead: route.on_dead.unwrap_or(on_dead),
                    fixed: fixed.then(|| route.to.render(tenant, topic, "", None)),
                    to: route.to.clone(),
                })
            })
            .as_ref()
    }

    /// Makes the message. An event that was claimed has a route: topics without one are not claimed.
    pub(super) fn message(&mut self, event: &Event, shape: Shape) -> Option<Result<Message, Refusal>> {
        let tenant = self.tenant.clone();
        let route = self.topic(&event.topic)?;
        let destination = match (&route.fixed, &event.body) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(body)) => route.to.render(&tenant, &event.topic, &body.kind, event.key.as_deref()),
            // Without a payload row it is refused whatever its destination.
            (None, None) => Destination::default(),
        };
        Some(compose(&tenant, event, shape, destination))
    }
}
