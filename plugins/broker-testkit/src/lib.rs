//! The conformance suite: what every broker plugin must do against its real server.
//!
//! A plugin's test implements [`Harness`] (how to make a destination and how to read it back) and calls
//! [`exercise`]. Each check has a name, makes destinations of its own and can also be run alone with
//! [`exercise_only`]. What only one protocol has (returns, no-leader errors, stream limits) is tested
//! by its plugin; this crate must not know a broker.
//!
//! | check | what it asks |
//! |---|---|
//! | `parse` | pure, no runtime needed; every fault at once, also unknown parameters; no value in a fault |
//! | `destination` | completes what is left out, keeps what is given, refuses unknown keys |
//! | `unreachable` | a closed port, and a port that never answers: an error in bounded time, of broker scope |
//! | `wrong_credentials` | says that it is about credentials, and shows none |
//! | `probe` | answers on a live connection |
//! | `empty_batch` | no outcomes |
//! | `batch` | 200 messages: all confirmed in order, read back byte for byte, headers verbatim, keys in order |
//! | `missing_destination` | trouble of that destination alone: nothing refused, neighbours get through, it recovers |
//! | `oversized` | refused for good, with size and limit; neighbours get through |
//! | `invalid` | refused; neighbours get through |
//! | `expired_deadline` | everything is not sent, promptly, and nothing leaves later |
//! | `concurrent` | batches from many tasks at once, order within each key |
//! | `duplicate` | a second copy has the first one's id; where the broker removes it, the receipt says so |
//! | `silence` | the server falls silent: outcomes by the deadline, none a guess; afterwards it works again |
//! | `close` | in time; afterwards everything is not sent, promptly |

mod checks;
mod failure;
mod harness;
mod messages;
pub mod proxy;
mod scene;

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;

pub use failure::Failure;
pub use harness::{Features, Harness, Received, Spoil, To};
pub use messages::MARKER;

use crate::scene::Scene;

/// Most time for one check, by far more than a healthy plugin needs; what takes longer hangs.
const CHECK_LIMIT: Duration = Duration::from_secs(90);

type Run = for<'a> fn(&'a Scene<'a>) -> BoxFuture<'a, Result<(), Failure>>;

/// Every check with its name, in the order in which they run: cheap and telling ones first.
const CHECKS: &[(&str, Run)] = &[
    ("parse", |scene| Box::pin(checks::parse::parse(scene))),
    ("destination", |scene| Box::pin(checks::parse::destination(scene))),
    ("unreachable", |scene| Box::pin(checks::connect::unreachable(scene))),
    ("wrong_credentials", |scene| Box::pin(checks::connect::wrong_credentials(scene))),
    ("probe", |scene| Box::pin(checks::connect::probe(scene))),
    ("empty_batch", |scene| Box::pin(checks::batch::empty(scene))),
    ("batch", |scene| Box::pin(checks::batch::batch(scene))),
    ("missing_destination", |scene| Box::pin(checks::neighbours::missing_destination(scene))),
    ("oversized", |scene| Box::pin(checks::neighbours::oversized(scene))),
    ("invalid", |scene| Box::pin(checks::neighbours::invalid(scene))),
    ("expired_deadline", |scene| Box::pin(checks::deadline::expired(scene))),
    ("concurrent", |scene| Box::pin(checks::batch::concurrent(scene))),
    ("duplicate", |scene| Box::pin(checks::batch::duplicate(scene))),
    ("silence", |scene| Box::pin(checks::deadline::silence(scene))),
    ("close", |scene| Box::pin(checks::deadline::close(scene))),
];

/// Runs all checks, also after one failed.
///
/// # Panics
/// When a check failed, with the name of each failed check and what it saw.
pub async fn exercise(harness: &impl Harness) {
    run(harness, CHECKS.iter()).await;
}

/// Runs the named checks alone.
///
/// # Panics
/// Like [`exercise`], and when there is no check of that name.
pub async fn exercise_only(harness: &impl Harness, names: &[&str]) {
    for name in names {
        assert!(CHECKS.iter().any(|(known, _)| known == name), "there is no check `{name}`");
    }
    run(harness, CHECKS.iter().filter(|(name, _)| names.contains(name))).await;
}

async fn run(harness: &dyn Harness, checks: impl Iterator<Item = &'static (&'static str, Run)>) {
    let mut failed = Vec::new();
    for (name, check) in checks {
        let begun = Instant::now();
        let scene = Scene::new(harness);
        let result = match tokio::time::timeout(CHECK_LIMIT, check(&scene)).await {
            Ok(result) => result,
            Err(_) => Err(Failure::new(format!("did not end within {CHECK_LIMIT:?}"))),
        };
        match result {
            Ok(()) => println!("{name}: ok, {:.1} s", begun.elapsed().as_secs_f32()),
            Err(failure) => {
                println!("{name}: FAILED, {:.1} s: {failure}", begun.elapsed().as_secs_f32());
                failed.push(format!("check `{name}`: {failure}"));
            }
        }
    }
    let kind = harness.plugin().kind();
    assert!(failed.is_empty(), "the `{kind}` plugin breaks the contract:\n{}", failed.join("\n"));
}
