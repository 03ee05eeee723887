//! Answers to outcomes, as tables: what an ack proves, and what a closed channel says about whom.

use std::collections::HashMap;
use std::sync::Arc;

use lapin::protocol::{AMQPError, AMQPSoftError};
use lapin::{ChannelState, Error, ErrorKind};
use outrider_broker::Message;
use uuid::Uuid;

use super::*;
use crate::wire::Limits;

fn envelope(exchange: &str, bytes: usize) -> Arc<Envelope> {
    let message = Message {
        id: Uuid::now_v7(),
        seq: 1,
        destination: Arc::new(
            [("exchange", exchange), ("routing_key", "k")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        ),
        key: None,
        kind: "t".into(),
        content_type: "c".into(),
        occurred_at: std::time::SystemTime::now(),
        headers: Vec::new(),
        payload: vec![0; bytes].into(),
        redelivery: false,
    };
    Arc::new(Envelope::new(&message, true, Limits { payload: None, frame: 131_072 }).expect("a good message"))
}

fn lost(code: AMQPSoftError, text: &str) -> Answer {
    Answer::Lost(ErrorKind::ProtocolError(AMQPError::new(code.into(), text.into())).into())
}

fn broken() -> Error {
    ErrorKind::MissingHeartbeatError.into()
}

fn report(answers: Vec<Answer>) -> Report {
    Report { answers, ..Report::default() }
}

fn settle(run: &[Arc<Envelope>], report: &Report) -> Vec<Outcome> {
    let stall = Cause::broker(ErrorClass::Timeout, "late");
    let messages: Vec<_> = run.iter().cloned().enumerate().collect();
    outcomes(&messages, report, Unroutable::Wait, &stall)
}

fn returns(run: &[Arc<Envelope>], which: &[usize]) -> HashMap<String, Returned> {
    let no_route = || Returned { code: 312, text: "NO_ROUTE".to_owned() };
    which.iter().map(|index| (run[*index].id.to_string(), no_route())).collect()
}

/// C49: of all answers, an ack alone confirms.
#[test]
fn only_an_ack_confirms() {
    for (answer, name) in [
        (Answer::Acked { carries_return: false }, "confirmed"),
        (Answer::Nacked, "retry"),
        (Answer::NotRequested, "unknown"),
        (Answer::Silent, "unknown"),
        (Answer::Unwritten, "unknown"),
        (Answer::Lost(broken()), "unknown"),
        (Answer::NotHandedOver(broken()), "not_sent"),
    ] {
        let report = report(vec![answer]);
        assert_eq!(settle(&[envelope("", 1)], &report)[0].name(), name, "{report:?}");
    }
}

/// C40: the return came along with the neighbour's ack.
#[test]
fn a_return_counts_for_its_own_message() {
    let run = [envelope("", 1), envelope("", 1), envelope("", 1)];
    let acks = [true, false, false].map(|carries_return| Answer::Acked { carries_return });
    let report = Report { returned: returns(&run, &[1]), ..report(acks.into()) };
    let names: Vec<_> = settle(&run, &report).iter().map(Outcome::name).collect();
    assert_eq!(names, ["confirmed", "retry", "confirmed"]);
}

/// C40, and the channel closes before all acks are in: an ack beside another's return proves nothing, one without a
/// return does, and a return does even without its ack.
#[test]
fn a_return_may_be_missing_when_acks_are() {
    let run = [envelope("", 1), envelope("", 1), envelope("", 1), envelope("", 1)];
    let answers = vec![
        Answer::Acked { carries_return: true },
        Answer::Acked { carries_return: false },
        Answer::Lost(broken()),
        Answer::Lost(broken()),
    ];
    let report = Report { returned: returns(&run, &[2]), ..report(answers) };
    let names: Vec<_> = settle(&run, &report).iter().map(Outcome::name).collect();
    assert_eq!(names, ["unknown", "confirmed", "retry", "unknown"]);
}

/// A return that fits no message of the run: it may be anybody's.
#[test]
fn a_stranger_among_the_returns_makes_every_ack_unknown() {
    let run = [envelope("", 1), envelope("", 1)];
    let acks = [true, false].map(|carries_return| Answer::Acked { carries_return });
    let report = Report { stranger: true, ..report(acks.into()) };
    assert!(settle(&run, &report).iter().all(|outcome| outcome.name() == "unknown"));
}

/// C41: alone, a message is what the broker spoke of.
#[test]
fn a_closed_channel_answers_for_a_message_that_was_alone() {
    let text = "NOT_FOUND - no exchange 'gone' in vhost '/'";
    let outcome = &settle(&[envelope("gone", 1)], &report(vec![lost(AMQPSoftError::NOTFOUND, text)]))[0];
    let Outcome::Retry(cause) = outcome else { panic!("{outcome:?}") };
    assert_eq!((cause.scope, cause.class), (Scope::Destination, ErrorClass::UnknownDestination));
}

/// C41: among others, what may have been routed before the exchange went away is unknown, of its destination; the
/// neighbours are not to blame for anything.
#[test]
fn a_closed_channel_names_a_destination() {
    let run = [envelope("gone", 1), envelope("", 1), envelope("gone", 1), envelope("", 1)];
    let text = "NOT_FOUND - no exchange 'gone' in vhost '/'";
    let closed = || ErrorKind::InvalidChannelState(ChannelState::Closed, "basic.publish").into();
    let answers = vec![
        lost(AMQPSoftError::NOTFOUND, text),
        lost(AMQPSoftError::NOTFOUND, text),
        Answer::NotHandedOver(closed()),
        Answer::NotHandedOver(closed()),
    ];
    let outcomes = settle(&run, &report(answers));
    let scopes: Vec<_> =
        outcomes.iter().map(|outcome| (outcome.name(), outcome.cause().expect("a cause").scope)).collect();
    let (destination, event) = (Scope::Destination, Scope::Event);
    assert_eq!(
        scopes,
        [("unknown", destination), ("unknown", event), ("not_sent", destination), ("not_sent", event)]
    );
}

/// C42: the reply names the limit, so the one to blame is known.
#[test]
fn a_closed_channel_names_a_size() {
    let run = [envelope("", 10), envelope("", 11)];
    let text = "PRECONDITION_FAILED - message size 11 is larger than configured max size 10";
    let answers = (0..2).map(|_| lost(AMQPSoftError::PRECONDITIONFAILED, text)).collect();
    let outcomes = settle(&run, &report(answers));
    assert_eq!(outcomes[0].name(), "unknown");
    let Outcome::Refused(refusal) = &outcomes[1] else { panic!("{:?}", outcomes[1]) };
    assert!(refusal.permanent && refusal.cause.text.contains("11") && refusal.cause.text.contains("10"));
}

/// C45: frames that the library gave back after the connection was killed had not left, and the reason is the stall.
#[test]
fn what_was_given_back_when_time_ran_out_is_not_sent() {
    let run = [envelope("", 1), envelope("", 1)];
    let report = Report { timed_out: true, ..report(vec![Answer::Silent, Answer::NotHandedOver(broken())]) };
    let stall = Cause::broker(ErrorClass::Timeout, "late");
    assert_eq!(settle(&run, &report), [Outcome::Unknown(stall.clone()), Outcome::NotSent(stall)]);
}
