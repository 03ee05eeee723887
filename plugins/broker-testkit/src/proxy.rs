//! A TCP proxy whose behaviour can be switched while it runs: the network faults of the tests.
//!
//! Knows no protocol. One task per connection and direction; all of them end with the [`Proxy`].

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What happens to bytes and to new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Both directions are passed on.
    Pass,
    /// Connections are accepted and stay open, and not a byte is passed on in either direction.
    BlackHole,
    /// New connections are closed at once; living ones go on.
    Refuse,
    /// Each piece waits this long before it is passed on.
    Delay(Duration),
}

#[derive(Clone, Copy, Debug)]
struct State {
    mode: Mode,
    /// Connections of an earlier generation end.
    generation: u64,
}

/// A listening proxy. Dropping it closes the listener and every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a free loopback port and passes everything on to `target`.
    pub async fn start(target: SocketAddr) -> io::Result<Proxy> {
        Proxy::start_at(([127, 0, 0, 1], 0).into(), target).await
    }

    /// The same at an address of the caller's choice; port 0 is a free one.
    pub async fn start_at(address: SocketAddr, target: SocketAddr) -> io::Result<Proxy> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let (state, watched) = watch::channel(State { mode: Mode::Pass, generation: 0 });
        let accepting = tokio::spawn(accept(listener, target, watched));
        Ok(Proxy { address, state, accepting })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Switches, for living connections as well as for new ones.
    pub fn set(&self, mode: Mode) {
        self.state.send_modify(|state| state.mode = mode);
    }

    /// Breaks every connection there is now. New ones fare as the mode says.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, state: watch::Receiver<State>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        if state.borrow().mode == Mode::Refuse {
            continue; // dropped, and so closed
        }
        tokio::spawn(connect(client, target, state.clone()));
    }
}

async fn connect(client: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    let born = state.borrow().generation;
    // A black hole does not even say that nobody is behind it.
    if !until(&mut state, born, |mode| mode != Mode::BlackHole).await {
        return;
    }
    let Ok(server) = TcpStream::connect(target).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = tokio::spawn(pump(from_client, to_server, state.clone(), born));
    pump(from_server, to_client, state, born).await;
    let _ = there.await;
}

/// Copies until an end closes, the proxy is dropped or the connection is cut.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut state: watch::Receiver<State>, born: u64) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            () = ended(state.clone(), born) => return,
        };
        let Ok(read @ 1..) = read else { return };
        let mode = state.borrow().mode;
        if let Mode::Delay(delay) = mode {
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = ended(state.clone(), born) => return,
            }
        }
        if !until(&mut state, born, |mode| mode != Mode::BlackHole).await {
            return;
        }
        tokio::select! {
            written = to.write_all(&buffer[..read]) => if written.is_err() { return },
            () = ended(state.clone(), born) => return,
        }
    }
}

/// Waits until the mode fits. False: the connection has to end.
async fn until(state: &mut watch::Receiver<State>, born: u64, fits: impl Fn(Mode) -> bool) -> bool {
    let seen = state.wait_for(|state| state.generation != born || fits(state.mode)).await;
    matches!(seen, Ok(state) if state.generation == born)
}

async fn ended(mut state: watch::Receiver<State>, born: u64) {
    // An error means that the proxy is gone, which ends the connection too.
    let _ = state.wait_for(|state| state.generation != born).await;
}
