//! What a healthy server must get: every message, once, unchanged, in order.

use futures_util::future::try_join_all;
use outrider_broker::Outcome;

use crate::failure::{Failure, ensure};
use crate::scene::{Scene, publish_now};

pub(crate) async fn empty(scene: &Scene<'_>) -> Result<(), Failure> {
    let connection = scene.connect().await?;
    publish_now(&*connection, &[]).await?;
    Ok(())
}

/// 200 messages of 8 keys, every ninth without one.
pub(crate) async fn batch(scene: &Scene<'_>) -> Result<(), Failure> {
    let place = scene.place().await?;
    let connection = scene.connect().await?;
    let sent: Vec<_> = (1..=200)
        .map(|seq| place.message(seq, (seq % 9 != 0).then(|| format!("ключ-{}", seq % 8)).as_deref()))
        .collect();
    let outcomes = publish_now(&*connection, &sent).await?;
    confirmed(&outcomes)?;
    for (message, outcome) in sent.iter().zip(&outcomes) {
        if let Outcome::Confirmed(receipt) = outcome {
            ensure!(
                !receipt.duplicate,
                "message {} was called a duplicate at its first attempt",
                message.seq
            );
        }
    }
    scene.compare(&place, &sent, 1..=1).await
}

/// Eight tasks with five batches each; a task has keys of its own and sends one batch after another.
pub(crate) async fn concurrent(scene: &Scene<'_>) -> Result<(), Failure> {
    let place = &scene.place().await?;
    let connection = &scene.connect().await?;
    let tasks = (0..8).map(|task| async move {
        let mut sent = Vec::new();
        for batch in 0..5 {
            let first = task * 1000 + batch * 20;
            let messages: Vec<_> = (first..first + 20)
                .map(|seq| place.message(seq, Some(&format!("key-{task}-{}", seq % 3))))
                .collect();
            confirmed(&publish_now(&**connection, &messages).await?)?;
            sent.extend(messages);
        }
        Ok::<_, Failure>(sent)
    });
    let sent = try_join_all(tasks).await?.concat();
    scene.compare(place, &sent, 1..=1).await
}

/// The same messages again, as after an unknown outcome.
pub(crate) async fn duplicate(scene: &Scene<'_>) -> Result<(), Failure> {
    let place = scene.place().await?;
    let connection = scene.connect().await?;
    let mut sent = place.messages(1, 10);
    confirmed(&publish_now(&*connection, &sent).await?)?;
    for message in &mut sent {
        message.redelivery = true;
    }
    let outcomes = publish_now(&*connection, &sent).await?;
    confirmed(&outcomes)?;
    let removes = scene.harness.features().removes_duplicates;
    for outcome in &outcomes {
        let told = matches!(outcome, Outcome::Confirmed(receipt) if receipt.duplicate);
        ensure!(told == removes, "a second copy's receipt says duplicate = {told}");
    }
    scene.compare(&place, &sent, if removes { 1..=1 } else { 2..=2 }).await
}

fn confirmed(outcomes: &[Outcome]) -> Result<(), Failure> {
    for (index, outcome) in outcomes.iter().enumerate() {
        ensure!(
            matches!(outcome, Outcome::Confirmed(_)),
            "message {index} of the batch ended as {outcome:?}"
        );
    }
    Ok(())
}
