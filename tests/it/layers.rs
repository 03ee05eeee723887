//! Who may import whom. Reads the sources, not the compiler's mind: a path counts wherever it stands, in a `use` or in
//! the middle of an expression.
//!
//! Test code is not looked at: files named so, and everything after the first `#[cfg(test)]` in front of a module.

use std::fs;
use std::path::{Path, PathBuf};

/// What the code under a place may not name.
struct Rule {
    /// Folder or file, from the repository's root.
    place: &'static str,
    /// Modules of outrider that it may name, itself included. `None`: all.
    modules: Option<&'static [&'static str]>,
    /// Beginnings of paths that it may not name.
    never: &'static [&'static str],
}

/// Calls that read a clock. A pure rule is told the time.
const CLOCKS: [&str; 4] =
    ["std::time::Instant::now", "std::time::SystemTime::now", "tokio::time", "time::OffsetDateTime::now_utc"];

/// Crates of plugins. `outrider_broker` is the contract and not among them.
const PLUGINS: [&str; 5] =
    ["outrider_kafka", "outrider_memory", "outrider_nats", "outrider_rabbitmq", "outrider_stdout"];

const PURE: &[&str] = &[
    "sqlx",
    "actix",
    "actix_rt",
    "tokio",
    "tokio_util",
    "axum",
    "metrics",
    "tracing",
    "rand",
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
];

const RULES: &[Rule] = &[
    Rule { place: "src/outbox", modules: Some(&["outbox"]), never: PURE },
    Rule {
        place: "src/config",
        modules: Some(&["config", "outbox", "brokers"]),
        never: &["actix", "tokio", "axum", "metrics", "tracing"],
    },
    Rule {
        place: "src/store",
        modules: Some(&["store", "outbox", "failpoints"]),
        never: &["actix", "axum", "metrics"],
    },
    Rule {
        place: "src/actors",
        modules: Some(&["actors", "outbox", "config", "store", "telemetry", "failpoints"]),
        never: &["axum", "metrics", "tracing"],
    },
    Rule { place: "src/api", modules: Some(&["api", "actors::board"]), never: &["actix", "sqlx"] },
    Rule {
        place: "src/telemetry",
        modules: Some(&["telemetry", "actors::exit", "actors::permits", "config", "store"]),
        never: &["actix", "sqlx", "axum"],
    },
    // A claimer knows a recipient of batches, not who that is, and no broker; a publisher knows no tenant.
    Rule {
        place: "src/actors/claimer",
        modules: None,
        never: &["crate::actors::publisher", "crate::actors::supervisor"],
    },
    Rule {
        place: "src/actors/publisher",
        modules: Some(&["actors", "outbox::retry", "outbox::lease", "telemetry", "failpoints"]),
        never: &["crate::actors::claimer", "crate::actors::supervisor", "crate::actors::fleet"],
    },
    Rule {
        place: "src/actors/janitor",
        modules: None,
        never: &["crate::actors::publisher", "crate::actors::supervisor"],
    },
    // Pure parts of actors.
    Rule { place: "src/actors/supervisor/plan.rs", modules: None, never: PURE },
    Rule { place: "src/actors/supervisor/restart.rs", modules: None, never: PURE },
    Rule { place: "src/actors/claimer/pacing.rs", modules: None, never: PURE },
    Rule { place: "src/actors/claimer/ownership.rs", modules: None, never: PURE },
    Rule { place: "src/actors/publisher/breaker.rs", modules: None, never: PURE },
];

/// Where nothing may read a clock.
const NO_CLOCK: &[&str] = &[
    "src/outbox",
    "src/actors/supervisor/plan.rs",
    "src/actors/supervisor/restart.rs",
    "src/actors/claimer/pacing.rs",
    "src/actors/claimer/ownership.rs",
    "src/actors/publisher/breaker.rs",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A source file, without its tests.
struct Source {
    /// From the repository's root.
    place: String,
    paths: Vec<String>,
    code: String,
}

fn sources(under: &str) -> Vec<Source> {
    let mut files = Vec::new();
    gather(Path::new(under), &mut files);
    let sources: Vec<Source> = files.iter().map(|file| Source::read(file)).collect();
    assert!(!sources.is_empty(), "nothing under {under}");
    sources
}

fn gather(path: &Path, files: &mut Vec<PathBuf>) {
    if root().join(path).is_dir() {
        for entry in fs::read_dir(root().join(path)).unwrap() {
            gather(&path.join(entry.unwrap().file_name()), files);
        }
        return;
    }
    let place = path.to_str().unwrap();
    let is_test = place.ends_with("tests.rs") || place.contains("/tests/") || place.contains("test_");
    if place.ends_with(".rs") && !is_test {
        files.push(path.to_owned());
    }
}

impl Source {
    fn read(file: &Path) -> Source {
        let place = file.to_str().unwrap().to_owned();
        let code = code(&fs::read_to_string(root().join(file)).unwrap());
        Source { paths: paths(&code, &module(&place)), place, code }
    }

    fn is_in(&self, place: &str) -> bool {
        self.place == place || self.place.starts_with(&format!("{place}/"))
    }

    fn names(&self, beginning: &str) -> Option<&str> {
        self.paths.iter().map(String::as_str).find(|path| begins(path, beginning))
    }
}

/// `src/actors/claimer/mod.rs` is `["crate", "actors", "claimer"]`.
fn module(place: &str) -> Vec<String> {
    let inner = place.split_once("src/").map_or(place, |(_, inner)| inner).trim_end_matches(".rs");
    let parts = inner.split('/').filter(|part| !matches!(*part, "mod" | "lib" | "main"));
    ["crate"].into_iter().chain(parts).map(str::to_owned).collect()
}

/// Without comments and without the test module.
fn code(text: &str) -> String {
    let text = text.split_once("#[cfg(test)]\nmod tests").map_or(text, |(before, _)| before);
    let lines = text.lines().map(|line| match line.trim_start() {
        comment if comment.starts_with("//") => "",
        _ => line.split(" // ").next().unwrap_or_default(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn begins(path: &str, beginning: &str) -> bool {
    path.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path that the code names, from its root on: those of `use` trees one by one, with what a name that was imported
/// stands for put in where it is used.
fn paths(code: &str, module: &[String]) -> Vec<String> {
    let mut imported = Vec::new();
    let mut rest = code;
    while let Some((_, after)) = rest.split_once("use ") {
        let tree: String =
            after.split(';').next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
        expand("", &tree, &mut imported);
        rest = after;
    }
    let written = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let written = written.filter(|word| word.contains("::")).map(|word| word.trim_matches(':').to_owned());
    let mut paths = Vec::new();
    for path in written.chain(imported.iter().cloned()) {
        let (first, tail) = path.split_once("::").unwrap_or((&path, ""));
        for import in
            imported.iter().filter(|import| import.rsplit("::").next() == Some(first) && **import != path)
        {
            paths.push(absolute(&format!("{import}::{tail}"), module));
        }
        paths.push(absolute(&path, module));
    }
    paths
}

/// `a::{b, c::{self, d as e}}` is `a::b`, `a::c` and `a::c::d`.
fn expand(before: &str, tree: &str, all: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        let path = format!("{before}{name}");
        all.push(path.trim_end_matches("::self").to_owned());
        return;
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let before = format!("{before}{}", head.trim());
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, &inner[start..at], all);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&before, &inner[start..], all);
    }
}

/// Without `self` and `super`.
fn absolute(path: &str, module: &[String]) -> String {
    let mut base = module.to_vec();
    let mut rest = path;
    let mut relative = false;
    loop {
        if let Some(after) = rest.strip_prefix("super::") {
            base.pop();
            (rest, relative) = (after, true);
        } else if let Some(after) = rest.strip_prefix("self::") {
            (rest, relative) = (after, true);
        } else {
            return if relative { format!("{}::{rest}", base.join("::")) } else { rest.to_owned() };
        }
    }
}

#[test]
fn each_layer_names_only_what_is_below_it() {
    let mut wrong = Vec::new();
    for source in sources("src") {
        for rule in RULES.iter().filter(|rule| source.is_in(rule.place)) {
            for never in rule.never {
                wrong.extend(source.names(never).map(|path| format!("{}: {path}", source.place)));
            }
            let Some(modules) = rule.modules else { continue };
            let inside = source.paths.iter().filter_map(|path| path.strip_prefix("crate::"));
            let outside = inside.filter(|path| !modules.iter().any(|module| begins(path, module)));
            wrong.extend(outside.map(|path| format!("{}: crate::{path}", source.place)));
        }
    }
    assert!(wrong.is_empty(), "these imports go uphill:\n{}", wrong.join("\n"));
}

#[test]
fn pure_rules_read_no_clock() {
    for place in NO_CLOCK {
        for source in sources(place) {
            for clock in CLOCKS {
                assert_eq!(source.names(clock), None, "{} reads a clock", source.place);
            }
        }
    }
}

#[test]
fn actix_axum_and_the_plugins_are_named_in_their_places_only() {
    let places: [(&[&str], &[&str]); 4] = [
        (&["actix", "actix_rt"], &["src/actors", "src/run.rs"]),
        (&["axum"], &["src/api"]),
        (&PLUGINS, &["src/brokers.rs"]),
        (&["figment"], &["src/config"]),
    ];
    for source in sources("src") {
        for (crates, allowed) in places {
            let named = crates.iter().find_map(|name| source.names(name));
            let here = allowed.iter().any(|place| source.is_in(place));
            assert!(here || named.is_none(), "{} names {named:?}", source.place);
        }
    }
    // Every rule is about something that is there.
    for (crates, allowed) in places {
        let used = allowed.iter().flat_map(|place| sources(place));
        assert!(
            used.into_iter().any(|source| crates.iter().any(|name| source.names(name).is_some())),
            "{crates:?}"
        );
    }
}

#[test]
fn plugins_know_the_contract_and_nothing_else_of_outrider() {
    for source in sources("plugins") {
        if source.place.contains("/tests/") {
            continue;
        }
        for path in &source.paths {
            let name = path.split("::").next().unwrap_or_default();
            let foreign = name == "outrider" || name.starts_with("outrider_") && name != "outrider_broker";
            assert!(!foreign && !matches!(name, "sqlx" | "actix"), "{}: {path}", source.place);
        }
    }
}

#[test]
fn nothing_is_sent_past_a_mailboxs_bound() {
    for source in sources("src").into_iter().chain(sources("plugins")) {
        for past in [".do_send(", ".notify(", ".notify_later(", "::do_send", "AsyncContext::notify"] {
            assert!(!source.code.contains(past), "{} has `{past}`", source.place);
        }
    }
}

/// The reading itself: what the tests above would see of these lines.
#[test]
fn a_forbidden_import_is_seen_in_whatever_form_it_is_written() {
    let module = module("src/outbox/flow/topic.rs");
    assert_eq!(module, ["crate", "outbox", "flow", "topic"]);
    let seen =
        |text: &str, beginning: &str| paths(&code(text), &module).iter().any(|path| begins(path, beginning));
    for (text, beginning) in [
        ("use actix::Actor;", "actix"),
        ("use std::{fmt, time::{Duration, Instant}};\nfn f() { Instant::now(); }", "std::time::Instant::now"),
        ("use std::time::Instant as Clock;", "std::time::Instant"),
        ("fn f() { std::time::SystemTime::now() }", "std::time::SystemTime::now"),
        ("use std::time;\nfn f() { time::Instant::now() }", "std::time::Instant::now"),
        ("use crate::{\n    outbox::Event,\n    store::{self, Store},\n};", "crate::store"),
        ("use super::super::super::store::Store;", "crate::store"),
        ("fn f() -> crate::actors::Exit { todo!() }", "crate::actors"),
        ("use tokio;", "tokio"),
    ] {
        assert!(seen(text, beginning), "{text}");
    }
    for (text, beginning) in [
        ("// use actix::Actor;\nlet a = 1; // actix::Actor", "actix"),
        ("use super::super::Event;", "crate::store"),
        ("use actixes::Actor;", "actix"),
        ("fn f() {}\n#[cfg(test)]\nmod tests {\n    use tokio::time;\n}", "tokio"),
    ] {
        assert!(!seen(text, beginning), "{text}");
    }
}
