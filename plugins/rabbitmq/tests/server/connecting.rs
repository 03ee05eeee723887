//! The true reason when no connection can be made. (Unreachable servers and wrong passwords are in the suite.)

use std::time::{Duration, Instant};

use outrider_broker::{Cause, ConnectOptions, ErrorClass, Scope};
use outrider_broker_testkit::MARKER;
use serde_json::json;

use crate::rig::{broker_at, manage, options, unique, url};

async fn refused(url: &str) -> Cause {
    let broker = broker_at(url, json!({}));
    let cause = match broker.connect(options(Duration::from_secs(1))).await {
        Ok(_) => panic!("connected"),
        Err(error) => error.0,
    };
    assert_eq!(cause.scope, Scope::Broker);
    // C93
    assert!(!cause.text.contains(MARKER) && !format!("{broker:?} {cause:?}").contains(MARKER), "{cause}");
    cause
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_virtual_host_is_named() {
    let name = unique("no-such-vhost");
    let cause = refused(&url(|uri| uri.vhost.clone_from(&name))).await;
    assert_eq!(cause.class, ErrorClass::UnknownDestination, "{cause}");
    assert!(cause.text.contains(&name), "{cause}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_virtual_host_without_access_is_a_question_of_rights() {
    let user = unique("outrider-test");
    manage("PUT", &format!("/api/users/{user}"), &json!({"password": MARKER, "tags": ""}));
    let cause = refused(&url(|uri| {
        uri.authority.userinfo.username.clone_from(&user);
        uri.authority.userinfo.password = MARKER.to_owned();
    }))
    .await;
    assert_eq!(cause.class, ErrorClass::Authorization, "{cause}");
}

/// Somebody else's port: what answers is not AMQP, or hangs up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_amqp_is_told_apart() {
    let management = outrider_servers::address::rabbitmq_management();
    let port =
        management.rsplit(':').next().and_then(|port| port.parse().ok()).expect("the URL ends with a port");
    let cause = refused(&url(|uri| {
        uri.authority.port = port;
        uri.authority.userinfo.password = MARKER.to_owned();
    }))
    .await;
    assert!(
        matches!(cause.class, ErrorClass::Unreachable | ErrorClass::ClientFatal | ErrorClass::Timeout),
        "{cause:?}"
    );
    assert!(cause.text.contains(&port.to_string()), "{cause}");
}

/// C47: TCP works, and the handshake is never answered. The thread of the attempt ends with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_costs_the_timeout_and_nothing_more() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let broker = broker_at(&format!("amqp://u:{MARKER}@127.0.0.1:{port}/"), json!({}));
    let limit = Duration::from_millis(300);
    let begun = Instant::now();
    let options = ConnectOptions {
        client_name: "outrider/test".to_owned(),
        timeout: limit,
        publish_deadline: Duration::from_secs(1),
    };
    let Err(error) = broker.connect(options).await else { panic!("connected") };
    assert!(begun.elapsed() < limit + Duration::from_secs(2));
    assert_eq!(error.0.class, ErrorClass::Timeout, "{error}");
    assert!(error.0.text.contains("handshake") && !error.0.text.contains(MARKER), "{error}");

    // The server's side of the attempt ends: nothing of it is left behind.
    let (mut stream, _) = silent.accept().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), async {
        let mut buffer = [0; 64];
        while !matches!(tokio::io::AsyncReadExt::read(&mut stream, &mut buffer).await, Ok(0) | Err(_)) {}
    });
    ended.await.expect("the attempt's connection stays open");
}
