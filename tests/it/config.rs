//! Every rule of the config, each with an input that breaks it, and all of them at once.

use std::time::Duration;

use outrider::config::{Bounds, Delivery, InFlight, Retention, Shape};
use outrider::outbox::OnDead;

use crate::config_fixture::{Fixture, ROOT, TENANT};

fn bounds(min: u64, max: u64) -> Bounds {
    Bounds { min: Duration::from_secs(min), max: Duration::from_secs(max) }
}

#[test]
fn a_small_config_gets_the_defaults() {
    let config = Fixture::new().config();
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:9464");
    assert_eq!(config.shutdown.grace, Duration::from_secs(20));
    assert_eq!(config.log.filter, "info");
    let hub = &config.brokers["hub"];
    assert_eq!((hub.publish_deadline, hub.connect_timeout), (bounds(8, 15), Duration::from_secs(10)));
    assert_eq!((hub.max_in_flight, hub.shape), (InFlight::default(), Shape::CloudEvents));
    let acme = &config.tenants["acme"];
    assert_eq!(acme.delivery, Delivery::default());
    assert_eq!(acme.retention, Retention { sent: Duration::from_secs(604_800) });
    assert_eq!(acme.database.schema.as_str(), "outrider");
    let route = acme.routes.find("orders").unwrap();
    assert_eq!(route.to.render("acme", "orders", "kind", None)["name"], "orders");
}

#[test]
fn five_faults_are_listed_as_five() {
    let fixture = Fixture::new()
        .root(
            "[admin]\nlisten = \"localhost\"\n[delivery]\nleas = \"15s\"\nmax_refusals = \"ten\"\n\
             [brokers.hub]\nkind = \"fake\"\nparams = { address = \"hub:1\" }\n\
             [[routes]]\ntopic = \"orders.*\"\nbroker = \"hubb\"\n",
        )
        .tenant("acme", "[database]\nurl = \"env:NOT_SET\"\n");
    let errors = fixture.load().unwrap_err();
    let dir = fixture.path().display();
    let expected = format!(
        "read the config: 5 faults\n\n\
         {dir}/outrider.toml:2: admin.listen = \"localhost\"\n    must be an IP address and a port\n    \
         help: write it as \"127.0.0.1:9464\" or \"[::]:9464\"\n\n\
         {dir}/outrider.toml:4: delivery.leas\n    is not a key of outrider\n    help: did you mean `lease`?\n\n\
         {dir}/outrider.toml:5: delivery.max_refusals = \"ten\"\n    must be a whole number\n    \
         help: write it without quotes and without a unit, such as 500\n\n\
         {dir}/outrider.toml:11: routes[0].broker = \"hubb\"\n    names a broker that there is no section for\n    \
         help: write one of `hub`\n\n\
         {dir}/tenants/acme.toml:2: database.url = \"env:NOT_SET\"\n    \
         refers to the environment variable `NOT_SET`, which is not set\n    \
         help: set `NOT_SET` for outrider, or refer to another with `env:` or `file:`"
    );
    assert_eq!(errors.to_string(), expected);
}

/// One broken rule of `outrider.toml` a line: the text, and the one fault that it makes.
#[test]
fn each_rule_of_the_settings_has_its_fault() {
    let cases = [
        ("admin = 5", "outrider.toml:1: admin: must be a table"),
        ("admin.listen = 9464", "outrider.toml:1: admin.listen: must be a text"),
        ("admin.listen = \"127.0.0.1\"", "outrider.toml:1: admin.listen: must be an IP address and a port"),
        ("surprise = 1", "outrider.toml:1: surprise: is not a key of outrider"),
        ("replica.name = \"\"", "outrider.toml:1: replica.name: must have 1 to 128 characters"),
        ("log.format = \"xml\"", "outrider.toml:1: log.format: must be one of `text`, `json`"),
        ("log.filter = \"a=b=c\"", "outrider.toml:1: log.filter: must be filter directives"),
        ("shutdown.grace = 20", "outrider.toml:1: shutdown.grace: must be a duration"),
        ("shutdown.grace = \"20\"", "outrider.toml:1: shutdown.grace: must be a duration"),
        ("shutdown.grace = \"2d\"", "outrider.toml:1: shutdown.grace: must be between 100ms and 1h"),
        (
            "shutdown.grace = \"8s\"",
            "outrider.toml:1: shutdown.grace: must be more than the publish deadline",
        ),
        (
            "delivery.max_refusals = 0",
            "outrider.toml:1: delivery.max_refusals: must be between 1 and 1000000",
        ),
        ("delivery.max_refusals = -1", "outrider.toml:1: delivery.max_refusals: must be a whole number"),
        ("delivery.max_refusals = 1.5", "outrider.toml:1: delivery.max_refusals: must be a whole number"),
        ("delivery.max_unknown = 0", "outrider.toml:1: delivery.max_unknown: must be between"),
        (
            "delivery.batch_events = 10001",
            "outrider.toml:1: delivery.batch_events: must be between 1 and 10000",
        ),
        (
            "delivery.claims_in_flight = 0",
            "outrider.toml:1: delivery.claims_in_flight: must be between 1 and 64",
        ),
        (
            "delivery.on_dead = \"ignore\"",
            "outrider.toml:1: delivery.on_dead: must be one of `block`, `skip`",
        ),
        (
            "delivery.lease = \"12s\"",
            "outrider.toml:1: delivery.lease: two thirds of the lease must be more than",
        ),
        ("delivery.lease = \"2h\"", "outrider.toml:1: delivery.lease: must be between 1s and 1h"),
        ("delivery.lease.max = \"2h\"", "outrider.toml:1: delivery.lease.max: must be between 1s and 1h"),
        (
            "delivery.lease.max = \"10s\"",
            "outrider.toml:1: delivery.lease.max: must be at least `min`, which is 15s",
        ),
        (
            "delivery.lease = { min = \"2m\", max = \"1m\" }",
            "outrider.toml:1: delivery.lease.min: must be at most `max`, which is 1m",
        ),
        (
            "delivery.lease.min = \"12s\"",
            "outrider.toml:1: delivery.lease.min: two thirds of the lease must be more than",
        ),
        ("delivery.lease.least = \"12s\"", "outrider.toml:1: delivery.lease.least: is not a key of outrider"),
        ("delivery.lease = 15", "outrider.toml:1: delivery.lease: must be a duration or bounds of one"),
        ("delivery.poll.min = \"0ms\"", "outrider.toml:1: delivery.poll.min: must be between 1ms and 1m"),
        (
            "delivery.poll.min = \"2s\"",
            "outrider.toml:1: delivery.poll.min: must be at most `max`, which is 1s",
        ),
        (
            "delivery.poll.max = \"10ms\"",
            "outrider.toml:1: delivery.poll.max: must be at least `min`, which is 20ms",
        ),
        ("delivery.backoff.base = \"6m\"", "outrider.toml:1: delivery.backoff.base: must be at most `max`"),
        ("delivery.backoff = \"5m\"", "outrider.toml:1: delivery.backoff: must be a table"),
        ("delivery.backoff.factor = 1000", "outrider.toml:1: delivery.backoff.factor: is not a key"),
        (
            "delivery.order_horizon = \"0s\"",
            "outrider.toml:1: delivery.order_horizon: must be between 1s and 1d",
        ),
        ("retention.sent = \"0d\"", "outrider.toml:1: retention.sent: must be between 1s and 3650d"),
        ("tenants.acme.database.url = \"x\"", "outrider.toml:1: tenants: tenants have no place in this file"),
        (
            "brokers.Hub.kind = \"fake\"\nbrokers.Hub.params.address = \"x\"",
            "outrider.toml:1: brokers.Hub: `Hub` is no",
        ),
        ("brokers.a.kind = \"kafak\"", "outrider.toml:1: brokers.a.kind: is not a kind of broker"),
        ("brokers.a.params = {}", "outrider.toml:1: brokers.a.kind: is required"),
        ("brokers.a.kind = \"fake\"", "outrider.toml:1: brokers.a.params.address: must be an address"),
        (
            "brokers.a.kind = \"fake\"\nbrokers.a.params.address = \"env:NOT_SET\"",
            "outrider.toml:2: brokers.a.params.address: refers to the environment variable `NOT_SET`",
        ),
    ];
    for (text, expected) in cases {
        let faults = Fixture::new().setting(text).faults();
        assert_eq!(faults.len(), 1, "{text}: {faults:#?}");
        assert!(faults[0].starts_with(expected), "{text}:\n{}\n{expected}", faults[0]);
    }
}

/// Likewise for keys of the broker and the route of [`ROOT`].
#[test]
fn each_rule_of_brokers_and_routes_has_its_fault() {
    let broker = |line: &str| ROOT.replace("kind = \"fake\"\n", &format!("kind = \"fake\"\n{line}\n"));
    let route = |from: &str, to: &str| ROOT.replace(from, to);
    let cases = [
        (
            broker("shape = \"avro\""),
            "outrider.toml:3: brokers.hub.shape: must be one of `cloudevents`, `debezium`",
        ),
        (
            broker("publish_deadline = \"1ms\""),
            "outrider.toml:3: brokers.hub.publish_deadline: must be between 50ms",
        ),
        (
            broker("publish_deadline.max = \"1s\""),
            "outrider.toml:3: brokers.hub.publish_deadline.max: must be at least `min`, which is 8s",
        ),
        (
            broker("connect_timeout = \"1h\""),
            "outrider.toml:3: brokers.hub.connect_timeout: must be between 50ms",
        ),
        (
            broker("max_in_flight.events = 0"),
            "outrider.toml:3: brokers.hub.max_in_flight.events: must be between 1",
        ),
        (
            broker("max_in_flight.bytes = 64"),
            "outrider.toml:3: brokers.hub.max_in_flight.bytes: must be a size",
        ),
        (
            broker("max_in_flight.bytes = \"1B\""),
            "outrider.toml:3: brokers.hub.max_in_flight.bytes: must be between 1KiB",
        ),
        (broker("publish_dedline = \"1s\""), "outrider.toml:3: brokers.hub.publish_dedline: is not a key"),
        (
            route("address = \"hub:1\"", "address = \"hub:1\", limit = 9999")
                .replace("kind", "max_in_flight.events=10000\nkind"),
            "outrider.toml:2: brokers.hub.max_in_flight.events: must be at most 9999",
        ),
        (
            route("address = \"hub:1\"", "address = \"hub:1\", limit = 65535")
                .replace("kind", "max_in_flight.bytes=\"64KiB\"\nkind"),
            "outrider.toml:2: brokers.hub.max_in_flight.bytes: must be at most 65535B",
        ),
        (
            route("address = ", "adress = \"\", address = "),
            "outrider.toml:3: brokers.hub.params.adress: is not a parameter",
        ),
        (route("topic = \"*\"\n", ""), "outrider.toml:5: routes[0].topic: is required"),
        (route("topic = \"*\"", "topic = \"\""), "outrider.toml:6: routes[0].topic: must not be empty"),
        (route("broker = \"hub\"\n", ""), "outrider.toml:5: routes[0].broker: is required"),
        (
            route("\"{topic}\"", "\"{topc}\""),
            "outrider.toml:8: routes[0].to.name: is not a template: `{topc}` is not known",
        ),
        (
            route("\"{topic}\"", "\"{topic\""),
            "outrider.toml:8: routes[0].to.name: is not a template: a `{` has no `}`",
        ),
        (route("\"{topic}\"", "5"), "outrider.toml:8: routes[0].to.name: must be a text"),
        (route("name = ", "nme = "), "outrider.toml:8: routes[0].to.nme: is not a part of a destination"),
        (route("to = ", "on_dead = \"?\"\nto = "), "outrider.toml:8: routes[0].on_dead: must be one of"),
    ];
    for (text, expected) in cases {
        let faults = Fixture::new().root(&text).faults();
        assert_eq!(faults.len(), 1, "{text}: {faults:#?}");
        assert!(faults[0].starts_with(expected), "{text}:\n{}\n{expected}", faults[0]);
    }
}

#[test]
fn each_rule_of_a_tenant_has_its_fault() {
    let cases = [
        ("", "tenants/acme.toml: database.url: is required"),
        ("database = \"x\"", "tenants/acme.toml:1: database: must be a table"),
        ("database = { url = 5 }", "tenants/acme.toml:1: database.url: must be a text"),
        (
            "database = { url = \"mysql://h/d\" }",
            "tenants/acme.toml:1: database.url: must be a PostgreSQL URL",
        ),
        ("database = { url = \"postgres://h\" }", "tenants/acme.toml:1: database.url: must name a database"),
        ("database = { url = \"file:none\" }", "tenants/acme.toml:1: database.url: refers to the file `"),
        (
            "database = { url = \"env:ACME_URL\", schema = \"Out\" }",
            "tenants/acme.toml:1: database.schema: must be a plain",
        ),
        (
            "database = { url = \"env:ACME_URL\", schema = \"x\\\";drop\" }",
            "tenants/acme.toml:1: database.schema: must be",
        ),
        (
            "database = { url = \"env:ACME_URL\", pooling = \"statement\" }",
            "tenants/acme.toml:1: database.pooling: must be one of `session`, `transaction`",
        ),
        (
            "weight = 2\ndatabase = { url = \"env:ACME_URL\" }",
            "tenants/acme.toml:1: weight: is not a key of outrider",
        ),
        (
            "database = { url = \"env:ACME_URL\" }\ndelivery.lease = \"12s\"",
            "tenants/acme.toml:2: delivery.lease: two thirds of the lease must be more than 8500ms",
        ),
        (
            "database = { url = \"env:ACME_URL\" }\nroutes = [{ topic = \"a\", broker = \"x\" }]",
            "tenants/acme.toml:2: routes[0].broker: names a broker that there is no section for",
        ),
        (
            "database = { url = \"env:ACME_URL\" }\nroutes = [1]",
            "tenants/acme.toml:2: routes[0]: must be a table",
        ),
    ];
    for (text, expected) in cases {
        let faults = Fixture::new().tenant("acme", text).faults();
        assert_eq!(faults.len(), 1, "{text}: {faults:#?}");
        assert!(faults[0].starts_with(expected), "{text}:\n{}\n{expected}", faults[0]);
    }
}

#[test]
fn a_tenant_is_named_by_its_file() {
    let faults = Fixture::new().tenant("Acme Corp", TENANT).faults();
    assert!(faults[0].starts_with("tenants/Acme Corp.toml: : `Acme Corp` is no tenant name"), "{faults:?}");
    let config = Fixture::new().tenant(".hidden", "no toml").file("tenants/readme.md", "no toml").config();
    assert_eq!(config.tenants.len(), 1);
}

#[test]
fn a_broken_file_hides_no_fault_of_another() {
    let fixture = Fixture::new()
        .tenant("bad", "[database\nurl = \"x\"\n")
        .tenant("worse", [0xff, 0xfe].map(char::from).iter().collect::<String>().as_str())
        .file("tenants/binary.toml", [0xff, 0xfe])
        .tenant("wrong", "database = { url = \"env:NOT_SET\" }\ndelivery = { lease = 15 }\n");
    let faults = fixture.faults();
    let starts = [
        "tenants/bad.toml:1: : is not TOML at line 1, column ",
        "tenants/binary.toml: : could not be read",
        "tenants/worse.toml:1: : is not TOML at line 1, column ",
        "tenants/wrong.toml:1: database.url: refers to the environment variable",
        "tenants/wrong.toml:2: delivery.lease: must be a duration",
    ];
    assert_eq!(faults.len(), starts.len(), "{faults:#?}");
    for start in starts {
        assert!(faults.iter().any(|fault| fault.starts_with(start)), "{start} in {faults:#?}");
    }
}

#[test]
fn what_follows_from_a_fault_is_no_fault() {
    // Nothing is known of the brokers, so the routes' brokers are not called unknown.
    let faults = Fixture::new()
        .root("[brokers")
        .tenant("acme", &format!("{TENANT}routes = [{{ topic = 'a', broker = 'x' }}]"))
        .faults();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    // The deadline is not known, so the lease is not compared with the default.
    let faults = Fixture::new()
        .root(&ROOT.replace("kind", "publish_deadline = \"3x\"\nkind"))
        .tenant("acme", &format!("{TENANT}delivery.lease = \"10s\""))
        .faults();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    // Likewise for a broker that could not be checked.
    let faults = Fixture::new().root(&ROOT.replace("\"fake\"", "\"no\"")).faults();
    assert_eq!(faults.len(), 1, "{faults:#?}");
}

#[test]
fn a_missing_directory_is_a_fault() {
    let fixture = Fixture::new();
    std::fs::remove_file(fixture.path().join("outrider.toml")).unwrap();
    let faults = fixture.faults();
    assert!(faults[0].starts_with("outrider.toml: : could not be read"), "{faults:?}");
}

/// C05: what would overflow or never end is refused at load.
#[test]
fn an_absurd_backoff_is_refused() {
    for text in [
        "delivery.backoff.base = \"1000000000000000000s\"",
        "delivery.backoff.max = \"18446744073709551615ms\"",
        "delivery.backoff.max = \"2d\"",
        "delivery.backoff.base = \"0s\"",
        "delivery.backoff.base = 1e18",
        "delivery.max_refusals = 9223372036854775807",
    ] {
        let faults = Fixture::new().setting(text).faults();
        assert_eq!(faults.len(), 1, "{text}: {faults:#?}");
    }
}

#[test]
fn timing_is_checked_along_the_chain() {
    let slow = ROOT.replace("kind", "publish_deadline = \"30s\"\nkind");
    let faults = Fixture::new().root(&slow).faults();
    assert_eq!(faults.len(), 2, "{faults:#?}");
    assert!(faults[0].contains("delivery.lease: two thirds"), "{faults:#?}");
    assert!(faults[1].contains("shutdown.grace: must be more than"), "{faults:#?}");
    let errors = Fixture::new().root(&slow).load().unwrap_err();
    assert_eq!(errors.faults[0].value.as_deref(), Some("\"15s\" (the default)"));
    assert_eq!(errors.faults[0].remedy, "raise it to \"46s\", or lower `brokers.hub.publish_deadline`");
    // The remedy is one.
    let mended = format!("delivery.lease = \"46s\"\nshutdown.grace = \"31s\"\n{slow}");
    Fixture::new().root(&mended).config();
    // A tenant that does not use the slow broker may keep its lease.
    let two = format!(
        "shutdown.grace = \"31s\"\n{ROOT}[brokers.slow]\nkind = \"fake\"\npublish_deadline = \"30s\"\nparams.address = \"x\"\n"
    );
    Fixture::new().root(&two).config();
}

/// A lease and a deadline that adapt are within their bounds, and the rules hold at both ends.
#[test]
fn leases_and_deadlines_have_bounds() {
    let broker = |line: &str| ROOT.replace("kind = \"fake\"\n", &format!("kind = \"fake\"\n{line}\n"));
    let times = |root: &str| {
        let config = Fixture::new().root(root).config();
        (config.tenants["acme"].delivery.lease, config.brokers["hub"].publish_deadline)
    };
    let one = |seconds| Bounds::fixed(Duration::from_secs(seconds));
    assert_eq!(times(ROOT), (bounds(15, 60), bounds(8, 15)));
    assert_eq!(times(&format!("delivery.lease = \"20s\"\n{ROOT}")), (one(20), bounds(8, 15)));
    assert_eq!(
        times(&format!("delivery.lease.min = \"2m\"\n{ROOT}")).0,
        bounds(120, 120),
        "max rises with it"
    );
    assert_eq!(times(&format!("delivery.lease.max = \"2m\"\n{ROOT}")).0, bounds(15, 120));
    assert_eq!(times(&broker("publish_deadline = \"5s\"")).1, one(5));
    // What was a valid config before there were bounds is one still, though its lease or its grace period is short.
    assert_eq!(times(&format!("delivery.lease = \"13s\"\n{ROOT}")).0, one(13));
    assert_eq!(times(&format!("shutdown.grace = \"9s\"\n{ROOT}")).1, one(8));
    assert_eq!(times(&format!("shutdown.grace = \"15s\"\n{ROOT}")).1.max, Duration::from_millis(11_500));
    // A longest deadline that is written is meant.
    let long = broker("publish_deadline.max = \"50s\"")
        .replace("[brokers.hub]", "shutdown.grace = \"1m\"\n[brokers.hub]");
    let errors = Fixture::new().root(&long).load().unwrap_err();
    assert_eq!(errors.faults.len(), 1, "{errors}");
    let fault = &errors.faults[0];
    assert_eq!(
        (fault.key.as_str(), fault.value.as_deref()),
        ("delivery.lease", Some("\"1m\" (the default)"))
    );
    assert!(
        fault.rule.starts_with("two thirds of the longest lease must be more than 50500ms"),
        "{}",
        fault.rule
    );
    assert_eq!(fault.remedy, "raise it to \"76s\", or lower `brokers.hub.publish_deadline.max`");
    Fixture::new().root(&format!("delivery.lease.max = \"76s\"\n{long}")).config();
    // A tenant's own bounds are over those for all, each by itself.
    let own = format!("{TENANT}delivery.lease.max = \"30s\"");
    let config = Fixture::new().setting("delivery.lease.min = \"20s\"").tenant("acme", &own).config();
    assert_eq!(config.tenants["acme"].delivery.lease, bounds(20, 30));
}

#[test]
fn the_clients_own_limit_is_the_default_where_it_is_lower() {
    let config = Fixture::new().root(&ROOT.replace("hub:1\"", "hub:1\", limit = 4096")).config();
    assert_eq!(config.brokers["hub"].max_in_flight, InFlight { events: 4096, bytes: 4096 });
}

#[test]
fn the_environment_overrides_single_keys() {
    let config = Fixture::new()
        .setting("delivery.lease = \"20s\"")
        .variable("OUTRIDER_SHUTDOWN__GRACE", "30s")
        .variable("OUTRIDER_DELIVERY__MAX_REFUSALS", "3")
        .variable("OUTRIDER_DELIVERY__ON_DEAD", "skip")
        .variable("OUTRIDER_DELIVERY__BACKOFF", "{ base = \"2s\", max = \"3m\" }")
        .variable("OUTRIDER_TENANTS__ACME__DELIVERY__LEASE", "45s")
        .variable("OUTRIDER_TENANTS__OTHER__DATABASE__URL", "postgres://127.0.0.1/other")
        .variable("OUTRIDER_CONFIG", "elsewhere")
        .variable("OUTRIDER_SERVICE_PORT", "tcp://10.0.0.1")
        .config();
    assert_eq!(config.shutdown.grace, Duration::from_secs(30));
    let [acme, other] = ["acme", "other"].map(|name| &config.tenants[name]);
    assert_eq!((acme.delivery.max_refusals, acme.delivery.on_dead), (3, OnDead::Skip));
    assert_eq!(acme.delivery.backoff.max, Duration::from_secs(180));
    assert_eq!(
        (acme.delivery.lease, other.delivery.lease),
        (Bounds::fixed(Duration::from_secs(45)), Bounds::fixed(Duration::from_secs(20)))
    );

    let faults =
        Fixture::new().variable("OUTRIDER_SHUTDOWN__GRACE", "30").variable("OUTRIDER_X__Y", "1").faults();
    assert!(
        faults.iter().any(|fault| fault.starts_with("$OUTRIDER_SHUTDOWN__GRACE: shutdown.grace: ")),
        "{faults:?}"
    );
    assert_eq!(faults.len(), 2, "{faults:?}");
}

#[test]
fn a_tenants_routes_come_first_and_its_values_win() {
    let config = Fixture::new()
        .setting("delivery = { max_refusals = 5, max_unknown = 6, poll = { min = \"5ms\" } }")
        .tenant(
            "acme",
            &format!(
                "{TENANT}delivery = {{ max_refusals = 7, poll = {{ max = \"2s\" }} }}\nretention.sent = \"1h\"\n\
                 routes = [{{ topic = \"vip.*\", broker = \"hub\", to = {{ name = \"vip\" }}, on_dead = \"skip\" }}]"
            ),
        )
        .config();
    let acme = &config.tenants["acme"];
    assert_eq!((acme.delivery.max_refusals, acme.delivery.max_unknown), (7, 6));
    assert_eq!(
        (acme.delivery.poll.min, acme.delivery.poll.max),
        (Duration::from_millis(5), Duration::from_secs(2))
    );
    assert_eq!(acme.retention.sent, Duration::from_secs(3600));
    let vip = acme.routes.find("vip.orders").unwrap();
    assert_eq!((vip.on_dead, &*vip.pattern.to_string()), (Some(OnDead::Skip), "vip.*"));
    assert_eq!(acme.routes.find("orders").unwrap().pattern.to_string(), "*");
}

#[test]
fn what_is_doubtful_is_a_warning() {
    let route = |topic: &str, name: &str| {
        format!("[[routes]]\ntopic = \"{topic}\"\nbroker = \"hub\"\nto = {{ name = \"{name}\" }}\n")
    };
    let broker = ROOT.split("[[routes]]").next().unwrap();
    let with = |routes: &[String]| format!("{broker}{}", routes.concat());
    let cases = [
        (
            with(&[route("a", "x"), route("b", "x")]),
            "outrider.toml:12: routes[1].to: is also the destination of topic `a`",
        ),
        (with(&[route("a.*", "x")]), "outrider.toml:8: routes[0].to: merges all its topics"),
        (
            with(&[route("a.*", "{topic}"), route("a.b", "{topic}")]),
            "outrider.toml:10: routes[1].topic: never matches",
        ),
        (
            with(&[route("a", "{topic}"), route("a", "{topic}")]),
            "outrider.toml:10: routes[1].topic: never matches",
        ),
        (with(&[]).replace("[brokers", "replica = {}\n[brokers"), "tenants/acme.toml: : no route applies"),
        (
            format!("{ROOT}[brokers.idle]\nkind = \"fake\"\nparams.address = \"x\"\n"),
            "outrider.toml:9: brokers.idle: no tenant has a route to this broker",
        ),
        (
            ROOT.replace("hub:1\"", "hub:1\", window_s = 120"),
            "outrider.toml:1: brokers.hub: the broker remembers ids for 2m, and an event may be tried again for ",
        ),
        (
            ROOT.replace("hub:1\"", "hub:1\", password = \"marker\""),
            "outrider.toml:3: brokers.hub.params.password: seems to be a secret that stands in the file itself",
        ),
    ];
    for (text, expected) in cases {
        let warnings = Fixture::new().root(&text).warnings();
        assert!(warnings.iter().any(|warning| warning.starts_with(expected)), "{text}: {warnings:#?}");
    }
    assert_eq!(Fixture::new().warnings(), [] as [&str; 0], "the plain config has none");
    let roomy = ROOT.replace("hub:1\"", "hub:1\", window_s = 86400");
    assert_eq!(Fixture::new().root(&roomy).warnings(), [] as [&str; 0]);

    let empty = Fixture::new();
    std::fs::remove_file(empty.path().join("tenants/acme.toml")).unwrap();
    assert!(empty.warnings()[0].contains("there are no tenants"), "{:?}", empty.warnings());
}

#[test]
fn a_file_of_faults_is_not_listed_without_end() {
    let many: String = (0..5_000).map(|n| format!("key{n} = {n}\n")).collect();
    let faults = Fixture::new().setting(&many).faults();
    assert_eq!(faults.len(), 100);
    let huge = "#".repeat(10 << 20);
    assert!(Fixture::new().root(&huge).faults()[0].contains("larger than 1024 KiB"));
}
