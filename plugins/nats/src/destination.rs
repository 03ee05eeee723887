//! Where a message goes: the parts of a route's `to`, and what a subject and a stream may be called.
//!
//! Pure. The client checks a subject for white space only, so these rules alone keep wildcards, empty tokens
//! and the server's own subjects off the wire. Must not change what it is given, and must not echo it: a bad
//! subject can hold line breaks.

use std::collections::BTreeMap;

use outrider_broker::Fault;

/// Bytes of a subject. The server takes about 4 KiB for a whole command line, which holds the reply subject too.
pub(crate) const MAX_SUBJECT_BYTES: usize = 1024;

/// Bytes of a stream's name: it becomes a directory on the server.
const MAX_STREAM_BYTES: usize = 255;

/// First tokens that the server, JetStream and clients keep for themselves, beside everything with a `$`.
const RESERVED: &[&str] = &["_INBOX", "_R_", "_GR_"];

/// The event's values that a template may name, and what stands for them while a template is checked.
const PLACEHOLDERS: &[&str] = &["{tenant}", "{topic}", "{type}", "{key}"];
const STAND_IN: &str = "x";

pub(crate) const SUBJECT: &str = "subject";
pub(crate) const STREAM: &str = "stream";

/// Checks a route's `to` and fills in the subject where it says none.
pub(crate) fn complete(to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
    let mut faults = Vec::new();
    for (key, template) in to {
        let literal = PLACEHOLDERS.iter().fold(template.clone(), |text, name| text.replace(name, STAND_IN));
        let rule = match key.as_str() {
            SUBJECT => subject_fault(&literal),
            STREAM => stream_fault(&literal),
            _ => Some("is not known; a NATS destination has `subject` and `stream`"),
        };
        faults.extend(rule.map(|rule| Fault::new(key, rule)));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let mut full = to.clone();
    full.entry(SUBJECT.to_owned()).or_insert_with(|| "{topic}".to_owned());
    Ok(full)
}

/// What is wrong with a subject to publish to, or `None`.
pub(crate) fn subject_fault(subject: &str) -> Option<&'static str> {
    if subject.len() > MAX_SUBJECT_BYTES {
        return Some("must not be longer than 1024 bytes");
    }
    if let Some(rule) = subject.split('.').find_map(token_fault) {
        return Some(rule);
    }
    let first = subject.split('.').next().unwrap_or_default();
    if first.starts_with('$') || RESERVED.contains(&first) {
        return Some("must not begin with `$`, `_INBOX`, `_R_` or `_GR_`, which NATS keeps for itself");
    }
    None
}

/// What is wrong with one token of a subject, or `None`.
pub(crate) fn token_fault(token: &str) -> Option<&'static str> {
    if token.is_empty() {
        return Some("must not be empty, nor begin or end with a dot, nor have two dots in a row");
    }
    if token.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("must not have white space or control characters");
    }
    if token.contains(['*', '>']) {
        return Some("must not have the wildcards `*` and `>`");
    }
    None
}

/// What is wrong with a stream's name, or `None`.
pub(crate) fn stream_fault(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > MAX_STREAM_BYTES {
        return Some("must be the name of a stream, of 1 to 255 bytes");
    }
    if name.contains(['.', '*', '>', '/', '\\'])
        || name.contains(|c: char| c.is_whitespace() || c.is_control())
    {
        return Some("must not have dots, wildcards, slashes, white space or control characters");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C54.
    #[test]
    fn subjects() {
        let long = "a".repeat(MAX_SUBJECT_BYTES);
        for good in ["orders", "orders.new", "a-b_c.d=e/f:g", "заказы.новые", "a.$b", "_internal.x", &long]
        {
            assert_eq!(subject_fault(good), None, "{good}");
        }
        let longer = "a".repeat(MAX_SUBJECT_BYTES + 1);
        let two_kilobytes = "a.".repeat(1024) + "a";
        for bad in [
            "",
            " ",
            ".",
            "a..b",
            ".a",
            "a.",
            "a b",
            "orders.new x.y",
            "a\tb",
            "a\u{a0}b",
            "a\r\nPUB b 1\r\nx",
            "a\0",
            "a.\u{7f}",
            "a.*",
            "a.>",
            "*",
            ">",
            "a*.b",
            "a>b.c",
            "$SYS.x",
            "$JS.API.x",
            "$KV.b.k",
            "$O.x",
            "$",
            "_INBOX.x",
            "_INBOX",
            "_R_.x",
            "_GR_.x",
            &longer,
            &two_kilobytes,
        ] {
            assert!(subject_fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn streams() {
        for good in ["ORDERS", "orders-eu_1", "поток"] {
            assert_eq!(stream_fault(good), None, "{good}");
        }
        let long = "s".repeat(256);
        for bad in ["", "a.b", "a*", ">", "a b", "a\n", "a/b", "a\\b", &long] {
            assert!(stream_fault(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn templates_are_checked_around_their_placeholders() {
        let to = |entries: &[(&str, &str)]| -> BTreeMap<String, String> {
            entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let full = complete(&to(&[])).unwrap();
        assert_eq!(full, to(&[("subject", "{topic}")]));
        let full =
            complete(&to(&[("subject", "{tenant}.{topic}.{type}.{key}"), ("stream", "{tenant}")])).unwrap();
        assert_eq!(full.len(), 2);
        assert_eq!(complete(&full).unwrap(), full);
        for (key, value) in [
            ("subject", "{tenant}.*"),
            ("subject", "$JS.{topic}"),
            ("subject", ".{topic}"),
            ("subject", "{topic} x"),
            ("subject", ""),
            ("stream", "{tenant}.x"),
            ("exchange", "x"),
        ] {
            let faults = complete(&to(&[(key, value)])).unwrap_err();
            assert_eq!(faults.iter().map(|fault| fault.key.as_str()).collect::<Vec<_>>(), [key], "{value}");
        }
    }
}
