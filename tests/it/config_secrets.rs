//! C93: a secret of the config shows up nowhere, not even in the fault about it.

use secrecy::ExposeSecret;

use crate::config_fixture::{Fixture, ROOT, TENANT};

const MARKER: &str = "s3cr3t/m@rker";
const ENCODED: &str = "s3cr3t%2Fm%40rker";

fn assert_clean(what: &str, text: &str) {
    for secret in [MARKER, ENCODED, "s3cr3t", "m@rker"] {
        assert!(!text.contains(secret), "{what} shows the secret: {text}");
    }
}

#[test]
fn a_config_shows_no_secret() {
    let url = format!("postgres://u:{ENCODED}@127.0.0.1/acme");
    let root = ROOT.replace(
        "address = \"hub:1\"",
        &format!(
            "address = \"hub:1\", password = \"{MARKER}\", nested = {{ list = [\"{MARKER}\", \"env:MARKED\"] }}"
        ),
    );
    let fixture = Fixture::new()
        .root(&root)
        .tenant("literal", &format!("database = {{ url = \"{url}\" }}\n"))
        .tenant("file", "database = { url = \"file:url\" }\n")
        .file("url", format!("{url}\n"))
        .variable("ACME_URL", &url)
        .variable("MARKED", MARKER)
        .variable("OUTRIDER_TENANTS__VARIABLE__DATABASE__URL", &url);
    let loaded = fixture.load().unwrap();
    for tenant in loaded.config.tenants.values() {
        assert_eq!(tenant.database.url.expose_secret(), url, "and yet it is there");
    }
    assert_clean("Debug", &format!("{loaded:?} {loaded:#?}"));
    assert_clean("the TOML", &loaded.config.to_toml());
    assert_clean("the JSON", &loaded.config.to_json().to_string());
    for warning in &loaded.warnings {
        assert_clean("a warning", &warning.to_string());
    }
    assert_eq!(loaded.warnings.len(), 2, "the two literals: {:?}", loaded.warnings);
    let shown = loaded.config.to_json();
    assert_eq!(shown["tenants"]["acme"]["database"]["url"], "env:ACME_URL", "a reference is no secret");
    assert_eq!(shown["tenants"]["literal"]["database"]["url"], "[masked]");
    assert_eq!(shown["brokers"]["hub"]["params"]["address"], "hub:1");
    assert_eq!(shown["brokers"]["hub"]["params"]["password"], "[masked]");
    assert_eq!(shown["brokers"]["hub"]["params"]["nested"]["list"][1], "env:MARKED");
}

/// Each of these has a fault near or in the secret.
#[test]
fn a_fault_shows_no_secret() {
    let tenants = [
        format!("database = {{ url = \"mysql://u:{MARKER}@h/d\" }}"),
        format!("database = {{ url = \"postgres://u:{MARKER}:x@h/d\" }}"),
        format!("database = {{ url = \"postgres://u:{ENCODED}@h\" }}"),
        format!("database = {{ url = \"postgres://h/d?passwrod={ENCODED}\" }}"),
        format!("database = {{ url = \"postgres://h/d?sslmode={ENCODED}\" }}"),
        format!("database = {{ url = [\"{MARKER}\"] }}"),
        format!("database = {{ ulr = \"{MARKER}\" }}"),
        format!("database = {{ url = {{ password = \"{MARKER}\" }} }}"),
        format!("databse = {{ url = \"{MARKER}\" }}"),
        format!("password = \"{MARKER}\""),
        format!("database = {{ url = \"{MARKER} }}"),
        format!("database.url = {MARKER}"),
        format!("database.url = \"\"\"\n{MARKER}\nurl={MARKER}"),
        format!("database.url = \"\"\"\n{MARKER}\"\"\" {MARKER}"),
        format!("[database]\nurl \"{MARKER}\""),
        format!("[\"{MARKER}\"\n"),
        format!("url = \"a\"\nurl = \"{MARKER}\""),
        MARKER.to_owned(),
    ];
    for text in tenants {
        let errors = Fixture::new().tenant("acme", &text).load().expect_err(&text);
        assert_clean(&text, &errors.to_string());
        assert_clean(&text, &format!("{errors:?}"));
        assert_clean(&text, &serde_json::to_string(&errors.faults).unwrap());
    }
    let params = [
        format!("address = 5, password = \"{MARKER}\""),
        format!("address = \"x\", pasword = \"{MARKER}\""),
        format!("address = [\"{MARKER}\"]"),
        format!("address = \"x\", limit = \"{MARKER}\", more = \"{MARKER}\""),
        format!("address = \"{MARKER}"),
    ];
    for params in params {
        let root = ROOT.replace("address = \"hub:1\"", &params);
        let errors = Fixture::new().root(&root).load().expect_err(&params);
        assert_clean(&params, &errors.to_string());
    }
    let errors = Fixture::new().tenant("acme", TENANT).variable("ACME_URL", MARKER).load().unwrap_err();
    assert_clean("a variable", &errors.to_string());
    let errors = Fixture::new().variable("OUTRIDER_BROKERS__HUB__PARAMS", MARKER).load().unwrap_err();
    assert_clean("an override", &errors.to_string());
}

#[test]
fn a_missing_reference_is_named() {
    let errors = Fixture::new().without_variable("ACME_URL").load().unwrap_err();
    assert!(errors.to_string().contains("`ACME_URL`, which is not set"), "{errors}");
    let errors = Fixture::new().tenant("acme", "database.url = \"file:/no/such/file\"").load().unwrap_err();
    assert!(errors.to_string().contains("`/no/such/file`, which could not be read"), "{errors}");
}
