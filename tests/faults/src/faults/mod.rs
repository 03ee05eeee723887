//! All faults. Each is a function over a scene that runs under load; it breaks something and mends it again.

mod database;
mod fleet;
mod kafka;
mod nats;
mod outage;
mod poison;
mod pooler;
mod rabbitmq;
mod relay;
mod servers;

use std::sync::Arc;

use anyhow::Result;
use futures_util::future::BoxFuture;

use crate::scene::Scene;

/// Breaks something, and mends it.
pub(crate) type Act = fn(Arc<Scene>) -> BoxFuture<'static, Result<()>>;

/// What a fault is besides its name and its act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trait {
    /// Part of the short selection.
    Quick,
    /// May be injected together with one of another group.
    Pairs,
    /// Breaks a server, which others would feel.
    Alone,
    /// Lasts so long that it comes first, and lets others on the ground meanwhile.
    Long,
    /// Behind pgbouncer.
    Pooler,
    /// The database server is one of two that have one name.
    Name,
}

/// One fault.
#[derive(Debug)]
pub(crate) struct Fault {
    /// `group.what-happens`.
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    /// Replicas that it needs.
    pub(crate) replicas: usize,
    pub(crate) traits: &'static [Trait],
    pub(crate) act: Act,
}

impl Fault {
    pub(crate) fn is(&self, of: Trait) -> bool {
        self.traits.contains(&of)
    }

    /// What it breaks; two of one group do not go together.
    pub(crate) fn group(&self) -> &'static str {
        match self.name.split('.').next() {
            Some("relay" | "fleet") => "replicas",
            group => group.unwrap_or(self.name),
        }
    }
}

macro_rules! faults {
    ($($name:literal $replicas:literal [$($of:ident)*] $act:path, $says:literal;)+) => {
        /// In the order of `--list`.
        pub(crate) const ALL: &[Fault] = &[$(Fault {
            name: $name,
            says: $says,
            replicas: $replicas,
            traits: &[$(Trait::$of),*],
            act: |scene| Box::pin(async move { $act(&scene).await }),
        }),+];
    };
}

faults! {
    "relay.killed-before-claim" 1 [Pairs] relay::killed_before_claim, "SIGKILL as a claim is about to be sent";
    "relay.killed-after-claim" 1 [Quick Pairs] relay::killed_after_claim, "SIGKILL when a claim is answered and nothing is handed over";
    "relay.killed-after-hand-over" 1 [Pairs] relay::killed_after_hand_over, "SIGKILL 1 ms after a batch was handed to its publisher";
    "relay.killed-after-confirm" 1 [Quick Pairs] relay::killed_after_confirm, "SIGKILL when a batch is confirmed and not settled";
    "relay.killed-during-settle" 1 [Quick Pairs] relay::killed_during_settle, "SIGKILL 1 ms after a settle was sent";
    "relay.killed-after-settle" 1 [Pairs] relay::killed_after_settle, "SIGKILL when a settle is answered";
    "relay.killed-during-hand-over" 2 [Pairs] relay::killed_during_give, "SIGKILL as a lane is given to the other replica";
    "relay.killed-during-shutdown" 1 [Quick Pairs] relay::killed_during_drain, "SIGTERM, and SIGKILL when the drain has begun";
    "relay.killed-at-random" 1 [Pairs] relay::killed_at_random, "SIGKILL at five random times";
    "fleet.paused-past-lease" 2 [Quick] fleet::paused_past_lease, "one of two stands still for twice its lease (SIGSTOP), then goes on";
    "fleet.late-failures" 2 [] fleet::late_failures, "the same without a way to the brokers, so that what it says afterwards are failures: they change nothing and are counted as fenced";
    "fleet.one-killed" 2 [Pairs] fleet::one_killed, "one of two is killed and comes back later";
    "fleet.rolling-restart" 2 [Pairs] fleet::rolling_restart, "SIGTERM and start, one after the other";
    "fleet.both-at-once" 2 [Pairs] fleet::both_at_once, "both are killed and started at the same moment";
    "fleet.cut-from-database" 2 [] fleet::cut_from_database, "one of two reaches the brokers, and its database not, for 20 s";
    "fleet.cut-from-brokers" 2 [] fleet::cut_from_brokers, "one of two reaches its database, and no broker, for 20 s";
    "fleet.clock-ahead" 2 [] fleet::clock_ahead, "the wall clock of one of two is 5 minutes ahead";
    "fleet.clock-behind" 2 [] fleet::clock_behind, "the wall clock of one of two is 5 minutes behind";
    "database.sessions-terminated" 1 [Quick Pairs] database::sessions_terminated, "pg_terminate_backend on the relay each second";
    "database.restarted" 1 [Quick Pairs Alone] database::restarted, "PostgreSQL is stopped with -m immediate and started";
    "database.black-hole" 1 [] database::black_hole, "for 30 s bytes to and from the database are swallowed, without a reset";
    "database.slow" 1 [] database::slow, "every packet of the database comes 200 ms late";
    "database.read-only" 1 [] database::read_only, "for 30 s the relay may only read";
    "database.too-many-connections" 1 [] database::too_many_connections, "for 10 s the relay gets no connection";
    "database.locked" 1 [] database::locked, "for 20 s somebody holds an exclusive lock on the outbox";
    "database.disk-full" 1 [Pairs] database::disk_full, "for 8 s inserts of the relay fail as on a full disk (53100)";
    "database.failed-over" 1 [Name] database::failed_over, "the server becomes read-only and its standby takes over; the name stands for the old one for some seconds more";
    "database.failed-over-after-crash" 1 [Name] database::failed_over_after_crash, "SIGKILL to the server; its standby takes over, with another address behind the same name";
    "kafka.power-cut" 1 [Pairs Alone] servers::kafka_power_cut, "SIGKILL and restart";
    "kafka.restarted" 1 [Pairs Alone] servers::kafka_restarted, "an orderly restart";
    "kafka.paused" 1 [Alone] servers::kafka_paused, "SIGSTOP for 60 s";
    "kafka.black-hole" 1 [] servers::kafka_black_hole, "bytes are swallowed for 20 s";
    "kafka.refused" 1 [Quick Pairs] servers::kafka_refused, "connections are cut and refused for 8 s";
    "kafka.unknown-topic" 1 [] kafka::unknown_topic, "the topic is gone for 8 s";
    "kafka.not-enough-replicas" 1 [Pairs] kafka::not_enough_replicas, "for 8 s the topic asks for more replicas than there are";
    "kafka.fatal-error" 1 [Alone] kafka::fatal_error, "the broker loses a batch that it had confirmed, so that the next ends the idempotent producer for good";
    "rabbitmq.power-cut" 1 [Pairs Alone] servers::rabbitmq_power_cut, "SIGKILL and restart";
    "rabbitmq.restarted" 1 [Pairs Alone] servers::rabbitmq_restarted, "an orderly restart: sessions are lost";
    "rabbitmq.paused" 1 [Alone] servers::rabbitmq_paused, "SIGSTOP for 60 s";
    "rabbitmq.black-hole" 1 [] servers::rabbitmq_black_hole, "bytes are swallowed for 20 s";
    "rabbitmq.refused" 1 [Pairs] servers::rabbitmq_refused, "connections are cut and refused for 8 s";
    "rabbitmq.memory-alarm" 1 [Pairs Alone] rabbitmq::memory_alarm, "for 8 s the broker blocks publishers (connection.blocked)";
    "rabbitmq.queue-full" 1 [Pairs] rabbitmq::queue_full, "for 8 s the queue is full and rejects";
    "rabbitmq.exchange-deleted" 1 [Quick Pairs] rabbitmq::exchange_deleted, "the exchange is deleted, which closes the channel, and declared again after 5 s";
    "rabbitmq.connections-closed" 1 [Pairs Alone] rabbitmq::connections_closed, "the server closes every connection, five times";
    "rabbitmq.unroutable" 1 [Pairs] rabbitmq::unroutable, "for 5 s no queue is bound, so each event is returned and refused, and its key waits behind it";
    "nats.power-cut" 1 [Quick Pairs Alone] servers::nats_power_cut, "SIGKILL and restart";
    "nats.restarted" 1 [Pairs Alone] servers::nats_restarted, "an orderly restart";
    "nats.paused" 1 [Alone] servers::nats_paused, "SIGSTOP for 60 s";
    "nats.black-hole" 1 [] servers::nats_black_hole, "bytes are swallowed for 20 s";
    "nats.refused" 1 [Pairs] servers::nats_refused, "connections are cut and refused for 8 s";
    "nats.stream-deleted" 1 [] nats::stream_deleted, "the stream is gone for 8 s: no responders";
    "nats.stream-full" 1 [Quick Pairs] nats::stream_full, "for 8 s the stream takes no more (discard new)";
    "nats.subject-unbound" 1 [Pairs] nats::subject_unbound, "for 8 s no stream takes the subjects";
    "nats.max-payload-lowered" 1 [Alone] nats::max_payload_lowered, "a restart with a lower limit: what is larger is dead with size and limit, and before and after it passes";
    "nats.confirm-never-comes" 1 [] nats::confirm_never_comes, "one event of each tenant goes to a subject where nobody answers, unlike others of its topic: tried alone, then dead with that reason, its neighbours through";
    "outage.with-backlog" 1 [Alone Long] outage::with_backlog, "RabbitMQ is away for ten minutes while 100,000 events wait for it: next to no statements, flat memory, the other brokers as fast, then drained at the usual rate";
    "pooler.none" 2 [Quick Pooler] pooler::nothing, "behind pgbouncer in transaction mode, without a fault: not one copy";
    "pooler.killed-before-claim" 1 [Pooler] relay::killed_before_claim, "the same, and SIGKILL as a claim is about to be sent";
    "pooler.killed-after-claim" 1 [Pooler] relay::killed_after_claim, "the same, and SIGKILL when a claim is answered";
    "pooler.killed-after-hand-over" 1 [Pooler] relay::killed_after_hand_over, "the same, and SIGKILL 1 ms after a batch was handed over";
    "pooler.killed-after-confirm" 1 [Pooler] relay::killed_after_confirm, "the same, and SIGKILL when a batch is confirmed";
    "pooler.killed-during-settle" 1 [Pooler] relay::killed_during_settle, "the same, and SIGKILL 1 ms after a settle was sent";
    "pooler.killed-during-hand-over" 2 [Pooler] relay::killed_during_give, "the same, and SIGKILL as a lane is given";
    "pooler.killed-during-shutdown" 1 [Pooler] relay::killed_during_drain, "the same, and SIGKILL when the drain has begun";
    "pooler.killed-at-random" 1 [Pooler] relay::killed_at_random, "the same, and SIGKILL at five random times";
    "poison.refused" 1 [Quick] poison::refused, "one event in fifty can't be published: dead with a reason, the rest through";
    "poison.publisher-panics" 1 [] poison::publisher_panics, "one event of each broker makes its publisher panic each time: tried alone, then dead with that reason, its neighbours through";
}
