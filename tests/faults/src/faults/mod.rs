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

use anyhow::Result;
use futures_util::future::BoxFuture;

use crate::scene::Scene;

/// Breaks something, and mends it.
pub(crate) type Act = for<'a, 'g> fn(&'a mut Scene<'g>) -> BoxFuture<'a, Result<()>>;

/// One fault.
pub(crate) struct Fault {
    /// `group.what-happens`.
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    /// Replicas that it needs.
    pub(crate) replicas: usize,
    /// Part of the short selection.
    pub(crate) quick: bool,
    /// May be injected right after another one.
    pub(crate) pairs: bool,
    pub(crate) act: Act,
}

macro_rules! faults {
    ($($name:literal $replicas:literal $quick:literal $pairs:literal $act:path, $says:literal;)+) => {
        /// In the order in which they run.
        pub(crate) const ALL: &[Fault] = &[$(Fault {
            name: $name,
            says: $says,
            replicas: $replicas,
            quick: $quick,
            pairs: $pairs,
            act: |scene| Box::pin($act(scene)),
        }),+];
    };
}

faults! {
    "relay.killed-before-claim" 1 false true relay::killed_before_claim, "SIGKILL as a claim is about to be sent";
    "relay.killed-after-claim" 1 true true relay::killed_after_claim, "SIGKILL when a claim is answered and nothing is handed over";
    "relay.killed-after-hand-over" 1 false true relay::killed_after_hand_over, "SIGKILL 1 ms after a batch was handed to its publisher";
    "relay.killed-after-confirm" 1 true true relay::killed_after_confirm, "SIGKILL when a batch is confirmed and not settled";
    "relay.killed-during-settle" 1 true true relay::killed_during_settle, "SIGKILL 1 ms after a settle was sent";
    "relay.killed-after-settle" 1 false true relay::killed_after_settle, "SIGKILL when a settle is answered";
    "relay.killed-during-hand-over" 2 false true relay::killed_during_give, "SIGKILL as a lane is given to the other replica";
    "relay.killed-during-shutdown" 1 true true relay::killed_during_drain, "SIGTERM, and SIGKILL when the drain has begun";
    "relay.killed-at-random" 1 false true relay::killed_at_random, "SIGKILL at five random times";
    "fleet.paused-past-lease" 2 true false fleet::paused_past_lease, "one of two stands still for twice its lease (SIGSTOP), then goes on";
    "fleet.late-failures" 2 false false fleet::late_failures, "the same without a way to the brokers, so that what it says afterwards are failures: they change nothing and are counted as fenced";
    "fleet.one-killed" 2 false true fleet::one_killed, "one of two is killed and comes back later";
    "fleet.rolling-restart" 2 false true fleet::rolling_restart, "SIGTERM and start, one after the other";
    "fleet.both-at-once" 2 false true fleet::both_at_once, "both are killed and started at the same moment";
    "fleet.cut-from-database" 2 false false fleet::cut_from_database, "one of two reaches the brokers, and its database not, for 20 s";
    "fleet.cut-from-brokers" 2 false false fleet::cut_from_brokers, "one of two reaches its database, and no broker, for 20 s";
    "fleet.clock-ahead" 2 false false fleet::clock_ahead, "the wall clock of one of two is 5 minutes ahead";
    "fleet.clock-behind" 2 false false fleet::clock_behind, "the wall clock of one of two is 5 minutes behind";
    "database.sessions-terminated" 1 true true database::sessions_terminated, "pg_terminate_backend on the relay each second";
    "database.restarted" 1 true true database::restarted, "PostgreSQL is stopped with -m immediate and started";
    "database.black-hole" 1 false false database::black_hole, "for 30 s bytes to and from the database are swallowed, without a reset";
    "database.slow" 1 false false database::slow, "every packet of the database comes 200 ms late";
    "database.read-only" 1 false false database::read_only, "for 30 s the relay may only read";
    "database.too-many-connections" 1 false false database::too_many_connections, "for 10 s the relay gets no connection";
    "database.locked" 1 false false database::locked, "for 20 s somebody holds an exclusive lock on the outbox";
    "database.disk-full" 1 false true database::disk_full, "for 8 s inserts of the relay fail as on a full disk (53100)";
    "kafka.power-cut" 1 false true servers::kafka_power_cut, "SIGKILL and restart";
    "kafka.restarted" 1 false true servers::kafka_restarted, "an orderly restart";
    "kafka.paused" 1 false false servers::kafka_paused, "SIGSTOP for 60 s";
    "kafka.black-hole" 1 false false servers::kafka_black_hole, "bytes are swallowed for 20 s";
    "kafka.refused" 1 true true servers::kafka_refused, "connections are cut and refused for 8 s";
    "kafka.unknown-topic" 1 false false kafka::unknown_topic, "the topic is gone for 8 s";
    "kafka.not-enough-replicas" 1 false true kafka::not_enough_replicas, "for 8 s the topic asks for more replicas than there are";
    "kafka.fatal-error" 1 false false kafka::fatal_error, "the broker loses a batch that it had confirmed, so that the next ends the idempotent producer for good";
    "rabbitmq.power-cut" 1 false true servers::rabbitmq_power_cut, "SIGKILL and restart";
    "rabbitmq.restarted" 1 false true servers::rabbitmq_restarted, "an orderly restart: sessions are lost";
    "rabbitmq.paused" 1 false false servers::rabbitmq_paused, "SIGSTOP for 60 s";
    "rabbitmq.black-hole" 1 false false servers::rabbitmq_black_hole, "bytes are swallowed for 20 s";
    "rabbitmq.refused" 1 false true servers::rabbitmq_refused, "connections are cut and refused for 8 s";
    "rabbitmq.memory-alarm" 1 false true rabbitmq::memory_alarm, "for 8 s the broker blocks publishers (connection.blocked)";
    "rabbitmq.queue-full" 1 false true rabbitmq::queue_full, "for 8 s the queue is full and rejects";
    "rabbitmq.exchange-deleted" 1 true true rabbitmq::exchange_deleted, "the exchange is deleted, which closes the channel, and declared again after 5 s";
    "rabbitmq.connections-closed" 1 false true rabbitmq::connections_closed, "the server closes every connection, five times";
    "rabbitmq.unroutable" 1 false true rabbitmq::unroutable, "for 5 s no queue is bound, so each event is returned and refused, and its key waits behind it";
    "nats.power-cut" 1 true true servers::nats_power_cut, "SIGKILL and restart";
    "nats.restarted" 1 false true servers::nats_restarted, "an orderly restart";
    "nats.paused" 1 false false servers::nats_paused, "SIGSTOP for 60 s";
    "nats.black-hole" 1 false false servers::nats_black_hole, "bytes are swallowed for 20 s";
    "nats.refused" 1 false true servers::nats_refused, "connections are cut and refused for 8 s";
    "nats.stream-deleted" 1 false false nats::stream_deleted, "the stream is gone for 8 s: no responders";
    "nats.stream-full" 1 true true nats::stream_full, "for 8 s the stream takes no more (discard new)";
    "nats.subject-unbound" 1 false true nats::subject_unbound, "for 8 s no stream takes the subjects";
    "nats.max-payload-lowered" 1 false false nats::max_payload_lowered, "a restart with a lower limit: what is larger is dead with size and limit, and before and after it passes";
    "nats.confirm-never-comes" 1 false false nats::confirm_never_comes, "one event of each tenant goes to a subject where nobody answers, unlike others of its topic: tried alone, then dead with that reason, its neighbours through";
    "outage.with-backlog" 1 false false outage::with_backlog, "RabbitMQ is away for a minute while 100,000 events wait for it: next to no statements, flat memory, the other brokers as fast, then drained at the usual rate";
    "pooler.none" 2 true false pooler::nothing, "behind pgbouncer in transaction mode, without a fault: not one copy";
    "pooler.killed-before-claim" 1 false false relay::killed_before_claim, "the same, and SIGKILL as a claim is about to be sent";
    "pooler.killed-after-claim" 1 false false relay::killed_after_claim, "the same, and SIGKILL when a claim is answered";
    "pooler.killed-after-hand-over" 1 false false relay::killed_after_hand_over, "the same, and SIGKILL 1 ms after a batch was handed over";
    "pooler.killed-after-confirm" 1 false false relay::killed_after_confirm, "the same, and SIGKILL when a batch is confirmed";
    "pooler.killed-during-settle" 1 false false relay::killed_during_settle, "the same, and SIGKILL 1 ms after a settle was sent";
    "pooler.killed-during-hand-over" 2 false false relay::killed_during_give, "the same, and SIGKILL as a lane is given";
    "pooler.killed-during-shutdown" 1 false false relay::killed_during_drain, "the same, and SIGKILL when the drain has begun";
    "pooler.killed-at-random" 1 false false relay::killed_at_random, "the same, and SIGKILL at five random times";
    "poison.refused" 1 true false poison::refused, "one event in fifty can't be published: dead with a reason, the rest through";
    "poison.publisher-panics" 1 false false poison::publisher_panics, "one event of each broker makes its publisher panic each time: tried alone, then dead with that reason, its neighbours through";
}
