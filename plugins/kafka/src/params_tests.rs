//! Parameters as tables: what is taken, what is refused and by which rule, and that no value is shown.

use serde_json::{Value, json};

use super::*;

const SECRET: &str = "s3cr3tThatNobodyMaySee";

fn parse(extra: &[(&str, Value)]) -> Result<Settings, Vec<Fault>> {
    let mut params = Params::new();
    params.insert("bootstrap.servers".to_owned(), json!("kafka-1:9092"));
    params.extend(extra.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Settings::parse(&params)
}

fn rule_of(name: &str, value: Value) -> Option<String> {
    let faults = parse(&[(name, value)]).err()?;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].key, name);
    Some(faults[0].rule.clone())
}

fn options(publish_deadline: Duration) -> ConnectOptions {
    ConnectOptions { client_name: "outrider/k".to_owned(), timeout: Duration::from_secs(1), publish_deadline }
}

#[test]
fn usual_parameters_are_taken() {
    for (name, value) in [
        ("bootstrap.servers", json!("a:1, b:65535,SSL://c:9093,d,[::1]:9092")),
        ("compression.type", json!("zstd")),
        ("compression.type", json!("lz4")),
        ("linger.ms", json!(5)),
        ("linger.ms", json!(0.5)),
        ("linger.ms", json!("1000")),
        ("socket.keepalive.enable", json!(false)),
        ("batch.size", json!(16384)),
        ("partitioner", json!("fnv1a_random")),
        ("security.protocol", json!("SSL")),
        ("topic.metadata.propagation.max.ms", json!(0)),
    ] {
        assert_eq!(rule_of(name, value.clone()), None, "{name} = {value}");
    }
}

#[test]
fn faults_say_the_rule() {
    for (name, value, rule) in [
        ("bootstrap.servers", json!(""), "host:port"),
        ("bootstrap.servers", json!("a:1,,b:2"), "host:port"),
        ("bootstrap.servers", json!("a:port"), "host:port"),
        ("bootstrap.servers", json!("a b:1"), "host:port"),
        ("bootstrap.servers", json!(null), "must be a text"),
        ("compression.type", json!("zip"), "none, gzip, snappy, lz4, zstd"),
        ("linger.ms", json!(-1), "0..900000"),
        ("linger.ms", json!(1001), "at most 1000"),
        ("queue.buffering.max.ms", json!(5000), "at most 1000"),
        ("linger.ms", json!("5 seconds"), "must be a number"),
        ("socket.keepalive.enable", json!("perhaps"), "true or false"),
        ("socket.timeout.ms", json!([1]), "must be a text"),
        ("partitioner", json!("random"), "murmur2_random"),
        ("partitioner", json!("clever"), "murmur2_random"),
        ("no.such.name", json!("x"), "not a parameter"),
        ("dr_cb", json!("x"), "not a value"),
        ("client.rack", json!("a\0b"), "NUL"),
        ("sasl.password", json!(SECRET), "no effect"),
        ("ssl.ca.location", json!("/ca.pem"), "no effect"),
    ] {
        let found = rule_of(name, value.clone());
        assert!(found.as_ref().is_some_and(|found| found.contains(rule)), "{name} = {value}: {found:?}");
    }
}

/// C27: what order and confirms depend on cannot be turned off.
#[test]
fn what_outrider_decides_is_refused() {
    for name in [
        "enable.idempotence",
        "acks",
        "request.required.acks",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "retries",
        "message.send.max.retries",
        "message.timeout.ms",
        "delivery.timeout.ms",
        "client.id",
        "transactional.id",
        "queuing.strategy",
        "delivery.report.only.error",
        "enable.gapless.guarantee",
        "metadata.broker.list",
        "group.id",
        "fetch.min.bytes",
        "statistics.interval.ms",
        "plugin.library.paths",
        "test.mock.num.brokers",
        "sasl.oauthbearer.config",
        "sasl.kerberos.keytab",
    ] {
        // Even with the value that outrider would use.
        for value in [json!("1"), json!("all"), json!(true)] {
            assert!(rule_of(name, value).is_some(), "{name}");
        }
    }
}

#[test]
fn every_fault_is_listed_at_once_and_none_shows_a_value() {
    let params = json!({
        "acks": SECRET, "linger.ms": SECRET, "no.such.name": SECRET, "security.protocol": SECRET,
        "sasl.mechanism": SECRET, "compression.type": SECRET, "compression.codec": SECRET,
        "socket.keepalive.enable": SECRET, "batch.size": [SECRET], "client.dns.lookup": SECRET,
    });
    let faults = Settings::parse(params.as_object().unwrap()).unwrap_err();
    let mut keys: Vec<_> = faults.iter().map(|fault| fault.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut expected: Vec<&str> = params.as_object().unwrap().keys().map(String::as_str).collect();
    expected.push("bootstrap.servers");
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert!(!format!("{faults:?}").contains(SECRET));
}

#[test]
fn sasl_needs_all_of_its_parameters() {
    let keys = |extra: &[(&str, Value)]| match parse(extra) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.into_iter().map(|fault| fault.key).collect(),
    };
    let protocol = ("security.protocol", json!("SASL_PLAINTEXT"));
    assert_eq!(keys(std::slice::from_ref(&protocol)), ["sasl.mechanism", "sasl.username", "sasl.password"]);
    let user = ("sasl.username", json!("u"));
    let password = ("sasl.password", json!(SECRET));
    let complete =
        [protocol.clone(), ("sasl.mechanism", json!("SCRAM-SHA-512")), user.clone(), password.clone()];
    assert_eq!(keys(&complete), [""; 0]);
    assert_eq!(keys(&[protocol, ("sasl.mechanism", json!("GSSAPI")), user, password]), ["sasl.mechanism"]);
}

#[test]
fn secrets_are_in_no_text() {
    let settings = parse(&[
        ("security.protocol", json!("sasl_ssl")),
        ("sasl.mechanism", json!("PLAIN")),
        ("sasl.username", json!("u")),
        ("sasl.password", json!(SECRET)),
        ("ssl.key.pem", json!("-----BEGIN")),
    ])
    .unwrap();
    assert!(!format!("{settings:?}").contains(SECRET));
    let text = settings.presentable(&format!("refused:\n  {SECRET} of -----BEGIN {}", "ä".repeat(1000)));
    assert!(text.starts_with("refused: *** of *** ä"), "{text}");
    assert!(text.len() <= TEXT_MAX);
    let config = settings.client_config(&options(Duration::from_secs(8)), Purpose::Publish);
    assert!(!format!("{config:?}").contains(SECRET));
}

#[test]
fn defaults_and_forced_values_reach_the_client() {
    let settings = parse(&[("linger.ms", json!(20))]).unwrap();
    assert_eq!(settings.message_max_bytes, 1_000_000);
    assert_eq!(settings.queue_messages, Some(100_000));
    assert_eq!(settings.queue_bytes, 1 << 30);
    let native = |purpose| {
        settings.client_config(&options(Duration::from_secs(8)), purpose).create_native_config().unwrap()
    };
    let publish = native(Purpose::Publish);
    for (name, value) in [
        ("enable.idempotence", "true"),
        ("acks", "-1"),
        ("message.timeout.ms", "6500"),
        ("client.id", "outrider/k"),
        ("partitioner", "murmur2_random"),
        ("topic.metadata.propagation.max.ms", "1000"),
        ("reconnect.backoff.max.ms", "2000"),
    ] {
        assert_eq!(publish.get(name).unwrap(), value, "{name}");
    }
    assert_eq!(publish.get("linger.ms").unwrap().parse::<f64>().unwrap(), 20.0);
    let isolate = native(Purpose::Isolate);
    assert_eq!(isolate.get("linger.ms").unwrap().parse::<f64>().unwrap(), 0.0);
    assert_eq!(isolate.get("batch.num.messages").unwrap(), "1");
}

#[test]
fn limits_follow_the_parameters() {
    let settings = parse(&[
        ("message.max.bytes", json!(2_000_000)),
        ("queue.buffering.max.messages", json!(0)),
        ("queue.buffering.max.kbytes", json!(64)),
    ])
    .unwrap();
    assert_eq!(settings.message_max_bytes, 2_000_000);
    assert_eq!(settings.queue_messages, None);
    assert_eq!(settings.queue_bytes, 65536);
}

/// C26: the client gives up before the deadline, with the second in which it looks for overdue messages to spare.
#[test]
fn the_client_gives_up_before_the_deadline() {
    for (deadline_ms, timeout_ms) in [(8000, 6500), (30_000, 28_500), (3000, 1500), (2000, 1000), (0, 10)] {
        let timeout = message_timeout(Duration::from_millis(deadline_ms));
        assert_eq!(timeout, Duration::from_millis(timeout_ms), "{deadline_ms}");
    }
}
