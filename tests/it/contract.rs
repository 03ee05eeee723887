//! The README's delivery contract names a test for every sentence, and every named test is there.
//!
//! What is expected of `README.md`:
//! - the contract is the list under the heading `## Delivery contract`, up to the next heading of any level; what stands
//!   between its items is free text;
//! - an item begins with `- ` and goes on in indented lines; an indented `- ` begins an item of its own;
//! - an item ends with one or more references in backticks, such as `` `backpressure::a_stalled_broker_is_left_alone` ``:
//!   the modules below `tests/it`, then the test function. Between and behind them stand only spaces and `,;.()[]`,
//!   or the word "and".
//!
//! A test that is made by a macro (`on_both_servers!`) is named by its function.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const HEADING: &str = "## Delivery contract";

#[test]
fn every_sentence_of_the_contract_names_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let items = items(&readme).unwrap_or_else(|| panic!("README.md has no `{HEADING}`"));
    assert!(items.len() >= 5, "README.md has {} items under `{HEADING}`", items.len());
    let faults = faults(&items, &root.join("tests/it"));
    assert!(faults.is_empty(), "README.md, delivery contract:\n{}", faults.join("\n"));
}

/// The items of the list, each in one line; `None` without the heading.
fn items(markdown: &str) -> Option<Vec<String>> {
    let mut lines = markdown.lines().skip_while(|line| line.trim_end() != HEADING);
    lines.next()?;
    let mut items: Vec<String> = Vec::new();
    let mut open = false;
    for line in lines.take_while(|line| !line.starts_with('#')) {
        let text = line.trim();
        if let Some(begun) = text.strip_prefix("- ") {
            items.push(begun.to_owned());
            open = true;
        } else if let (true, true, Some(item)) = (open, line.starts_with("  "), items.last_mut()) {
            item.push(' ');
            item.push_str(text);
        } else {
            open = false;
        }
    }
    Some(items)
}

/// References at the end of an item, the last one first.
fn references(item: &str) -> Vec<&str> {
    let mut references = Vec::new();
    let mut rest = item;
    loop {
        let between = |c: char| c.is_whitespace() || ",;.()[]".contains(c);
        rest = rest.trim_end_matches(between);
        rest = rest.strip_suffix(" and").map_or(rest, |before| before.trim_end_matches(between));
        let Some(inside) = rest.strip_suffix('`') else { return references };
        let Some((before, name)) = inside.rsplit_once('`') else { return references };
        if !is_path(name) {
            return references;
        }
        references.push(name);
        rest = before;
    }
}

/// `module::function`, with any number of modules.
fn is_path(name: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    name.contains("::") && name.split("::").all(is_name)
}

/// What is wrong, a line each: an item without a reference, a test that is not there.
fn faults(items: &[String], tests: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for item in items {
        let named = references(item);
        if named.is_empty() {
            faults.push(format!("names no test: {item}"));
        }
        let unseen = named.into_iter().filter(|name| seen.insert(*name));
        faults.extend(unseen.filter_map(|name| missing(name, tests)));
    }
    faults
}

/// Why the test of that name does not run, if it does not.
fn missing(name: &str, tests: &Path) -> Option<String> {
    let (modules, function) = name.rsplit_once("::")?;
    let mut folder = tests.to_owned();
    let mut parent = tests.join("main.rs");
    for module in modules.split("::") {
        let source = fs::read_to_string(&parent).unwrap_or_default();
        if !source.lines().any(|line| line.trim() == format!("mod {module};")) {
            return Some(format!("`{name}`: {} has no `mod {module};`", parent.display()));
        }
        parent = file_of(&folder, module);
        folder.push(module);
    }
    let source = fs::read_to_string(&parent).unwrap_or_default();
    (!runs(&source, function)).then(|| format!("`{name}`: {} has no test `{function}`", parent.display()))
}

fn file_of(folder: &Path, module: &str) -> PathBuf {
    let single = folder.join(format!("{module}.rs"));
    if single.exists() { single } else { folder.join(module).join("mod.rs") }
}

/// Whether a file has this function with a test attribute, or in a macro's list of tests.
fn runs(source: &str, function: &str) -> bool {
    let mut attributes = false;
    let mut listed = false;
    for line in source.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            attributes = true;
        } else if let Some(found) = line.strip_prefix("async fn ").or(line.strip_prefix("fn ")) {
            let found = found.split(['(', '<']).next().unwrap_or_default();
            if found == function {
                return attributes || listed;
            }
            attributes = false;
        } else {
            listed |= line.strip_suffix(',').unwrap_or(line) == function;
        }
    }
    false
}

const EXAMPLE: &str = "# a\n- not this `a::b`\n## Delivery contract\nFree text `a::b`.\n\n\
    - One line (`order::held`).\n\
    - Two lines with `code` and `sent_at`,\n  the second `a::b` in it. `store::claims::one`, `order::two`\n  and `order::three`.\n\
    \x20 - Nested: none.\n\nFree again.\n- Last `order::four`\n### Below\n- not this\n";

#[test]
fn the_list_is_read_item_by_item() {
    let found = items(EXAMPLE).unwrap();
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(references(&found[0]), ["order::held"]);
    assert_eq!(references(&found[1]), ["order::three", "order::two", "store::claims::one"]);
    assert_eq!(found[2], "Nested: none.");
    assert_eq!(references(&found[2]), Vec::<&str>::new());
    assert_eq!(references(&found[3]), ["order::four"]);
    assert_eq!(items("# a\n- b `c::d`\n"), None);
    assert_eq!(references("ends with `code`, not `a::b` but this"), Vec::<&str>::new());
    assert_eq!(references("`std::Path`"), Vec::<&str>::new());
}

#[test]
fn what_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("main.rs", "mod order;\nmod store;\n");
    write(
        "order.rs",
        "#[tokio::test]\nasync fn held() {}\n#[tokio::test(flavor = \"multi_thread\")]\nasync fn two() {}\nfn helper() {}\n",
    );
    write("store/mod.rs", "mod claims;\n");
    write("store/claims.rs", "on_both_servers!(owned:\n    one,\n);\nasync fn one(f: Fixture) {}\n");
    write("stray.rs", "#[test]\nfn lost() {}\n");
    let check = |text: &str| faults(&[text.to_owned()], folder.path());
    assert!(check("x `order::held`, `order::two` and `store::claims::one`").is_empty());
    for (text, fault) in [
        ("no test at all", "names no test"),
        ("x `order::gone`", "has no test `gone`"),
        ("x `order::helper`", "has no test `helper`"),
        ("x `stray::lost`", "has no `mod stray;`"),
        ("x `store::none::one`", "has no `mod none;`"),
        ("x `order::held` `order::gone`", "has no test `gone`"),
    ] {
        let found = check(text);
        assert!(found.len() == 1 && found[0].contains(fault), "{text}: {found:?}");
    }
}
