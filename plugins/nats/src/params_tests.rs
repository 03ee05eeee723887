//! Parameters: what is accepted, which keys the faults of the rest name, and that no value is shown.

use serde_json::json;

use super::*;

/// A user's seed, new each time.
fn seed() -> String {
    nkeys::KeyPair::new_user().seed().unwrap()
}

fn parse(params: Value) -> Result<Settings, Vec<Fault>> {
    let Value::Object(params) = params else { panic!("parameters are a table") };
    Settings::parse(&params)
}

fn settings(params: Value) -> Settings {
    parse(params).unwrap()
}

#[test]
fn defaults() {
    let settings = settings(json!({ "url": "nats://localhost" }));
    assert_eq!(settings.addresses(), "localhost:4222");
    assert!(matches!(settings.auth, Auth::Anonymous));
    assert_eq!(settings.api_prefix, "$JS.API");
    assert_eq!(settings.inbox_prefix, "_INBOX");
    assert_eq!(settings.max_ack_inflight, 1000);
    assert_eq!(settings.duplicate_window, None);
}

#[test]
fn servers_and_their_user() {
    let settings = settings(json!({ "url": "nats://a%2Fb:c%40d@one:1, tls://a%2Fb:c%40d@[::1]:2" }));
    assert_eq!(settings.addresses(), "one:1, ::1:2");
    assert!(settings.servers[1].tls_required() && !settings.servers[0].tls_required());
    assert!(settings.servers.iter().all(|server| !server.has_user_pass() && server.password().is_none()));
    let Auth::Password { user, password } = settings.auth else { panic!() };
    assert_eq!((user.as_str(), password.as_str()), ("a/b", "c@d"));
}

#[test]
fn ways_to_log_in() {
    let seed = seed();
    let auth = |key: &str, value: &str| settings(json!({ "url": "nats://h", key: value })).auth;
    assert!(matches!(auth("token", "t"), Auth::Token(token) if token == "t"));
    assert!(matches!(auth("nkey", &seed), Auth::Nkey(text) if text == seed));
    assert!(matches!(settings(json!({ "url": "nats://t%25@h" })).auth, Auth::Token(token) if token == "t%"));
    let credentials = format!(
        "-----BEGIN NATS USER JWT-----\neyJ0.eyJq.c2ln\n------END NATS USER JWT------\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    );
    assert!(matches!(auth("credentials", &credentials), Auth::Credentials(text) if text == credentials));
}

#[test]
fn other_values() {
    let settings = settings(json!({
        "url": "tls://h", "domain": "hub", "inbox_prefix": "a.b", "max_ack_inflight": 7, "duplicate_window": "2m",
        "ca_file": "/ca.pem", "cert_file": "/cert.pem", "key_file": "/key.pem",
    }));
    assert_eq!(settings.api_prefix, "$JS.hub.API");
    assert_eq!(settings.inbox_prefix, "a.b");
    assert_eq!(settings.max_ack_inflight, 7);
    assert_eq!(settings.duplicate_window, Some(Duration::from_secs(120)));
    assert_eq!(settings.tls.ca, Some("/ca.pem".into()));
    assert_eq!(settings.tls.client, Some(("/cert.pem".into(), "/key.pem".into())));
}

#[test]
fn durations() {
    for (text, milliseconds) in
        [("500ms", 500), ("30s", 30_000), ("2 m", 120_000), ("1h", 3_600_000), ("7d", 604_800_000)]
    {
        assert_eq!(duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
    }
    for text in ["", "s", "5", "0s", "-1s", "1.5s", "1w", "99999999999999999999s", "18446744073709551615d"] {
        assert_eq!(duration(text), None, "{text}");
    }
}

#[test]
fn faults_name_their_keys() {
    let url = "nats://h";
    for (params, keys) in [
        (json!({}), vec!["url"]),
        (json!({ "url": "" }), vec!["url"]),
        (json!({ "url": ["nats://h"] }), vec!["url"]),
        (json!({ "url": "http://h" }), vec!["url"]),
        (json!({ "url": "ws://h" }), vec!["url"]),
        (json!({ "url": "nats://" }), vec!["url"]),
        (json!({ "url": "nats://h," }), vec!["url"]),
        (json!({ "url": "nats://h:port" }), vec!["url"]),
        (json!({ "url": "nats://a:b@h,nats://c:d@h" }), vec!["url"]),
        (json!({ "url": "nats://a:%ff@h" }), vec!["url"]),
        (json!({ "url": url, "urls": "x", "a": 1 }), vec!["a", "urls"]),
        (json!({ "url": url, "user": "a" }), vec!["password"]),
        (json!({ "url": url, "password": "a" }), vec!["user"]),
        (json!({ "url": url, "user": 1, "password": "a" }), vec!["user"]),
        (json!({ "url": url, "token": "a", "user": "a", "password": "b" }), vec!["user"]),
        (json!({ "url": "nats://a:b@h", "token": "a" }), vec!["token"]),
        (json!({ "url": url, "nkey": "UABC" }), vec!["nkey"]),
        (json!({ "url": url, "credentials": "no credentials" }), vec!["credentials"]),
        (json!({ "url": url, "cert_file": "/c" }), vec!["key_file"]),
        (json!({ "url": url, "key_file": "/c" }), vec!["cert_file"]),
        (json!({ "url": url, "domain": "a.b" }), vec!["domain"]),
        (json!({ "url": url, "domain": "a", "api_prefix": "b" }), vec!["domain"]),
        (json!({ "url": url, "api_prefix": "a..b" }), vec!["api_prefix"]),
        (json!({ "url": url, "inbox_prefix": "a.*" }), vec!["inbox_prefix"]),
        (json!({ "url": url, "max_ack_inflight": 0 }), vec!["max_ack_inflight"]),
        (json!({ "url": url, "max_ack_inflight": 65_537 }), vec!["max_ack_inflight"]),
        (json!({ "url": url, "max_ack_inflight": "7" }), vec!["max_ack_inflight"]),
        (json!({ "url": url, "duplicate_window": 120 }), vec!["duplicate_window"]),
        (json!({ "url": url, "duplicate_window": "2 minutes" }), vec!["duplicate_window"]),
        (
            json!({ "domain": 1, "max_ack_inflight": -1, "x": 1 }),
            vec!["domain", "max_ack_inflight", "url", "x"],
        ),
    ] {
        let mut faults: Vec<String> =
            parse(params.clone()).unwrap_err().into_iter().map(|fault| fault.key).collect();
        faults.sort();
        assert_eq!(faults, keys, "{params}");
    }
}

#[test]
fn no_secret_is_shown() {
    let secret = "hunter2";
    for params in [
        json!({ "url": "nats://u:hunter2@h" }),
        json!({ "url": "nats://hunter2@h" }),
        json!({ "url": "nats://h", "token": secret }),
        json!({ "url": "nats://h", "user": "u", "password": secret }),
    ] {
        let shown = format!("{:?}", settings(params));
        assert!(!shown.contains(secret), "{shown}");
    }
    for params in [
        json!({ "url": "nats://u:hunter2@h:port" }),
        json!({ "url": "hunter2://u:hunter2@h" }),
        json!({ "url": "nats://h", "nkey": secret }),
        json!({ "url": "nats://h", "credentials": secret }),
    ] {
        let shown = format!("{:?}", parse(params).unwrap_err());
        assert!(!shown.contains(secret), "{shown}");
    }
    let seed = seed();
    let shown = format!("{:?}", settings(json!({ "url": "nats://h", "nkey": seed })));
    assert!(!shown.contains(&seed), "{shown}");
}
