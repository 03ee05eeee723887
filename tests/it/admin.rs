//! The admin port of the real program: `/metrics`, `/healthz`, `/readyz`, and where it listens.

use std::collections::BTreeSet;
use std::net::TcpListener;

use outrider::brokers::Registry;
use outrider::config::{Config, Environment};
use outrider_test_support::daemon::Daemon;
use outrider_test_support::proxy::Mode;

use crate::cli_fixture::Cli;
use crate::relay::{SOON, Tenant, config_dir, program, proxied, until, until_within};

/// Where the names of all metrics are.
const NAMES: &str = include_str!("../../src/telemetry/metrics.rs");

/// A broker that works and takes 2,000 bytes, and one that nobody listens for.
const ROOT: &str = "\
    [brokers.good]\nkind = \"memory\"\nparams = { max_message_bytes = 2000 }\n\
    max_in_flight = { events = 77, bytes = \"1MiB\" }\n\
    [brokers.gone]\nkind = \"nats\"\nparams = { url = \"nats://127.0.0.1:1\" }\n\
    [[routes]]\ntopic = \"orders.*\"\nbroker = \"good\"\n\
    [[routes]]\ntopic = \"billing.*\"\nbroker = \"gone\"\n";

/// In a key, a payload and an id, and in no metric.
const MARKER: &str = "m4rk3r";

/// The labels that there are. None of them takes its values from events.
const LABELS: [&str; 9] =
    ["tenant", "broker", "outcome", "class", "role", "name", "reason", "le", "quantile"];

#[tokio::test]
async fn every_metric_is_there_and_says_what_is_so() {
    let tenant = Tenant::new("acme").await;
    let lost = Tenant::new("lost").await.at("postgres://postgres@127.0.0.1:1/none");
    for (topic, size) in [("orders.new", 10), ("orders.new", 5_000), ("billing.new", 10), ("stray", 10)] {
        let payload = MARKER.repeat(size / MARKER.len() + 1);
        tenant.insert(topic, Some(&format!("{MARKER}-{topic}-{size}")), payload.as_bytes()).await;
    }
    let program = program(ROOT, &[&tenant, &lost]);
    let daemon = program.start().await.unwrap();
    // The janitor's figures are those of its last round, and it goes round every 30 s.
    until_within(2 * SOON, "all is counted", async || {
        let page = Page::of(&program).await;
        ["outrider_dead_events", "outrider_unrouted_topics"].iter().all(|name| page.is(name, "acme", 1.0))
            && page.is("outrider_pending_events", "acme", 2.0)
    })
    .await;
    let page = Page::of(&program).await;
    for (series, value) in [
        ("outrider_events_published_total{broker=\"good\",outcome=\"confirmed\"}", 1.0),
        ("outrider_events_published_total{broker=\"good\",outcome=\"refused\"}", 1.0),
        ("outrider_events_published_total{broker=\"gone\",outcome=\"unknown\"}", 0.0),
        ("outrider_publish_failures_total{broker=\"good\",class=\"too_large\"}", 1.0),
        ("outrider_events_claimed_total{tenant=\"acme\",broker=\"good\"}", 2.0),
        ("outrider_events_settled_total{tenant=\"acme\",outcome=\"sent\"}", 1.0),
        ("outrider_events_settled_total{tenant=\"acme\",outcome=\"dead\"}", 1.0),
        ("outrider_events_fenced_total{tenant=\"acme\"}", 0.0),
        ("outrider_claims_reclaimed_total{tenant=\"acme\"}", 0.0),
        ("outrider_in_flight_events{broker=\"good\"}", 0.0),
        ("outrider_in_flight_events_limit{broker=\"good\"}", 77.0),
        ("outrider_in_flight_bytes{broker=\"good\"}", 0.0),
        ("outrider_in_flight_bytes_limit{broker=\"good\"}", 1_048_576.0),
        ("outrider_breaker_open{broker=\"good\"}", 0.0),
        ("outrider_breaker_open{broker=\"gone\"}", 1.0),
        ("outrider_lanes_owned{tenant=\"acme\"}", 1.0),
        ("outrider_lanes_owned{tenant=\"lost\"}", 0.0),
        ("outrider_tenant_up{tenant=\"acme\"}", 1.0),
        ("outrider_tenant_up{tenant=\"lost\"}", 0.0),
        ("outrider_tenant_measured{tenant=\"acme\"}", 1.0),
        ("outrider_tenant_measured{tenant=\"lost\"}", 0.0),
        ("outrider_child_exits_total{role=\"claimer\",reason=\"panicked\"}", 0.0),
    ] {
        assert_eq!(page.value(series), Some(value), "{series}");
    }
    assert!(page.value("outrider_oldest_unsent_age_seconds{tenant=\"acme\"}").unwrap() > 0.0);
    assert!(page.value("outrider_claim_seconds_count{tenant=\"acme\"}").unwrap() >= 1.0);

    let names = declared();
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        page.describes(name);
    }
    let stray: Vec<&str> = page.names().filter(|name| !names.contains(name)).collect();
    assert!(stray.is_empty(), "not declared with the others: {stray:?}");
    page.has_few_labels();
    // C93, C96: no content and no id is a label, nor is it logged.
    let log = std::fs::read_to_string(program.log()).unwrap();
    for (what, text) in [("/metrics", &page.text), ("the log", &log)] {
        assert!(!text.contains(MARKER), "{what} shows content: {text}");
    }
    assert_eq!(daemon.end().await.unwrap().code(), Some(0));
}

// C99: what is alive is not restarted because a database is not.
#[tokio::test]
async fn readiness_follows_the_databases_and_health_the_process() {
    let tenant = Tenant::new("acme").await;
    let (database, url) = proxied(&tenant.database.url()).await;
    let tenant = tenant.at(&url);
    let program = program(ROOT, &[&tenant]);
    let daemon = program.start().await.unwrap();
    let ask = async |path: &str| program.ask(path).await.unwrap();
    assert!(ask("/readyz").await.starts_with("HTTP/1.1 200"), "a broker that is down is no reason");
    database.set(Mode::Refuse);
    database.cut();
    until("the tenant is not ready", async || ask("/readyz").await.starts_with("HTTP/1.1 503")).await;
    let reason = ask("/readyz").await;
    assert!(reason.contains("acme: failed to"), "{reason}");
    assert!(ask("/healthz").await.starts_with("HTTP/1.1 200"));
    database.set(Mode::Pass);
    until("it is ready again", async || ask("/readyz").await.starts_with("HTTP/1.1 200")).await;
    for (path, head) in [("/healthz", "HTTP/1.1 200"), ("/metrics", "HTTP/1.1 200"), ("/", "HTTP/1.1 404")] {
        assert!(ask(path).await.starts_with(head), "{path}");
    }
    let metrics = ask("/metrics").await;
    assert!(metrics.contains("content-type: text/plain; version=0.0.4"), "{metrics}");
    assert_eq!(daemon.end().await.unwrap().code(), Some(0));
}

#[test]
fn a_taken_port_is_a_clear_failure() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let cli = Cli::new("postgres://postgres@127.0.0.1:1/none");
    let output = cli.command(&["run"]).env("OUTRIDER_ADMIN__LISTEN", &address).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains(&address) && last.contains("`admin.listen`"), "{said}");
}

#[tokio::test]
async fn nobody_but_this_machine_is_answered_by_default() {
    let tenant = Tenant::new("acme").await;
    let dir = config_dir(ROOT, &[&tenant]);
    let loaded = Config::load(dir.path(), &Environment::default(), &Registry::builtin()).unwrap();
    assert!(loaded.config.admin.listen.ip().is_loopback(), "{}", loaded.config.admin.listen);
}

/// The names that `src/telemetry/metrics.rs` declares.
fn declared() -> BTreeSet<&'static str> {
    let constants = NAMES.lines().filter(|line| line.starts_with("pub const"));
    constants.filter_map(|line| line.split('"').nth(1)).collect()
}

/// `/metrics` as it was at one moment.
struct Page {
    text: String,
}

impl Page {
    async fn of(program: &Daemon) -> Self {
        let answer = program.ask("/metrics").await.unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Page { text: text.to_owned() }
    }

    /// Series with their values.
    fn series(&self) -> impl Iterator<Item = (&str, f64)> {
        let lines = self.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            (series, value.parse().unwrap_or_else(|error| panic!("{error}: {line}")))
        })
    }

    /// The value of one series; its labels in any order.
    fn value(&self, wanted: &str) -> Option<f64> {
        let parts = |series: &str| -> (String, BTreeSet<String>) {
            let (name, labels) = series.trim_end_matches('}').split_once('{').unwrap_or((series, ""));
            (name.to_owned(), labels.split(',').map(str::to_owned).collect())
        };
        let wanted = parts(wanted);
        self.series().find(|(series, _)| parts(series) == wanted).map(|(_, value)| value)
    }

    fn is(&self, name: &str, tenant: &str, value: f64) -> bool {
        self.value(&format!("{name}{{tenant=\"{tenant}\"}}")) == Some(value)
    }

    /// Names of the metrics that have a type.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
    }

    /// The metric has its help, its type and a series.
    fn describes(&self, name: &str) {
        let line = |start: &str| {
            let start = format!("{start} {name} ");
            self.text.lines().find_map(|line| line.strip_prefix(&start).map(str::to_owned))
        };
        let help = line("# HELP").unwrap_or_else(|| panic!("`{name}` has no help: {}", self.text));
        assert!(help.len() > 10, "`{name}`: {help}");
        let kind = line("# TYPE").unwrap_or_else(|| panic!("`{name}` has no type"));
        let (expected, series) = match name {
            _ if name.ends_with("_total") => ("counter", name.to_owned()),
            "outrider_claim_seconds" | "outrider_publish_seconds" | "outrider_settle_seconds" => {
                ("histogram", format!("{name}_bucket"))
            }
            _ => ("gauge", name.to_owned()),
        };
        assert_eq!(kind, expected, "`{name}`");
        let found = self.series().any(|(found, _)| found.split('{').next() == Some(&*series));
        assert!(found, "`{name}` has no series");
    }

    /// Labels are of a known set, and their values come from the config and the code.
    fn has_few_labels(&self) {
        for (series, _) in self.series() {
            let Some((_, labels)) = series.trim_end_matches('}').split_once('{') else { continue };
            for label in labels.split(',') {
                let (name, value) = label.split_once('=').unwrap_or_else(|| panic!("{series}"));
                assert!(LABELS.contains(&name), "the label `{name}` of {series}");
                let short = value.len() < 30 && !value.contains('-');
                assert!(short, "the label `{name}` of {series} looks like an id");
            }
        }
    }
}
