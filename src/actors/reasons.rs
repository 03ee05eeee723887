//! What was said about a trouble since it began: a log tells each reason once, also where several take turns. Pure.

/// Most reasons that one trouble is given. What has more of them has a port or a number in its text, and would fill the
/// log with lines that say the same.
const MOST: usize = 8;

/// The reasons of one trouble; a new trouble starts with a new value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reasons(Vec<String>);

impl Reasons {
    /// Whether this reason was not said before; from now on it was.
    pub(super) fn is_news(&mut self, reason: &str) -> bool {
        let news = self.0.len() < MOST && !self.0.iter().any(|said| said == reason);
        if news {
            self.0.push(reason.to_owned());
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_take_turns_are_said_once_each() {
        let mut reasons = Reasons::default();
        let news: Vec<bool> =
            ["a", "b", "a", "b", "c", "a"].iter().map(|text| reasons.is_news(text)).collect();
        assert_eq!(news, [true, true, false, false, true, false]);
    }

    #[test]
    fn a_text_that_is_never_the_same_ends_some_time() {
        let mut reasons = Reasons::default();
        let said = (0..1_000).filter(|port| reasons.is_news(&format!("port {port}"))).count();
        assert_eq!(said, MOST);
    }
}
