//! A config directory for a test, and a plugin that has rules and no broker.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use outrider::brokers::Registry;
use outrider::config::{Config, ConfigErrors, Environment, Loaded};
use outrider_broker::{
    Broker, Cause, ConnectError, ConnectOptions, Connection, ErrorClass, Facts, Fault, Params, Plugin,
    async_trait,
};
use tempfile::TempDir;

/// A small config without a fault: broker `hub`, a route for everything, tenant `acme`.
pub(crate) const ROOT: &str = "[brokers.hub]\nkind = \"fake\"\nparams = { address = \"hub:1\" }\n\n\
     [[routes]]\ntopic = \"*\"\nbroker = \"hub\"\nto = { name = \"{topic}\" }\n";
pub(crate) const TENANT: &str = "database = { url = \"env:ACME_URL\" }\n";

/// A directory with `outrider.toml` and `tenants/NAME.toml`, and an environment.
pub(crate) struct Fixture {
    dir: TempDir,
    environment: BTreeMap<String, String>,
}

impl Fixture {
    /// [`ROOT`], [`TENANT`], and `ACME_URL`.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tenants")).unwrap();
        let fixture = Fixture { dir, environment: BTreeMap::new() };
        fixture.root(ROOT).tenant("acme", TENANT).variable("ACME_URL", "postgres://u:p@127.0.0.1/acme")
    }

    pub(crate) fn root(self, text: &str) -> Self {
        self.file("outrider.toml", text)
    }

    /// Puts lines in front of [`ROOT`].
    pub(crate) fn setting(self, text: &str) -> Self {
        self.root(&format!("{text}\n{ROOT}"))
    }

    pub(crate) fn tenant(self, name: &str, text: &str) -> Self {
        self.file(&format!("tenants/{name}.toml"), text)
    }

    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.dir.path().join(name), content).unwrap();
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn without_variable(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn load(&self) -> Result<Loaded, ConfigErrors> {
        let environment: Environment = self.environment.clone().into_iter().collect();
        Config::load(self.path(), &environment, &Registry::new().with(FakePlugin))
    }

    /// The config, which must have no fault.
    pub(crate) fn config(&self) -> Config {
        self.load().unwrap_or_else(|errors| panic!("{errors}")).config
    }

    /// The faults, as `file: key: rule`, of which there must be some.
    pub(crate) fn faults(&self) -> Vec<String> {
        self.load().expect_err("there is a fault").faults.iter().map(|fault| self.brief(fault)).collect()
    }

    /// The warnings of a config without a fault, likewise.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let loaded = self.load().unwrap_or_else(|errors| panic!("{errors}"));
        loaded.warnings.iter().map(|warning| self.brief(&warning.0)).collect()
    }

    fn brief(&self, fault: &outrider::config::Fault) -> String {
        let place = fault.place.to_string();
        let place = place.strip_prefix(&format!("{}/", self.path().display())).unwrap_or(&place);
        format!("{place}: {}: {}", fault.key, fault.rule)
    }
}

/// `kind = "fake"`: `address` is required, `password` and `limit` are allowed; a destination is `name`.
struct FakePlugin;

impl Plugin for FakePlugin {
    fn kind(&self) -> &'static str {
        "fake"
    }

    fn parse(&self, params: &Params) -> Result<Arc<dyn Broker>, Vec<Fault>> {
        let known = ["address", "password", "limit", "window_s", "nested"];
        let unknown = params.keys().filter(|key| !known.contains(&key.as_str()));
        let mut faults: Vec<Fault> = unknown.map(|key| Fault::new(key, "is not a parameter")).collect();
        if !params.get("address").is_some_and(serde_json::Value::is_string) {
            faults.push(Fault::new("address", "must be an address"));
        }
        let number = |key: &str| params.get(key).and_then(serde_json::Value::as_u64);
        let limit = number("limit").map(|limit| limit as usize);
        let duplicate_window = number("window_s").map(Duration::from_secs);
        let facts = Facts { max_in_flight_events: limit, max_in_flight_bytes: limit, duplicate_window };
        if faults.is_empty() { Ok(Arc::new(FakeBroker(facts))) } else { Err(faults) }
    }

    fn public_params(&self) -> &'static [&'static str] {
        &["address"]
    }
}

#[derive(Debug)]
struct FakeBroker(Facts);

#[async_trait]
impl Broker for FakeBroker {
    fn destination(&self, to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        let unknown = to.keys().filter(|key| *key != "name");
        let faults: Vec<Fault> =
            unknown.map(|key| Fault::new(key, "is not a part of a destination")).collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let name = to.get("name").cloned().unwrap_or_else(|| "{topic}".to_owned());
        Ok(BTreeMap::from([("name".to_owned(), name)]))
    }

    fn facts(&self) -> Facts {
        self.0.clone()
    }

    async fn connect(&self, _: ConnectOptions) -> Result<Arc<dyn Connection>, ConnectError> {
        Err(ConnectError(Cause::broker(ErrorClass::Unreachable, "there is no such broker")))
    }
}
