//! The way to end a connection so that nothing leaves any more.
//!
//! The client library keeps unwritten frames while the broker blocks it or the socket is stuck, and has no way
//! to drop them: closing in its own words waits behind them, and unblocking writes them all. So a second handle
//! to the socket is kept, to shut it down under the library. Must not: read or write.

use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Socket(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Not connected yet.
    #[default]
    Pending,
    Open(socket2::Socket),
    /// The library has closed it in an orderly way.
    Released,
    Killed,
}

impl Socket {
    /// Keeps a handle to a connected socket. An error if the attempt was given up meanwhile.
    pub(crate) fn attach(&self, socket: impl AsFd) -> io::Result<()> {
        let handle = socket.as_fd().try_clone_to_owned()?;
        let mut state = self.state();
        match *state {
            State::Pending => {
                *state = State::Open(handle.into());
                Ok(())
            }
            State::Open(_) | State::Released | State::Killed => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Ends the connection now. What the library or the kernel still holds is thrown away, and whatever the
    /// library is waiting for fails at once.
    pub(crate) fn kill(&self) {
        if let State::Open(socket) = std::mem::replace(&mut *self.state(), State::Killed) {
            // Without lingering, the last handle to close resets the connection and drops the kernel's buffer.
            // An error means that the connection is gone already.
            let _ = socket.set_linger(Some(Duration::ZERO));
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Lets go of a connection that was closed in an orderly way.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        if matches!(*state, State::Open(_)) {
            *state = State::Released;
        }
    }

    /// Whether there was a TCP connection at all.
    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.state(), State::Open(_))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills the socket when dropped, unless [`KillOnDrop::disarm`] was called: for attempts to connect that are
/// given up, whose thread would otherwise wait for ever.
pub(crate) struct KillOnDrop<'a>(Option<&'a Socket>);

impl<'a> KillOnDrop<'a> {
    pub(crate) fn new(socket: &'a Socket) -> Self {
        KillOnDrop(Some(socket))
    }

    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        if let Some(socket) = self.0 {
            socket.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_killed_socket_ends_its_other_handle() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::default();
        assert!(!socket.is_open());
        socket.attach(&client).unwrap();
        assert!(socket.is_open());

        socket.kill();
        assert!(!socket.is_open());
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
        socket.kill();
    }

    #[test]
    fn an_attempt_that_was_given_up_attaches_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Socket::default();
        drop(KillOnDrop::new(&socket));
        assert!(socket.attach(&client).is_err());
    }
}
