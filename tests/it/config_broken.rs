//! C86: half a file, or any text at all, is a config or a fault, and never a panic.

use proptest::prelude::*;

use crate::config_fixture::{Fixture, ROOT};

const WHOLE_TENANT: &str = "[database]\nurl = \"env:ACME_URL\" # täglich\nschema = \"outrider\"\n\n\
    [delivery]\nlease = \"20s\"\nbackoff = { base = \"1s\", max = \"2m\" }\n\n\
    [[routes]]\ntopic = \"a.*\"\nbroker = \"hub\"\nto = { name = \"{tenant}.{topic}\" }\n";

#[test]
fn a_file_cut_at_any_length_is_a_config_or_a_fault() {
    for length in 0..=WHOLE_TENANT.len() {
        let fixture = Fixture::new().file("tenants/acme.toml", &WHOLE_TENANT.as_bytes()[..length]);
        if let Err(errors) = fixture.load() {
            assert!(!errors.faults.is_empty());
            let in_file = errors.faults.iter().all(|fault| fault.place.to_string().contains("acme.toml"));
            assert!(in_file, "cut at {length}: {errors}");
        }
    }
    Fixture::new().tenant("acme", WHOLE_TENANT).config();
    for length in 0..=ROOT.len() {
        let fixture = Fixture::new().file("outrider.toml", &ROOT.as_bytes()[..length]);
        if let Err(errors) = fixture.load() {
            assert!(!errors.faults.is_empty(), "cut at {length}");
        }
    }
}

/// Texts on which parsers of values in variables have panicked.
#[test]
fn a_variable_with_escapes_or_endless_brackets_is_a_fault() {
    for value in
        ["[\"\u{3065}\\x", "[\"\u{3065}\\n\"]", &"[".repeat(100_000), &"{a=".repeat(30_000), "[\n]\nb = 1"]
    {
        let faults = Fixture::new().variable("OUTRIDER_DELIVERY__BACKOFF", value).faults();
        assert!(faults.iter().all(|fault| fault.contains("backoff")), "{faults:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_config_or_a_fault(text in "(\\[{0,2}[a-z.]{0,8}\\]{0,2}|[a-z_\"]{1,8} ?= ?[\\[{\"0-9a-z:}\\]é]{0,12}|\n|#.{0,5}){0,12}") {
        if let Err(errors) = Fixture::new().tenant("acme", &text).root(&text).load() {
            prop_assert!(!errors.to_string().is_empty());
        }
    }

    #[test]
    fn any_variable_is_an_override_or_a_fault(name in "[A-Z_]{0,30}", value in any::<String>()) {
        let fixture = Fixture::new().variable(&format!("OUTRIDER_{name}"), &value)
            .variable("OUTRIDER_DELIVERY__BACKOFF", &value)
            .variable("OUTRIDER_ROUTES", &value);
        if let Err(errors) = fixture.load() {
            prop_assert!(!errors.to_string().is_empty());
        }
    }
}
