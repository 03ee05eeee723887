//! The commands as a user types them, without a server: texts, and exit codes.

use crate::cli_fixture::{Cli, Ended, outrider};

const URL: &str = "postgres://u:marker@127.0.0.1:1/acme";

#[test]
fn help_teaches_and_lists_the_exit_codes() {
    let help: Ended = outrider(&["--help"]).output().unwrap().into();
    assert_eq!(help.code, 0);
    for text in
        ["run", "migrate", "check", "config", "publish", "Examples:", "Exit codes:", "  3  `run` was stopped"]
    {
        assert!(help.out.contains(text), "`{text}` in\n{}", help.out);
    }
    for command in ["run", "migrate", "check", "config", "publish"] {
        let help: Ended = outrider(&[command, "--help"]).output().unwrap().into();
        assert_eq!(help.code, 0, "{command}");
        assert!(help.out.contains("Examples:\n  "), "{command}: {}", help.out);
    }
    let version: Ended = outrider(&["--version"]).output().unwrap().into();
    assert_eq!((version.code, version.out.trim()), (0, concat!("outrider ", env!("CARGO_PKG_VERSION"))));
}

#[test]
fn a_command_line_that_is_none_ends_with_2() {
    let none: [&[&str]; 7] = [
        &[],
        &["fly"],
        &["check", "--online"],
        &["publish", "--tenant", "acme"],
        &["publish", "--tenant", "acme", "--topic", "t", "--header", "novalue"],
        &["publish", "--tenant", "acme", "--topic", "t", "--payload", "a", "--payload-file", "b"],
        &["migrate", "--sql", "--dry-run"],
    ];
    for args in none {
        let ended: Ended = outrider(args).output().unwrap().into();
        assert_eq!(ended.code, 2, "{args:?}");
        assert!(ended.out.is_empty() && ended.err.contains("--"), "{args:?}: {ended:?}");
    }
}

#[test]
fn an_offline_check_says_that_the_config_is_right() {
    let ended = Cli::new(URL).run(&["check", "--offline"]);
    assert_eq!((ended.code, ended.out.trim()), (0, "config ok: 1 broker, 1 tenant"), "{ended:?}");
    let ended = Cli::new(URL).run(&["check", "--offline", "--json"]);
    assert_eq!(ended.json(), serde_json::json!({ "ok": true, "faults": [], "warnings": [] }));
}

#[test]
fn faults_end_every_command_with_1_and_are_all_listed() {
    let broken = Cli::new(URL)
        .root("[brokers.memory]\nkind = \"memry\"\n")
        .file("tenants/acme.toml", "database = { url = \"env:NOT_SET\" }\n");
    let commands: [&[&str]; 5] = [
        &["check"],
        &["config"],
        &["run"],
        &["migrate"],
        &["publish", "--tenant", "acme", "--topic", "t", "--payload", "x"],
    ];
    for args in commands {
        let ended = broken.run(args);
        assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{args:?}");
        let place =
            format!("{}/tenants/acme.toml:1: database.url = \"env:NOT_SET\"", broken.path().display());
        for text in
            ["outrider: failed to read the config: 2 faults\n", "brokers.memory.kind = \"memry\"", &place]
        {
            assert!(ended.err.contains(text), "{args:?}: `{text}` in {}", ended.err);
        }
    }
    let json = broken.run(&["check", "--offline", "--json"]);
    assert_eq!((json.code, json.json()["faults"].as_array().unwrap().len()), (1, 2));
    assert_eq!(json.json()["faults"][0]["key"], "brokers.memory.kind");
}

#[test]
fn warnings_are_shown_and_are_no_failure() {
    let cli = Cli::new(URL).file("tenants/acme.toml", &format!("database = {{ url = \"{URL}\" }}\n"));
    let ended = cli.run(&["check", "--offline"]);
    assert_eq!(ended.code, 0);
    assert!(ended.err.contains("warning: ") && ended.err.contains("database.url"), "{ended:?}");
    assert!(!format!("{ended:?}").contains("marker"));
}

#[test]
fn the_directory_can_be_named_in_two_ways() {
    let cli = Cli::new(URL);
    let mut named = outrider(&["check", "--offline", "--config"]);
    let ended: Ended = named.arg(cli.path()).env("ACME_URL", URL).output().unwrap().into();
    assert_eq!(ended.code, 0, "{ended:?}");
    let ended: Ended = outrider(&["check", "--offline"]).current_dir(cli.path()).output().unwrap().into();
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("config/outrider.toml") && ended.err.contains("`--config DIR`"), "{ended:?}");
}

#[test]
fn config_prints_what_counts_and_masks_secrets() {
    let cli = Cli::new(URL);
    let mut command = cli.command(&["config"]);
    let ended: Ended = command.env("OUTRIDER_DELIVERY__LEASE", "30s").output().unwrap().into();
    assert_eq!(ended.code, 0, "{ended:?}");
    let printed: toml::Table = toml::from_str(&ended.out).unwrap();
    assert_eq!(printed["tenants"]["acme"]["delivery"]["lease"].as_str(), Some("30s"));
    assert_eq!(printed["tenants"]["acme"]["database"]["url"].as_str(), Some("env:ACME_URL"));
    let json = cli.run(&["config", "--json"]);
    assert_eq!(json.json()["tenants"]["acme"]["routes"][0]["topic"], "orders.*");
    for ended in [ended, json] {
        assert!(!format!("{ended:?}").contains("marker"), "{ended:?}");
    }
}

#[test]
fn the_script_for_other_tools_needs_no_config() {
    let ended: Ended = outrider(&["migrate", "--sql", "--config", "/no/such/dir"]).output().unwrap().into();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    assert!(ended.out.contains("CREATE SCHEMA \"outrider\""), "{}", ended.out);
    let other = "database = { url = \"env:ACME_URL\", schema = \"relay\" }\n";
    let ended = Cli::new(URL).file("tenants/acme.toml", other).run(&["migrate", "--sql", "--tenant", "acme"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("CREATE SCHEMA \"relay\"") && !ended.out.contains("outrider.outbox"));
}

#[test]
fn an_unknown_tenant_is_a_failure_that_names_the_known() {
    for args in [
        &["migrate", "--tenant", "acne"][..],
        &["publish", "--tenant", "acne", "--topic", "t", "--payload", ""],
    ] {
        let ended = Cli::new(URL).run(args);
        assert_eq!(ended.code, 1);
        assert_eq!(ended.err.trim(), "outrider: failed to find tenant `acne` in the config; known: `acme`");
    }
}

#[test]
fn what_cannot_be_reached_is_named_and_the_rest_is_checked() {
    let cli = Cli::new(URL);
    let ended = cli.run(&["check"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let line = |start: &str| {
        let found =
            ended.out.lines().find(|line| line.split_whitespace().take(2).eq(start.split_whitespace()));
        found.unwrap_or_else(|| panic!("`{start}` in {}", ended.out)).to_owned()
    };
    assert!(line("broker memory").contains(" ok "), "{}", ended.out);
    assert!(line("tenant acme").contains("FAILED"), "{}", ended.out);
    assert!(ended.out.contains("127.0.0.1:1"), "{}", ended.out);

    let json = cli.run(&["check", "--json"]);
    assert_eq!((json.code, &json.json()["ok"]), (1, &serde_json::json!(false)));
    assert_eq!(json.json()["brokers"][0]["state"], "ok");
    assert_eq!(json.json()["tenants"][0]["state"], "failed");

    for args in [
        &["migrate"][..],
        &["migrate", "--dry-run"],
        &["publish", "--tenant", "acme", "--topic", "t", "--payload", ""],
    ] {
        let ended = cli.run(args);
        assert_eq!(ended.code, 1, "{args:?}");
        assert!(
            ended.err.starts_with("outrider: failed to connect to the database at `127.0.0.1:1`"),
            "{ended:?}"
        );
        assert!(!format!("{ended:?}").contains("marker"), "{ended:?}");
    }
}

#[test]
fn a_payload_that_cannot_be_read_is_a_failure() {
    let args = ["publish", "--tenant", "acme", "--topic", "t", "--payload-file", "/no/such/file"];
    let ended = Cli::new(URL).run(&args);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("read the payload from `/no/such/file`"), "{ended:?}");
}
