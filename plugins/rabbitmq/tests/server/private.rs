//! What can't be done to a server that others use: limits, alarms and restarts of a private one.

use std::time::{Duration, Instant};

use lapin::ExchangeKind;
use lapin::types::AMQPValue;
use outrider_broker::{Connection, ErrorClass, Message, Outcome, Scope};
use outrider_servers::{Install, Server as Private, left_out};
use serde_json::json;

use crate::rig::{
    PATIENCE, Server, broker_at, confirmed, connect, ids, message, options, publish, sized, until,
};

/// Runs `rabbitmqctl` on a private server.
fn control(private: &Private, arguments: &[&str]) {
    outrider_servers::rabbitmq::control(private, arguments).expect("run `rabbitmqctl`");
}

/// Starting one takes longer than any of the behaviours, so they share it, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_alarms_and_restarts() {
    let install = Install::locate();
    let Some(_) = left_out::unless(install.rabbitmq()) else { return };
    let mut private = outrider_servers::rabbitmq::start(&install).expect("a private RabbitMQ");
    an_oversized_message_is_found(&private).await;
    a_stuck_queue_holds_up_nobody_else(&private).await;
    a_memory_alarm_pauses_and_ends(&private).await;
    a_restart_loses_nothing(&mut private).await;
}

/// C42: the plugin does not know the limit, so the broker has to say it, by closing the channel.
async fn an_oversized_message_is_found(private: &Private) {
    control(private, &["eval", "application:set_env(rabbit, max_message_size, 1048576)."]);
    let server = Server::at(private.address()).await;
    let queue = server.quorum_queue().await;
    let connection = connect(&*broker_at(private.address(), json!({}))).await;
    assert!(confirmed(&publish(&*connection, &[message("", &queue)]).await[0]));
    server.drain(&queue).await;

    let mut batch: Vec<Message> = (0..21).map(|_| message("", &queue)).collect();
    batch[10] = sized("", &queue, (1 << 20) + 1);
    let outcomes = publish(&*connection, &batch).await;
    let Outcome::Refused(refusal) = &outcomes[10] else { panic!("{:?}", outcomes[10]) };
    assert!(refusal.permanent && refusal.cause.class == ErrorClass::TooLarge, "{refusal:?}");
    assert!(refusal.cause.text.contains("1048577") && refusal.cause.text.contains("1048576"), "{refusal:?}");
    for (index, outcome) in outcomes.iter().enumerate().filter(|(index, _)| *index != 10) {
        let fine = match outcome {
            Outcome::Confirmed(_) => true,
            Outcome::Unknown(cause) | Outcome::NotSent(cause) => cause.scope == Scope::Event,
            Outcome::Retry(_) | Outcome::Refused(_) => false,
        };
        assert!(fine, "row {index}: {outcome:?}");
    }

    // From then on the limit is known: the same batch costs nobody anything.
    assert!(connection.alive());
    let outcomes = publish(&*connection, &batch).await;
    assert_eq!(outcomes.iter().filter(|outcome| confirmed(outcome)).count(), 20, "{outcomes:?}");
    assert!(matches!(&outcomes[10], Outcome::Refused(refusal) if refusal.permanent));
    let mut arrived = server.ids(&queue).await;
    arrived.dedup();
    assert_eq!(arrived, ids(batch.iter().filter(|one| one.id != batch[10].id)));
    let exact = sized("", &queue, 1 << 20);
    assert!(
        confirmed(&publish(&*connection, std::slice::from_ref(&exact)).await[0]),
        "the limit itself fits"
    );
}

/// A queue that does not confirm concerns its own topic, also on a connection that was never used before.
async fn a_stuck_queue_holds_up_nobody_else(private: &Private) {
    let server = Server::at(private.address()).await;
    let stuck = server.queue(&[]).await;
    let exchange = server.exchange(ExchangeKind::Direct).await;
    let queue = server.quorum_queue().await;
    server.bind(&stuck, &exchange, "k").await;
    let process = |call: &str| {
        let find = format!("rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, queue, <<\"{stuck}\">>))");
        control(private, &["eval", &format!("{{ok, Q}} = {find}, sys:{call}(amqqueue:get_pid(Q)).")]);
    };
    process("suspend");

    let connection = connect(&*broker_at(private.address(), json!({}))).await;
    let batch: Vec<Message> = (0..20)
        .map(|index| if index % 4 == 0 { message(&exchange, "k") } else { message("", &queue) })
        .collect();
    let deadline = Instant::now() + Duration::from_secs(2);
    let outcomes = connection.publish(batch.clone(), deadline).await;
    assert!(Instant::now() < deadline + Duration::from_millis(500), "late by {:?}", deadline.elapsed());
    for (index, outcome) in outcomes.iter().enumerate() {
        let right = match outcome {
            Outcome::Unknown(cause) if index % 4 == 0 => {
                cause.scope == Scope::Destination && cause.class == ErrorClass::Timeout
            }
            outcome => index % 4 != 0 && confirmed(outcome),
        };
        assert!(right, "row {index}: {outcome:?}");
    }
    assert!(connection.alive());
    process("resume");
    assert!(publish(&*connection, &batch).await.iter().all(confirmed));
}

/// C45
async fn a_memory_alarm_pauses_and_ends(private: &Private) {
    const DEADLINE: Duration = Duration::from_secs(2);
    let server = Server::at(private.address()).await;
    let queue = server.queue(&[("x-queue-type", AMQPValue::LongString("quorum".into()))]).await;
    let broker = broker_at(private.address(), json!({}));
    let connection = broker.connect(options(DEADLINE)).await.expect("the server takes connections");
    assert!(confirmed(&publish(&*connection, &[message("", &queue)]).await[0]));
    server.drain(&queue).await;

    control(private, &["set_vm_memory_high_watermark", "absolute", "1MB"]);
    // More than the sockets hold, so that frames are still with the client when time runs out.
    let batch: Vec<Message> = (0..200).map(|_| sized("", &queue, 100_000)).collect();
    let deadline = Instant::now() + DEADLINE;
    let outcomes = connection.publish(batch.clone(), deadline).await;
    assert!(Instant::now() < deadline + Duration::from_millis(500), "late by {:?}", deadline.elapsed());
    let mut not_sent = Vec::new();
    for (one, outcome) in batch.iter().zip(&outcomes) {
        match outcome {
            Outcome::Unknown(cause) => assert_eq!(cause.class, ErrorClass::Blocked, "{cause}"),
            Outcome::NotSent(cause) => {
                assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Blocked), "{cause}");
                not_sent.push(one.id.to_string());
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(!not_sent.is_empty(), "20 MB in socket buffers?");
    assert!(!connection.alive(), "a connection that holds frames back has to end");

    // A new connection is not told of the alarm before it publishes, and the probe does.
    let connection = broker.connect(options(DEADLINE)).await.expect("the server takes connections");
    let begun = Instant::now();
    let cause = connection.probe(Instant::now() + PATIENCE).await.expect_err("blocked");
    assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Blocked), "{cause}");
    assert!(cause.text.contains("memory"), "{cause}");
    assert!(begun.elapsed() < PATIENCE / 2, "the broker says at once that it is blocked");

    // While blocked, nothing is handed over, promptly, and the connection stays.
    let begun = Instant::now();
    let outcomes = publish(&*connection, &batch).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    for outcome in &outcomes {
        assert!(
            matches!(outcome, Outcome::NotSent(cause) if cause.class == ErrorClass::Blocked),
            "{outcome:?}"
        );
    }
    assert!(connection.alive());

    // It resumes by itself, and none of the frames that were held back comes out of anywhere.
    control(private, &["set_vm_memory_high_watermark", "absolute", "1GB"]);
    resumed(&*connection).await;
    let after = message("", &queue);
    assert!(confirmed(&publish(&*connection, std::slice::from_ref(&after)).await[0]));
    let arrived = server.ids(&queue).await;
    assert!(arrived.contains(&after.id.to_string()));
    assert!(arrived.iter().all(|id| !not_sent.contains(id)), "a message left after it was called not sent");
    assert!(publish(&*connection, &batch).await.iter().all(confirmed));
}

async fn resumed(connection: &dyn Connection) {
    let begun = Instant::now();
    while let Err(cause) = connection.probe(Instant::now() + PATIENCE).await {
        assert!(begun.elapsed() < Duration::from_secs(60), "still {cause}");
        assert!(connection.alive(), "{cause}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// C47: the broker dies with a batch in flight and comes back.
async fn a_restart_loses_nothing(private: &mut Private) {
    // Not a quorum queue: after a kill this version can lose its way to one that was declared a moment ago.
    let queue = Server::at(private.address()).await.queue(&[]).await;
    let broker = broker_at(private.address(), json!({}));
    let connection = connect(&*broker).await;
    assert!(confirmed(&publish(&*connection, &[message("", &queue)]).await[0]));

    private.kill();
    until(PATIENCE, "a broken connection says so", || !connection.alive()).await;
    let batch: Vec<Message> = (0..20).map(|_| message("", &queue)).collect();
    let outcomes = publish(&*connection, &batch).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::NotSent(_))), "{outcomes:?}");
    let Err(error) = broker.connect(options(PATIENCE)).await else { panic!("connected to a dead server") };
    assert_eq!(error.0.class, ErrorClass::Unreachable, "{error}");

    private.restart().expect("the private RabbitMQ comes back");
    let server = Server::at(private.address()).await;
    // Of a queue that was declared a moment ago, it may have lost all.
    server.declare_queue(&queue, &[]).await;
    let connection = connect(&*broker).await;
    let outcomes = publish(&*connection, &batch).await;
    assert!(outcomes.iter().all(confirmed), "{outcomes:?}");
    let arrived = server.ids(&queue).await;
    assert!(ids(&batch).iter().all(|id| arrived.contains(id)));
}
