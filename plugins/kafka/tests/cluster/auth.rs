//! Credentials: a broker that refuses them, played by a few lines that speak just enough of the protocol.

use std::time::{Duration, Instant};

use outrider_broker::{ConnectError, ErrorClass, Plugin, Scope};
use outrider_kafka::Kafka;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{options, params};

const SECRET: &str = "s3cr3tThatNobodyMaySee";
const TIMEOUT: Duration = Duration::from_secs(10);

const SASL_HANDSHAKE: i16 = 17;
const API_VERSIONS: i16 = 18;
const SASL_AUTHENTICATE: i16 = 36;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

/// How the broker at the other end treats a client.
#[derive(Clone, Copy)]
enum Manner {
    RefusesCredentials,
    /// As a listener does that expects another `security.protocol`.
    HangsUp,
}

/// Listens on a free port and answers every connection until the test ends.
async fn broker(manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, manner));
        }
    });
    address
}

async fn converse(mut stream: TcpStream, manner: Manner) -> std::io::Result<()> {
    loop {
        let length = stream.read_i32().await?;
        let mut request = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut request).await?;
        if matches!(manner, Manner::HangsUp) {
            return Ok(());
        }
        let api = i16::from_be_bytes([request[0], request[1]]);
        let mut response = request[4..8].to_vec();
        response.extend(answer(api));
        stream.write_i32(i32::try_from(response.len()).unwrap()).await?;
        stream.write_all(&response).await?;
    }
}

fn answer(api: i16) -> Vec<u8> {
    let mut body = Vec::new();
    match api {
        API_VERSIONS => {
            body.extend(0_i16.to_be_bytes());
            let versions = [(0, 3, 7), (3, 0, 4), (SASL_HANDSHAKE, 0, 1), (API_VERSIONS, 0, 3), (22, 0, 1)];
            let versions = [&versions[..], &[(SASL_AUTHENTICATE, 0, 1)]].concat();
            body.push(u8::try_from(versions.len() + 1).unwrap());
            for (api, lowest, highest) in versions {
                for number in [api, lowest, highest] {
                    body.extend(number.to_be_bytes());
                }
                body.push(0);
            }
            body.extend([0; 5]);
        }
        SASL_HANDSHAKE => {
            body.extend(0_i16.to_be_bytes());
            body.extend(1_i32.to_be_bytes());
            text(&mut body, "PLAIN");
        }
        SASL_AUTHENTICATE => {
            body.extend(SASL_AUTHENTICATION_FAILED.to_be_bytes());
            text(&mut body, &format!("no such user with\n{SECRET}"));
            body.extend(0_i32.to_be_bytes());
            body.extend(0_i64.to_be_bytes());
        }
        other => panic!("a client that is not authenticated asked for {other}"),
    }
    body
}

fn text(body: &mut Vec<u8>, text: &str) {
    body.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
    body.extend(text.as_bytes());
}

fn sasl() -> [(&'static str, Value); 4] {
    [
        ("security.protocol", json!("sasl_plaintext")),
        ("sasl.mechanism", json!("PLAIN")),
        ("sasl.username", json!("outrider")),
        ("sasl.password", json!(SECRET)),
    ]
}

async fn refused(address: &str, extra: &[(&str, Value)], timeout: Duration) -> ConnectError {
    let broker = Kafka.parse(&params(address, extra)).unwrap();
    let mut options = options(Duration::from_secs(8));
    options.timeout = timeout;
    broker.connect(options).await.err().expect("the broker refuses")
}

/// C33: says that it is about credentials, at once and not after a timeout, and shows none.
#[tokio::test]
async fn wrong_credentials_are_told_from_a_timeout() {
    let address = broker(Manner::RefusesCredentials).await;
    let begun = Instant::now();
    let ConnectError(cause) = refused(&address, &sasl(), TIMEOUT).await;
    assert!(begun.elapsed() < TIMEOUT / 2, "{:?}", begun.elapsed());
    assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Authentication), "{cause}");
    assert!(cause.text.contains("sasl.") && cause.text.contains("no such user"), "{cause}");
    assert!(!cause.text.contains(SECRET), "{cause}");
}

/// A listener that hangs up leaves a hint in the client's log alone; it is passed on.
#[tokio::test]
async fn a_listener_that_hangs_up_is_named_with_the_likely_cause() {
    let address = broker(Manner::HangsUp).await;
    let ConnectError(cause) = refused(&address, &[], Duration::from_secs(2)).await;
    assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Unreachable), "{cause}");
    assert!(cause.text.contains("security.protocol") && cause.text.contains(&address), "{cause}");
}

/// What only shows when the client is made: the file is not there.
#[tokio::test]
async fn a_missing_certificate_file_is_named() {
    let tls = [("security.protocol", json!("ssl")), ("ssl.ca.location", json!("/no/such/ca.pem"))];
    let ConnectError(cause) = refused("127.0.0.1:1", &tls, Duration::from_secs(2)).await;
    assert_eq!((cause.scope, cause.class), (Scope::Broker, ErrorClass::Invalid), "{cause}");
    assert!(cause.text.contains("ssl.ca.location"), "{cause}");
}
