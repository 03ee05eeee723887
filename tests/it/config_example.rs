//! The repository's own `config/`: valid, and true about the defaults.

use std::path::Path;

use outrider::brokers::Registry;
use outrider::config::{Config, Environment};
use serde_json::Value as Json;

use crate::config_fixture::Fixture;

fn example() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/config"))
}

fn environment(names: &[&str]) -> Environment {
    let values = [
        ("ACME_DATABASE_URL", "postgres://u:p@127.0.0.1/acme"),
        ("RABBITMQ_URL", "amqp://u:p@127.0.0.1:5672/%2f"),
    ];
    values
        .into_iter()
        .filter(|(name, _)| names.contains(name))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn the_example_has_no_fault_and_no_warning() {
    let environment = environment(&["ACME_DATABASE_URL", "RABBITMQ_URL"]);
    let loaded = Config::load(example(), &environment, &Registry::builtin())
        .unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.warnings, []);
    let acme = &loaded.config.tenants["acme"];
    for (topic, broker) in [("orders.created", "kafka"), ("billing.paid", "rabbitmq"), ("other", "nats")] {
        assert_eq!(&*acme.routes.find(topic).unwrap().broker, broker);
    }
}

#[test]
fn without_its_variables_the_example_names_them() {
    let errors = Config::load(example(), &environment(&[]), &Registry::builtin()).unwrap_err();
    let rules: Vec<&str> = errors.faults.iter().map(|fault| fault.rule.as_str()).collect();
    assert_eq!(rules.len(), 2, "{errors}");
    assert!(rules[0].contains("`RABBITMQ_URL`") && rules[1].contains("`ACME_DATABASE_URL`"), "{errors}");
}

/// The values in the example are those that count where a config says nothing. What counts is printed with
/// every key, so none can be missing from the example either.
#[test]
fn the_example_has_the_defaults() {
    let text = std::fs::read_to_string(example().join("outrider.toml")).unwrap();
    let example: Json = serde_json::to_value(toml::from_str::<toml::Table>(&text).unwrap()).unwrap();
    let defaults = Fixture::new().config().to_json();
    for section in ["admin", "log", "shutdown"] {
        assert_eq!(example[section], defaults[section], "[{section}]");
    }
    for section in ["delivery", "retention"] {
        assert_eq!(example[section], defaults["tenants"]["acme"][section], "[{section}]");
    }
    let without_own = |broker: &Json| {
        let mut broker = broker.as_object().unwrap().clone();
        broker.remove("kind");
        broker.remove("params");
        broker
    };
    assert_eq!(without_own(&example["brokers"]["kafka"]), without_own(&defaults["brokers"]["hub"]));
}
