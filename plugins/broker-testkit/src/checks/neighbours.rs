//! One bad message in a batch: it alone fails, with the right kind of failure, and the others get through.

use std::time::Instant;

use outrider_broker::{ErrorClass, Message, Outcome, Scope};
use rand::RngCore;

use crate::failure::{Failure, ensure};
use crate::scene::{PATIENCE, Place, Scene, confirm_all, publish_now};

/// Nine good messages with the bad one in the middle. Returns the bad one's outcome, and the good ones that
/// were not confirmed in the same batch.
async fn surround(
    connection: &dyn outrider_broker::Connection,
    good: &[Message],
    bad: Message,
) -> Result<(Outcome, Vec<Message>), Failure> {
    let middle = good.len() / 2;
    let mut batch = good.to_vec();
    batch.insert(middle, bad);
    let mut outcomes = publish_now(connection, &batch).await?;
    let outcome = outcomes.remove(middle);
    let mut left = Vec::new();
    for (message, outcome) in good.iter().zip(&outcomes) {
        match outcome {
            Outcome::Confirmed(_) => {}
            Outcome::Refused(refusal) => {
                let text =
                    format!("good message {} was refused beside a bad one: {}", message.seq, refusal.cause);
                return Err(Failure::new(text));
            }
            Outcome::Unknown(_) => left.push(Message { redelivery: true, ..message.clone() }),
            Outcome::Retry(_) | Outcome::NotSent(_) => left.push(message.clone()),
        }
    }
    Ok((outcome, left))
}

/// Afterwards the connection works, and the good ones are there. Neighbours whose confirm was lost may be there
/// twice, the others exactly once.
async fn neighbours_arrive(
    scene: &Scene<'_>,
    connection: &dyn outrider_broker::Connection,
    place: &Place,
    good: &[Message],
    left: &[Message],
) -> Result<(), Failure> {
    confirm_all(connection, left).await?;
    let after = place.messages(900, 5);
    confirm_all(connection, &after).await?;
    let copies = if left.iter().any(|message| message.redelivery) { 1..=4 } else { 1..=1 };
    scene.compare(place, &[good, &after].concat(), copies).await
}

pub(crate) async fn missing_destination(scene: &Scene<'_>) -> Result<(), Failure> {
    if !scene.harness.features().missing_destination {
        return Ok(());
    }
    let place = scene.place().await?;
    let missing = scene.missing_place()?;
    let connection = scene.connect().await?;
    let good = place.messages(1, 9);
    let bad = missing.message(500, Some("lost"));
    let (outcome, left) = surround(&*connection, &good, bad.clone()).await?;
    let (Outcome::Retry(cause) | Outcome::NotSent(cause)) = &outcome else {
        return Err(Failure::new(format!("a message to a missing destination ended as {outcome:?}")));
    };
    ensure!(
        cause.scope == Scope::Destination,
        "scope {:?} instead of the destination's: {cause}",
        cause.scope
    );
    ensure!(
        matches!(cause.class, ErrorClass::UnknownDestination | ErrorClass::Unroutable),
        "class {:?} for a missing destination: {cause}",
        cause.class
    );
    neighbours_arrive(scene, &*connection, &place, &good, &left).await?;

    // Made later, it works without a new connection and without a restart.
    scene.harness.create(&missing.to).await;
    confirm_all(&*connection, std::slice::from_ref(&bad)).await?;
    scene.compare(&missing, &[bad], 1..=1).await
}

pub(crate) async fn oversized(scene: &Scene<'_>) -> Result<(), Failure> {
    let Some(limit) = scene.harness.size_limit() else { return Ok(()) };
    let place = scene.place().await?;
    let connection = scene.connect().await?;
    let good = place.messages(1, 9);
    let mut bad = place.message(500, Some("big"));
    let mut payload = vec![0; limit + 1];
    rand::rng().fill_bytes(&mut payload); // nothing a compressor could make small
    bad.payload = payload.into();
    let (outcome, left) = surround(&*connection, &good, bad).await?;
    let Outcome::Refused(refusal) = &outcome else {
        return Err(Failure::new(format!("a message over the limit ended as {outcome:?}")));
    };
    let text = &refusal.cause.text;
    ensure!(refusal.permanent, "a message over the limit was refused, but not for good: {text}");
    ensure!(refusal.cause.class == ErrorClass::TooLarge, "class {:?} for {text}", refusal.cause.class);
    ensure!(refusal.cause.scope == Scope::Event, "scope {:?} for {text}", refusal.cause.scope);
    let numbers: Vec<usize> =
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect();
    ensure!(numbers.contains(&limit), "the text does not name the limit of {limit} bytes: {text}");
    ensure!(
        numbers.iter().any(|&number| number > limit),
        "the text does not name the message's size: {text}"
    );
    neighbours_arrive(scene, &*connection, &place, &good, &left).await
}

pub(crate) async fn invalid(scene: &Scene<'_>) -> Result<(), Failure> {
    for (name, spoil) in scene.harness.invalid() {
        let place = scene.place().await?;
        let connection = scene.connect().await?;
        let good = place.messages(1, 9);
        let mut bad = place.message(500, Some("bad"));
        spoil(&mut bad);
        let (outcome, left) = surround(&*connection, &good, bad).await?;
        let Outcome::Refused(refusal) = &outcome else {
            return Err(Failure::new(format!("{name}: ended as {outcome:?} instead of refused")));
        };
        let cause = &refusal.cause;
        ensure!(refusal.permanent, "{name}: refused, but not for good: {cause}");
        ensure!(cause.scope == Scope::Event, "{name}: scope {:?} for {cause}", cause.scope);
        ensure!(
            matches!(cause.class, ErrorClass::Invalid | ErrorClass::TooLarge),
            "{name}: class {:?} for {cause}",
            cause.class
        );
        // Refused before the wire, so it costs the neighbours nothing.
        ensure!(left.is_empty(), "{name}: {} good messages of the batch were not confirmed", left.len());
        neighbours_arrive(scene, &*connection, &place, &good, &left).await?;
        connection.close(Instant::now() + PATIENCE).await;
    }
    Ok(())
}
