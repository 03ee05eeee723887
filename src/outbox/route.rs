//! Routes: which broker, and which destination there, an event of a topic goes to.
//!
//! Pure. Must not know a broker: a destination is a table of named texts, whatever they mean.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use outrider_broker::Destination;

use super::OnDead;

/// A topic pattern: `*` stands for any run of characters, also none and also dots; everything else stands
/// for itself. Upper and lower case differ.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TopicPattern(Arc<str>);

impl TopicPattern {
    /// `None` for an empty pattern: no event has an empty topic.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| TopicPattern(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True without a `*`: exactly one topic matches.
    pub fn is_exact(&self) -> bool {
        !self.0.contains('*')
    }

    /// Takes at most `pattern.len() * topic.len()` steps, whatever the pattern.
    pub fn matches(&self, topic: &str) -> bool {
        let (pattern, topic) = (self.0.as_bytes(), topic.as_bytes());
        let (mut p, mut t) = (0, 0);
        // Where to go on if a literal fails: just behind the last star, with one more byte given to it.
        let mut retry: Option<(usize, usize)> = None;
        while t < topic.len() {
            if pattern.get(p) == Some(&b'*') {
                p += 1;
                retry = Some((p, t));
            } else if pattern.get(p) == Some(&topic[t]) {
                (p, t) = (p + 1, t + 1);
            } else if let Some((after_star, taken)) = retry {
                (p, t) = (after_star, taken + 1);
                retry = Some((p, t));
            } else {
                return false;
            }
        }
        pattern[p..].iter().all(|byte| *byte == b'*')
    }

    /// True if every topic that `other` matches is matched by this pattern too. May miss a case, is never
    /// wrong when it says yes: a `*` of `other` is only ever swallowed by a `*` of this one.
    pub fn covers(&self, other: &TopicPattern) -> bool {
        self.matches(&other.0)
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// What a template may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Tenant,
    Topic,
    Type,
    Key,
}

impl Field {
    const ALL: [Field; 4] = [Field::Tenant, Field::Topic, Field::Type, Field::Key];

    fn name(self) -> &'static str {
        match self {
            Field::Tenant => "tenant",
            Field::Topic => "topic",
            Field::Type => "type",
            Field::Key => "key",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Field(Field),
}

/// Why a text is not a template. Fits after "is not a template: ".
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("`{{{0}}}` is not known; write `{{tenant}}`, `{{topic}}`, `{{type}}` or `{{key}}`")]
    UnknownField(String),
    #[error("a `{{` has no `}}`; write `{{{{` for a brace that is meant literally")]
    Unclosed,
    #[error("a `}}` has no `{{`; write `}}}}` for a brace that is meant literally")]
    Unopened,
}

/// A text with places for an event's values: `{tenant}`, `{topic}`, `{type}` and `{key}`. `{{` and `}}` are
/// literal braces. Values are put in as they are and not looked at again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let braces = &rest[at..];
            if braces.starts_with("{{") || braces.starts_with("}}") {
                literal.push_str(&braces[..1]);
                rest = &braces[2..];
                continue;
            }
            let name = braces.strip_prefix('{').ok_or(TemplateError::Unopened)?;
            let end = name.find(['{', '}']).ok_or(TemplateError::Unclosed)?;
            if name.as_bytes()[end] == b'{' {
                return Err(TemplateError::Unclosed);
            }
            let field = Field::ALL
                .into_iter()
                .find(|field| field.name() == &name[..end])
                .ok_or_else(|| TemplateError::UnknownField(name[..end].to_owned()))?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Field(field));
            rest = &name[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Template { parts })
    }

    /// The text that parses to this template.
    fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Literal(literal) => text.push_str(&literal.replace('{', "{{").replace('}', "}}")),
                Part::Field(field) => text.push_str(&format!("{{{}}}", field.name())),
            }
        }
        text
    }

    fn uses(&self, field: Field) -> bool {
        self.parts.contains(&Part::Field(field))
    }

    fn render(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        for part in &self.parts {
            text.push_str(match part {
                Part::Literal(literal) => literal,
                Part::Field(Field::Tenant) => values.tenant,
                Part::Field(Field::Topic) => values.topic,
                Part::Field(Field::Type) => values.kind,
                Part::Field(Field::Key) => values.key.unwrap_or_default(),
            });
        }
        text
    }
}

/// What a template's places are filled from.
struct Values<'a> {
    tenant: &'a str,
    topic: &'a str,
    kind: &'a str,
    key: Option<&'a str>,
}

/// A route's `to`, completed by its broker: one template for each part of the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationTemplate {
    parts: Arc<BTreeMap<String, Template>>,
}

impl DestinationTemplate {
    /// Parses every value; on failure names each key whose value is not a template.
    pub fn parse(to: &BTreeMap<String, String>) -> Result<Self, Vec<(String, TemplateError)>> {
        let mut parts = BTreeMap::new();
        let mut errors = Vec::new();
        for (key, text) in to {
            match Template::parse(text) {
                Ok(template) => _ = parts.insert(key.clone(), template),
                Err(error) => errors.push((key.clone(), error)),
            }
        }
        if errors.is_empty() { Ok(DestinationTemplate { parts: Arc::new(parts) }) } else { Err(errors) }
    }

    /// Fills in an event's values. An event without a key renders `{key}` as nothing; whether what is left
    /// is a possible destination is for the broker's plugin to say (an empty routing key is one, a NATS
    /// subject that ends in a dot is none and the event is refused).
    pub fn render(&self, tenant: &str, topic: &str, kind: &str, key: Option<&str>) -> Destination {
        let values = Values { tenant, topic, kind, key };
        Arc::new(self.parts.iter().map(|(name, template)| (name.clone(), template.render(&values))).collect())
    }

    /// Each part with its template as it is written.
    pub fn texts(&self) -> impl Iterator<Item = (&str, String)> {
        self.parts.iter().map(|(part, template)| (part.as_str(), template.text()))
    }

    /// False if all events of one tenant and topic have the same destination, so that one rendering serves
    /// them all.
    pub fn depends_on_event(&self) -> bool {
        self.parts.values().any(|template| template.uses(Field::Type) || template.uses(Field::Key))
    }

    /// True if each topic has a destination of its own.
    pub fn depends_on_topic(&self) -> bool {
        self.parts.values().any(|template| template.uses(Field::Topic))
    }
}

/// From a topic to a broker and a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub pattern: TopicPattern,
    /// Name of a configured broker (`kafka-eu`), not its kind.
    pub broker: Arc<str>,
    pub to: DestinationTemplate,
    /// Overrides the tenant's `delivery.on_dead` for the topics of this route.
    pub on_dead: Option<OnDead>,
}

/// A tenant's routes: its own first, then those of all tenants. The first match wins; a topic without one
/// is held, never dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    routes: Arc<[Route]>,
}

impl RouteTable {
    pub fn find(&self, topic: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.pattern.matches(topic))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Route> {
        self.routes.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }
}

impl FromIterator<Route> for RouteTable {
    fn from_iter<I: IntoIterator<Item = Route>>(routes: I) -> Self {
        RouteTable { routes: routes.into_iter().collect() }
    }
}

#[cfg(test)]
#[path = "route_tests.rs"]
mod tests;
