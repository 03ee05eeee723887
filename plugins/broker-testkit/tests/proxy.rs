//! The proxy does to bytes what its mode says.

use std::io;
use std::time::{Duration, Instant};

use outrider_broker_testkit::proxy::{Mode, Proxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(10);

/// Long enough to notice bytes that come although they must not.
const A_WHILE: Duration = Duration::from_millis(200);

/// A proxy before a server that sends back what it gets.
async fn before_echo() -> Proxy {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.expect("accepts");
            tokio::spawn(async move {
                let (mut from, mut to) = socket.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    Proxy::start(address).await.expect("a proxy")
}

async fn connect(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.expect("the proxy listens")
}

async fn echo(socket: &mut TcpStream) -> io::Result<u8> {
    socket.write_all(b"x").await?;
    socket.read_u8().await
}

#[tokio::test]
async fn passes() {
    let proxy = before_echo().await;
    let mut socket = connect(&proxy).await;
    assert_eq!(timeout(SOON, echo(&mut socket)).await.expect("in time").expect("passed"), b'x');
    // The end of one direction arrives at the other side.
    socket.shutdown().await.expect("shut down");
    let mut rest = Vec::new();
    assert_eq!(timeout(SOON, socket.read_to_end(&mut rest)).await.expect("in time").expect("the end"), 0);
}

#[tokio::test]
async fn swallows_nothing_but_holds_it_back() {
    let proxy = before_echo().await;
    let mut old = connect(&proxy).await;
    timeout(SOON, echo(&mut old)).await.expect("in time").expect("passed");
    proxy.set(Mode::BlackHole);
    let mut new = connect(&proxy).await;
    assert!(timeout(A_WHILE, echo(&mut old)).await.is_err(), "a living connection goes silent");
    assert!(timeout(A_WHILE, echo(&mut new)).await.is_err(), "a new one is silent from the start");
    proxy.set(Mode::Pass);
    assert_eq!(timeout(SOON, old.read_u8()).await.expect("in time").expect("held back"), b'x');
    assert_eq!(timeout(SOON, new.read_u8()).await.expect("in time").expect("held back"), b'x');
}

#[tokio::test]
async fn cuts_what_there_is() {
    let proxy = before_echo().await;
    let mut old = connect(&proxy).await;
    timeout(SOON, echo(&mut old)).await.expect("in time").expect("passed");
    proxy.cut();
    assert!(timeout(SOON, echo(&mut old)).await.expect("in time").is_err());
    let mut new = connect(&proxy).await;
    assert_eq!(timeout(SOON, echo(&mut new)).await.expect("in time").expect("passed"), b'x');
    drop(proxy);
    assert!(timeout(SOON, echo(&mut new)).await.expect("in time").is_err(), "none outlives the proxy");
}

#[tokio::test]
async fn cuts_what_is_silent() {
    let proxy = before_echo().await;
    proxy.set(Mode::BlackHole);
    let mut silent = connect(&proxy).await;
    assert!(timeout(A_WHILE, echo(&mut silent)).await.is_err());
    proxy.cut();
    assert!(timeout(SOON, silent.read_u8()).await.expect("in time").is_err());
}

#[tokio::test]
async fn refuses_new_ones() {
    let proxy = before_echo().await;
    let mut old = connect(&proxy).await;
    timeout(SOON, echo(&mut old)).await.expect("in time").expect("passed");
    proxy.set(Mode::Refuse);
    let mut new = connect(&proxy).await;
    assert!(timeout(SOON, echo(&mut new)).await.expect("in time").is_err());
    assert_eq!(timeout(SOON, echo(&mut old)).await.expect("in time").expect("goes on"), b'x');
}

#[tokio::test]
async fn delays() {
    let proxy = before_echo().await;
    let mut socket = connect(&proxy).await;
    proxy.set(Mode::Delay(Duration::from_millis(100)));
    let begun = Instant::now();
    timeout(SOON, echo(&mut socket)).await.expect("in time").expect("passed");
    assert!(begun.elapsed() >= Duration::from_millis(200), "there and back");
}

#[tokio::test]
async fn points_new_ones_elsewhere() {
    let proxy = before_echo().await;
    let mut old = connect(&proxy).await;
    timeout(SOON, echo(&mut old)).await.expect("in time").expect("passed");
    let elsewhere = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    proxy.point(elsewhere.local_addr().expect("bound"));
    let new = connect(&proxy).await;
    timeout(SOON, elsewhere.accept()).await.expect("in time").expect("came there");
    assert_eq!(timeout(SOON, echo(&mut old)).await.expect("in time").expect("stays where it was"), b'x');
    drop(new);
}
