//! Parameters as tables: what is accepted, and which key each fault names.

use serde_json::json;

use super::*;

const URL: &str = "amqp://app:s3cret@mq.example/orders";

fn params(value: Value) -> Params {
    value.as_object().cloned().unwrap()
}

fn fault_keys(value: Value) -> Vec<String> {
    let faults = parse(&params(value)).expect_err("has to be refused");
    for fault in &faults {
        assert!(!fault.rule.contains("s3cret"), "{fault:?}");
    }
    faults.into_iter().map(|fault| fault.key).collect()
}

#[test]
fn defaults() {
    let settings = parse(&params(json!({"url": URL}))).unwrap();
    assert_eq!(settings.uri.vhost, "orders");
    assert_eq!(settings.uri.query.heartbeat, Some(30));
    assert_eq!(settings.unroutable, Unroutable::Wait);
    assert!(settings.persistent);
    assert_eq!(settings.max_message_bytes, None);
    assert_eq!(settings.server(), "mq.example:5672");
}

#[test]
fn everything_given() {
    let settings = parse(&params(json!({
        "url": "amqps://app:s3cret@[::1]/orders",
        "vhost": "other",
        "heartbeat": "2m",
        "unroutable": "refuse",
        "persistent": false,
        "max_message_bytes": "16MiB",
        "ca": "-----BEGIN CERTIFICATE-----",
        "client_cert": "-----BEGIN CERTIFICATE-----",
        "client_key": "-----BEGIN PRIVATE KEY-----",
    })))
    .unwrap();
    assert_eq!(settings.uri.vhost, "other");
    assert_eq!(settings.uri.query.heartbeat, Some(120));
    assert_eq!(settings.unroutable, Unroutable::Refuse);
    assert!(!settings.persistent);
    assert_eq!(settings.max_message_bytes, Some(16 << 20));
    assert_eq!(settings.server(), "[::1]:5671");
    let tls = settings.tls();
    assert!(tls.identity.is_some() && tls.cert_chain.is_some());
}

/// C93
#[test]
fn debug_shows_no_secret() {
    let shown = format!("{:?}", parse(&params(json!({"url": URL}))).unwrap());
    assert!(!shown.contains("s3cret") && shown.contains("mq.example"), "{shown}");
}

#[test]
fn all_faults_at_once() {
    let keys = fault_keys(json!({
        "url": "http://app:s3cret@h", "vhost": "", "heartbeat": "0s", "unroutable": "drop", "persistent": "yes",
        "max_message_bytes": 0, "ca": "x", "client_cert": "-----BEGIN CERTIFICATE-----", "vhots": 1,
    }));
    assert_eq!(
        keys,
        [
            "vhots",
            "url",
            "vhost",
            "heartbeat",
            "unroutable",
            "persistent",
            "max_message_bytes",
            "ca",
            "client_key"
        ]
    );
    assert_eq!(fault_keys(json!({})), ["url"]);
    assert_eq!(fault_keys(json!({"url": URL, "ca": "-----BEGIN CERTIFICATE-----"})), ["ca"]);
}

#[test]
fn heartbeats() {
    for (text, seconds) in [("1s", 1), ("30s", 30), ("5m", 300), ("300s", 300)] {
        assert_eq!(heartbeat(&json!(text)), Ok(seconds), "{text}");
    }
    for wrong in
        [json!("0s"), json!("6m"), json!("301s"), json!("65536m"), json!("30"), json!("s"), json!(30)]
    {
        assert!(heartbeat(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn sizes() {
    for (value, size) in [(json!(1), 1), (json!("5"), 5), (json!("2KiB"), 2048), (json!("1 GiB"), 1 << 30)] {
        assert_eq!(bytes(&value), Ok(size), "{value}");
    }
    for wrong in
        [json!(0), json!(-1), json!(1.5), json!("MiB"), json!("1MB"), json!("99999999999GiB"), json!([])]
    {
        assert!(bytes(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn destinations() {
    let to = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    assert_eq!(destination(&to(&[])), Ok(to(&[("exchange", ""), ("routing_key", "{topic}")])));
    let given = to(&[("exchange", "billing"), ("routing_key", "{type}")]);
    assert_eq!(destination(&given), Ok(given.clone()));

    // C44: what is literal is checked whole, at load.
    let (fits, long) = ("r".repeat(255), "é".repeat(128));
    assert!(destination(&to(&[("routing_key", &fits)])).is_ok());
    let faults = destination(&to(&[("routing_key", &long), ("queue", "q")])).unwrap_err();
    assert_eq!(faults.iter().map(|fault| fault.key.as_str()).collect::<Vec<_>>(), ["queue", "routing_key"]);
}
