//! TOML text: which line a key is on, and where it stops being TOML. Shows no value of a file, since any
//! may be a secret.

use std::collections::BTreeMap;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::fault::{Fault, Place};
use super::key::KeyPath;
use super::raw;

/// Parses a file's text; on failure says where and why.
pub(super) fn parse(path: &Path, text: &str) -> Result<toml::Table, Box<Fault>> {
    toml::from_str(text).map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start.min(text.len()));
        let (line, column) = position(text, at);
        Box::new(Fault {
            place: Place::File { path: path.to_owned(), line: Some(line) },
            key: String::new(),
            value: None,
            rule: format!(
                "is not TOML at line {line}, column {column}: {}\n{}",
                error.message().lines().next().unwrap_or("syntax error"),
                excerpt(text, line, column)
            ),
            remedy: "mend that line; the rest of the file was not looked at".into(),
        })
    })
}

/// Which line each key of a file is on.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<KeyPath, usize>);

impl Lines {
    /// Of a text that is TOML.
    pub(super) fn of(text: &str) -> Self {
        let mut lines = Lines::default();
        if let Ok(document) = DeTable::parse(text) {
            let newlines: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
            lines.note_table(&KeyPath::default(), document.get_ref(), &newlines);
        }
        lines
    }

    /// Line of the key at a path, else of the nearest key above it that is there. From 1.
    pub(super) fn of_key(&self, path: &KeyPath) -> Option<usize> {
        let keys = path.keys();
        (1..=keys.len()).rev().find_map(|length| self.0.get(&KeyPath::new(&keys[..length]))).copied()
    }

    fn note_table(&mut self, path: &KeyPath, table: &DeTable<'_>, newlines: &[usize]) {
        for (name, value) in table {
            self.note(path.key(name.get_ref().as_ref()), name.span().start, value.get_ref(), newlines);
        }
    }

    fn note(&mut self, path: KeyPath, at: usize, value: &DeValue<'_>, newlines: &[usize]) {
        self.0.insert(path.clone(), newlines.partition_point(|newline| *newline < at) + 1);
        if let Some(table) = value.as_table() {
            self.note_table(&path, table, newlines);
        }
        for (index, element) in value.as_array().into_iter().flatten().enumerate() {
            self.note(path.index(index), element.span().start, element.get_ref(), newlines);
        }
    }
}

/// Line and column of a byte, both from 1; the column in characters.
fn position(text: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The line with a caret under the column. What may be a value is left out.
fn excerpt(text: &str, line: usize, column: usize) -> String {
    let content = text.lines().nth(line - 1).unwrap_or_default();
    let shown = harmless_start(content);
    let length = shown.chars().count();
    let dots = if length < content.trim_end().chars().count() { "…" } else { "" };
    let gutter = " ".repeat(line.to_string().len());
    let indent = " ".repeat(column.saturating_sub(1).min(length));
    format!("{gutter} |\n{line} | {shown}{dots}\n{gutter} | {indent}^")
}

/// How much of a line can be shown whatever the file is: a table header or `key =`, if the key is one that
/// outrider knows. A line inside a longer text may look like any of these, but not with such a key.
fn harmless_start(line: &str) -> &str {
    let known = |name: &str| raw::KEYS.iter().any(|section| section.contains(&name));
    let header = line.trim_start().trim_start_matches('[');
    if header.len() < line.trim_start().len() {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-. ]".contains(c);
        let first = header.split(['.', ']']).next().unwrap_or_default();
        return if header.trim_end().chars().all(plain) && known(first.trim()) { line } else { "" };
    }
    match line.split_once('=') {
        Some((key, _)) if key.trim().split('.').all(known) => &line[..=key.len()],
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> String {
        parse(Path::new("x.toml"), text).unwrap_err().rule
    }

    #[test]
    fn a_syntax_error_has_line_column_and_caret() {
        let rule = rule("[admin]\nlisten = \"127.0.0.1:1\n");
        assert!(rule.starts_with("is not TOML at line 2, column "), "{rule}");
        assert!(
            rule.ends_with("  |\n2 | listen =…\n  |         ^") || rule.contains("2 | listen =…"),
            "{rule}"
        );
        assert!(!rule.contains("127"), "{rule}");
    }

    #[test]
    fn an_excerpt_shows_keys_and_never_values() {
        for (line, shown) in [
            ("listen = \"x", "listen ="),
            ("  url = \"postgres://u:marker", "  url ="),
            ("[brokers.kafka-eu", "[brokers.kafka-eu"),
            ("[[routes]", "[[routes]"),
            ("[\"marker", ""),
            ("[marker]", ""),
            ("marker", ""),
            ("marker=", ""),
            ("MIIEvQIBADANBg==", ""),
            ("\"sasl.password\" = marker", ""),
            ("database.url = marker", "database.url ="),
        ] {
            assert_eq!(harmless_start(line), shown, "{line}");
        }
    }

    #[test]
    fn keys_are_found_on_their_line() {
        let text =
            "[a]\nb = 1\n\n[[routes]]\ntopic = \"x\"\n\n[[routes]]\ntopic = 'y'\nto = { topic = 'z' }\n";
        let lines = Lines::of(text);
        let line = |path: &str| lines.of_key(&KeyPath::new(path.split('.')));
        assert_eq!(line("a.b"), Some(2));
        assert_eq!(line("a.c"), Some(1), "nearest above");
        assert_eq!(line("routes.1.topic"), Some(8));
        assert_eq!(line("routes.1.to.topic"), Some(9));
        assert_eq!(line("nothing.here"), None);
        assert_eq!(Lines::of("not toml").of_key(&KeyPath::new(["a"])), None);
    }
}
