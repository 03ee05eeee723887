//! Tables for patterns, templates and route tables.

use super::*;

fn pattern(text: &str) -> TopicPattern {
    TopicPattern::new(text).unwrap()
}

fn destination(to: &[(&str, &str)]) -> DestinationTemplate {
    let to = to.iter().map(|(key, text)| (key.to_string(), text.to_string())).collect();
    DestinationTemplate::parse(&to).unwrap()
}

#[test]
fn patterns_match_as_documented() {
    let cases = [
        ("orders", "orders", true),
        ("orders", "orders.eu", false),
        ("orders", "order", false),
        ("orders", "Orders", false),
        ("*", "", true),
        ("*", "orders", true),
        ("orders.*", "orders.created", true),
        ("orders.*", "orders.", true),
        ("orders.*", "orders", false),
        ("orders.*", "orders.eu.created", true),
        ("*.created", "orders.created", true),
        ("*.created", "orders.created.v2", false),
        ("a*b*c", "abc", true),
        ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false),
        ("**", "anything", true),
        ("ab*ab", "ab", false),
        ("ab*ab", "abab", true),
        ("*é*", "caféteria", true),
        ("a?c", "abc", false),
        ("a?c", "a?c", true),
    ];
    for (text, topic, expected) in cases {
        assert_eq!(pattern(text).matches(topic), expected, "`{text}` against `{topic}`");
    }
    assert!(TopicPattern::new("").is_none());
}

#[test]
fn many_stars_do_not_explode() {
    let pattern = pattern(&"*a".repeat(200));
    assert!(!pattern.matches(&format!("{}b", "a".repeat(10_000))));
}

#[test]
fn a_pattern_covers_what_it_swallows_whole() {
    for (wide, narrow, expected) in [
        ("*", "orders.*", true),
        ("orders.*", "orders.created", true),
        ("orders.*", "orders.*.v1", true),
        ("orders.created", "orders.*", false),
        ("orders.*", "orders.*", true),
        ("a*", "*a", false),
        ("*", "*", true),
    ] {
        assert_eq!(pattern(wide).covers(&pattern(narrow)), expected, "`{wide}` covers `{narrow}`");
    }
}

#[test]
fn templates_render_each_field_and_literal_braces() {
    let to = destination(&[
        ("topic", "{tenant}.{topic}"),
        ("routing_key", "{{{type}}}/{key}"),
        ("exchange", "fixed"),
        ("empty", ""),
    ]);
    let rendered = to.render("acme", "orders", "orders.created.v1", Some("{tenant}"));
    assert_eq!(rendered["topic"], "acme.orders");
    assert_eq!(rendered["routing_key"], "{orders.created.v1}/{tenant}", "values are not expanded again");
    assert_eq!(rendered["exchange"], "fixed");
    assert_eq!(rendered["empty"], "");
}

#[test]
fn a_template_can_be_written_again() {
    for text in ["{tenant}.{topic}", "{{{type}}}/{key}", "fixed", "", "}}{{"] {
        let written = destination(&[("to", text)]).texts().next().unwrap().1;
        assert_eq!(written, text);
    }
}

#[test]
fn an_event_without_a_key_renders_it_as_nothing() {
    assert_eq!(destination(&[("subject", "o.{key}")]).render("t", "o", "k", None)["subject"], "o.");
}

#[test]
fn templates_that_are_none_say_why() {
    let unknown = |name: &str| TemplateError::UnknownField(name.to_owned());
    for (text, expected) in [
        ("{tpic}", unknown("tpic")),
        ("{}", unknown("")),
        ("{Topic}", unknown("Topic")),
        ("{ topic }", unknown(" topic ")),
        ("{topic", TemplateError::Unclosed),
        ("{", TemplateError::Unclosed),
        ("{to{pic}", TemplateError::Unclosed),
        ("topic}", TemplateError::Unopened),
        ("{topic}}", TemplateError::Unopened),
    ] {
        assert_eq!(Template::parse(text), Err(expected), "{text}");
    }
    let error = TemplateError::UnknownField("tpic".into()).to_string();
    assert_eq!(error, "`{tpic}` is not known; write `{tenant}`, `{topic}`, `{type}` or `{key}`");
}

#[test]
fn a_destination_names_every_bad_part() {
    let to =
        BTreeMap::from([("a".into(), "{".into()), ("b".into(), "fine".into()), ("c".into(), "}".into())]);
    let errors = DestinationTemplate::parse(&to).unwrap_err();
    assert_eq!(errors.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn a_destination_says_what_it_depends_on() {
    for (text, event, topic) in [
        ("fixed", false, false),
        ("{tenant}", false, false),
        ("{topic}", false, true),
        ("{topic}.{key}", true, true),
        ("{type}", true, false),
        ("{{key}}", false, false),
    ] {
        let to = destination(&[("topic", text)]);
        assert_eq!((to.depends_on_event(), to.depends_on_topic()), (event, topic), "{text}");
    }
}

#[test]
fn the_first_match_wins_and_no_match_is_none() {
    let route = |topic: &str, broker: &str| Route {
        pattern: pattern(topic),
        broker: broker.into(),
        to: destination(&[]),
        on_dead: None,
    };
    let table: RouteTable =
        [route("orders.vip", "first"), route("orders.*", "second"), route("orders.vip", "third")]
            .into_iter()
            .collect();
    assert_eq!(&*table.find("orders.vip").unwrap().broker, "first");
    assert_eq!(&*table.find("orders.new").unwrap().broker, "second");
    assert!(table.find("billing").is_none());
    assert!(RouteTable::default().find("orders.vip").is_none());
}
