//! Free loopback ports for private servers.
//!
//! They lie below the range from which the kernel takes the local ports of outgoing connections. A port out of
//! that range (which is what binding port 0 gives) can be taken by any client while its server is down for a
//! restart, and a client that dials it over and over meanwhile can even connect to itself. Must not: give out a
//! server's default port, so that nobody mistakes a private server for the machine's own.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Result, bail};

/// Above the fixed ports of `compose.yaml`, and with the last one below Linux's usual ephemeral range (from 32768).
const FIRST: u32 = 22_000;
const COUNT: u32 = 10_000;
/// Processes start looking this many ports apart, so that two that start servers at once do not race.
const STRIDE: u32 = 64;
/// The one default port that lies between: RabbitMQ's for Erlang distribution.
const DEFAULT: u16 = 25_672;

/// A port on which nothing listens. No two calls of one process give the same one.
///
/// # Errors
/// When all are taken.
pub fn free() -> Result<u16> {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(STRIDE);
    for _ in 0..COUNT {
        let offset = start.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed)) % COUNT;
        let port = u16::try_from(FIRST + offset).expect("the range ends below 65536");
        if port != DEFAULT && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("find a free port between {FIRST} and {}: close what listens there", FIRST + COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_a_used_one_is_passed_over() {
        let first = free().unwrap();
        let next = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 1));
        let second = free().unwrap();
        assert_ne!(first, second);
        if next.is_ok() {
            assert_ne!(second, first + 1);
        }
    }
}
