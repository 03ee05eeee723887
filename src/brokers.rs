//! The registry of broker plugins: kind to plugin. The only file that names plugin crates.
//!
//! A third party adds a broker with a crate of its own and a binary of a few lines:
//! `outrider::cli::main(Registry::builtin().with(MyPlugin))`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outrider_broker::Plugin;

/// The kinds of broker that a config may name.
#[derive(Clone, Default)]
pub struct Registry {
    plugins: BTreeMap<&'static str, Arc<dyn Plugin>>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Registry::default()
    }

    /// The brokers that come with outrider.
    pub fn builtin() -> Self {
        Registry::new()
            .with(outrider_kafka::Kafka)
            .with(outrider_memory::Memory)
            .with(outrider_nats::Nats)
            .with(outrider_rabbitmq::RabbitMqPlugin)
            .with(outrider_stdout::Stdout::new())
    }

    /// Adds a plugin. A second one of the same kind takes the place of the first.
    #[must_use]
    pub fn with(mut self, plugin: impl Plugin) -> Self {
        self.plugins.insert(plugin.kind(), Arc::new(plugin));
        self
    }

    pub fn plugin(&self, kind: &str) -> Option<&Arc<dyn Plugin>> {
        self.plugins.get(kind)
    }

    /// All kinds, in alphabetical order.
    pub fn kinds(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.keys().copied()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.plugins.keys()).finish()
    }
}
