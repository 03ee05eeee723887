//! Kafka's rules for topic names, and the `to` table of a route to Kafka. Pure.

use std::collections::BTreeMap;

use outrider_broker::Fault;

/// The one part of a destination.
pub(crate) const TOPIC: &str = "topic";

/// Longest topic name in bytes: the broker makes a directory `NAME-PARTITION` of it.
const NAME_MAX: usize = 249;

/// Checks a route's `to` table and completes it.
pub(crate) fn destination(to: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Vec<Fault>> {
    let mut faults: Vec<Fault> = to
        .keys()
        .filter(|part| *part != TOPIC)
        .map(|part| Fault::new(part, "is not a part of a Kafka destination: there is only `topic`"))
        .collect();
    let template = to.get(TOPIC).map_or("{topic}", String::as_str);
    if let Err(rule) = check_template(template) {
        faults.push(Fault::new(TOPIC, rule));
    }
    if faults.is_empty() {
        Ok(BTreeMap::from([(TOPIC.to_owned(), template.to_owned())]))
    } else {
        Err(faults)
    }
}

/// Checks a name as a broker would.
pub(crate) fn check(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("must not be empty");
    }
    if name == "." || name == ".." {
        return Err("must not be `.` or `..`");
    }
    if name.len() > NAME_MAX {
        return Err("must have at most 249 characters");
    }
    check_characters(name)
}

fn check_characters(text: &str) -> Result<(), &'static str> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if text.bytes().all(legal) {
        Ok(())
    } else {
        Err("must have only ASCII letters, digits, `.`, `_` and `-`")
    }
}

/// A name without braces is checked whole; of a template, what stands outside the braces.
fn check_template(template: &str) -> Result<(), &'static str> {
    if !template.contains('{') {
        return check(template);
    }
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        check_characters(literal)?;
        let Some((_, after)) = after.split_once('}') else {
            return Err("has a `{` without a `}`");
        };
        rest = after;
    }
    check_characters(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(parts: &[(&str, &str)]) -> Result<BTreeMap<String, String>, Vec<Fault>> {
        destination(&parts.iter().map(|(part, value)| ((*part).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn names_follow_the_brokers_rules() {
        let longest = "a".repeat(249);
        for name in ["orders", "a.b_c-D9", "...", "__x", longest.as_str()] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(250);
        for name in ["", ".", "..", "a b", "a/b", "ä", "a\0", "a:b", too_long.as_str()] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_route_may_leave_the_topic_out() {
        assert_eq!(complete(&[]).unwrap()[TOPIC], "{topic}");
        assert_eq!(complete(&[("topic", "{tenant}.{topic}")]).unwrap()[TOPIC], "{tenant}.{topic}");
    }

    #[test]
    fn faults_name_the_part() {
        for template in ["a b", "..", "{tenant}/{topic}", "{tenant", "{tenant}.{topic}:x"] {
            assert_eq!(complete(&[("topic", template)]).unwrap_err()[0].key, "topic", "{template}");
        }
        let faults = complete(&[("topic", "a b"), ("key", "{key}"), ("partition", "1")]).unwrap_err();
        let keys: Vec<_> = faults.iter().map(|fault| fault.key.as_str()).collect();
        assert_eq!(keys, ["key", "partition", "topic"]);
    }
}
