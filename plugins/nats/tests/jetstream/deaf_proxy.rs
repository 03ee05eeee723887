//! A proxy that can be told to swallow what the server says, or to cut its connections.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Pass,
    /// What the client says arrives; what the server says does not.
    Swallow,
    /// Every connection ends. New ones end at once.
    Cut,
}

pub(crate) struct DeafProxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
}

impl DeafProxy {
    pub(crate) async fn start(server: SocketAddr) -> DeafProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, watched) = watch::channel(Mode::Pass);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pump(from_client, to_server, watched.clone(), false));
                tokio::spawn(pump(from_server, to_client, watched.clone(), true));
            }
        });
        DeafProxy { address, mode }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    pub(crate) fn swallow(&self) {
        self.mode.send_replace(Mode::Swallow);
    }

    pub(crate) fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mode: watch::Receiver<Mode>, deaf: bool) {
    let mut buffer = vec![0; 64 * 1024];
    let mut cut = mode.clone();
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read.unwrap_or(0),
            _ = cut.wait_for(|mode| *mode == Mode::Cut) => return,
        };
        if read == 0 {
            return;
        }
        let swallow = deaf && *mode.borrow() == Mode::Swallow;
        if !swallow && to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}
