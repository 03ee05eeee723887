//! Which of librdkafka's parameter names outrider reserves, and small facts about the others. Data only.

/// Names of one thing: the usual one, and its second name.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("linger.ms", "queue.buffering.max.ms"),
    ("compression.type", "compression.codec"),
    ("sasl.mechanism", "sasl.mechanisms"),
];

/// Partitioners that give equal keys equal partitions. `random` does not, and with it a key has no order.
pub(crate) const PARTITIONERS: &[&str] =
    &["murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a"];

/// What this build of librdkafka has and outrider can drive (Kerberos needs cyrus-sasl, OAUTHBEARER a token
/// service).
pub(crate) const SASL_MECHANISMS: &[&str] = &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"];

/// Parameters that may be shown to anybody: addresses and tuning, nothing that identifies or authenticates.
pub(crate) const PUBLIC: &[&str] = &[
    "bootstrap.servers",
    "client.rack",
    "compression.level",
    "compression.type",
    "linger.ms",
    "message.max.bytes",
    "partitioner",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "sasl.mechanism",
    "sasl.mechanisms",
    "security.protocol",
];

/// Endings of names whose values are numbers.
pub(crate) const NUMERIC: &[&str] =
    &[".ms", ".bytes", ".kbytes", ".messages", ".size", ".level", ".ttl", ".fails", ".threshold"];

const FIXED: &str = "is fixed by outrider: confirms and order depend on idempotence, `acks=all` and librdkafka's \
                     own retries; remove it";
const DERIVED: &str = "follows from the section's `publish_deadline`: set that instead";
const NO_TRANSACTIONS: &str = "has no use: outrider does not write transactions; remove it";
const CONSUMER: &str = "is a consumer's parameter, and outrider only produces; remove it";
const UNUSED: &str = "is not used by outrider; remove it";
const NOT_BUILT: &str = "belongs to a SASL mechanism that is not supported: use PLAIN or SCRAM";

/// Names that a section must not give, each with the rule.
const RESERVED: &[(&str, &[&str])] = &[
    (
        FIXED,
        &[
            "enable.idempotence",
            "acks",
            "request.required.acks",
            "max.in.flight",
            "max.in.flight.requests.per.connection",
            "retries",
            "message.send.max.retries",
            "queuing.strategy",
            "queue.buffering.backpressure.threshold",
            "enable.gapless.guarantee",
            "delivery.report.only.error",
        ],
    ),
    (DERIVED, &["message.timeout.ms", "delivery.timeout.ms"]),
    (
        "is chosen by outrider: it holds the names of this section and of the program; remove it",
        &["client.id"],
    ),
    (NO_TRANSACTIONS, &["transactional.id", "transaction.timeout.ms"]),
    ("write `bootstrap.servers` instead", &["metadata.broker.list"]),
    ("is set by the log's filter, target `librdkafka`", &["log_level"]),
    (
        UNUSED,
        &[
            "builtin.features",
            "client.software.name",
            "client.software.version",
            "enabled_events",
            "internal.termination.signal",
            "log.queue",
            "log.thread.name",
            "plugin.library.paths",
            "produce.offset.report",
            "statistics.interval.ms",
            "test.mock.num.brokers",
            "test.mock.broker.rtt",
        ],
    ),
    (
        CONSUMER,
        &[
            "auto.commit.enable",
            "auto.commit.interval.ms",
            "auto.offset.reset",
            "check.crcs",
            "consume.callback.max.messages",
            "coordinator.query.interval.ms",
            "enable.auto.commit",
            "enable.auto.offset.store",
            "enable.partition.eof",
            "fetch.error.backoff.ms",
            "fetch.max.bytes",
            "fetch.message.max.bytes",
            "fetch.min.bytes",
            "fetch.queue.backoff.ms",
            "fetch.wait.max.ms",
            "group.id",
            "group.instance.id",
            "group.protocol",
            "group.protocol.type",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "isolation.level",
            "max.partition.fetch.bytes",
            "max.poll.interval.ms",
            "offset.store.method",
            "offset.store.path",
            "offset.store.sync.interval.ms",
            "partition.assignment.strategy",
            "queued.max.messages.kbytes",
            "queued.min.messages",
            "session.timeout.ms",
        ],
    ),
];

/// The rule against giving this name at all, if there is one.
pub(crate) fn reserved(name: &str) -> Option<&'static str> {
    let not_built = ["sasl.oauthbearer.", "sasl.kerberos.", "enable.sasl.oauthbearer.", "https."];
    if not_built.iter().any(|start| name.starts_with(start)) {
        return Some(NOT_BUILT);
    }
    if name.starts_with("test.") || name.starts_with("ut_") {
        return Some(UNUSED);
    }
    RESERVED.iter().find(|(_, names)| names.contains(&name)).map(|(rule, _)| *rule)
}

/// Whether the value is one that no log, error or `Debug` may show.
pub(crate) fn is_secret(name: &str) -> bool {
    ["password", "passphrase", "secret", ".pem"].iter().any(|ending| name.ends_with(ending))
}

/// The words that librdkafka takes, for the parameters where a wrong one is likely.
pub(crate) fn words(name: &str) -> Option<&'static str> {
    match name {
        "compression.type" | "compression.codec" => Some("none, gzip, snappy, lz4, zstd"),
        "security.protocol" => Some("plaintext, ssl, sasl_plaintext, sasl_ssl"),
        "partitioner" => Some("murmur2_random, murmur2, consistent_random, consistent, fnv1a_random, fnv1a"),
        "ssl.endpoint.identification.algorithm" => Some("https, none"),
        "broker.address.family" => Some("any, v4, v6"),
        _ => None,
    }
}
