//! What a test may do to a throwaway server, on real ones of the two kinds that start within a second. Kafka and
//! RabbitMQ, which are kept by the same code, go through it in their plugins' tests.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::holder::{self, Holder, ProcessRecord, ServerRecord};
use crate::place::Medium;
use crate::process::{Process, holds_within};
use crate::{Install, Server, Signal, left_out, nats, place, postgres, probe};

const DEADLINE: Duration = Duration::from_secs(120);

/// Takes a server through its life; `answers` asks it something.
fn exercise(mut server: Server, port: u16, answers: fn(u16) -> bool) {
    let first_pid = server.pid().unwrap();
    assert!(answers(port), "{}: ready, so it answers", server.name());

    server.pause();
    assert!(!answers(port), "{}: paused, so it does not answer", server.name());
    assert!(server.is_running());
    server.resume();
    assert!(holds_within(DEADLINE, || answers(port)), "{}: resumed, so it answers", server.name());

    let process = Process::of(first_pid).unwrap();
    let family = process.descendants();
    server.kill();
    assert!(!server.is_running() && !process.is_alive());
    assert!(family.iter().all(|child| !child.is_alive()), "{}: its children are gone too", server.name());
    assert!(!probe::listens(port));

    server.restart().unwrap();
    assert_ne!(server.pid(), Some(first_pid));
    assert!(answers(port), "{}: back on its port", server.name());

    let process = Process::of(server.pid().unwrap()).unwrap();
    let folder = server.folder().to_owned();
    drop(server);
    assert!(!process.is_alive() && !folder.exists(), "nothing is left of it");
}

/// PostgreSQL answers `N` to a request for TLS that it was not given a certificate for, from a backend process.
fn postgres_answers(port: u16) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut answer, request) = ([0], [0, 0, 0, 8, 4, 210, 22, 47]);
    stream.write_all(&request).and_then(|()| stream.read_exact(&mut answer)).is_ok() && answer == *b"N"
}

#[test]
fn postgres_lives_through_all() {
    let install = Install::locate();
    let Some(_) = left_out::unless(install.postgres()) else { return };
    let server = postgres::start(&install, postgres::Version::Distribution).unwrap();
    let port = server.port("postgres").unwrap();
    exercise(server, port, postgres_answers);
}

#[test]
fn nats_lives_through_all() {
    let install = Install::locate();
    let Some(_) = left_out::unless(install.nats()) else { return };
    let server = nats::start(&install).unwrap();
    let port = server.port("monitor").unwrap();
    exercise(server, port, |port| probe::http_is_ok(port, "/healthz", ""));
}

#[test]
fn a_start_that_fails_shows_the_log() {
    let install = Install::locate();
    let Some(program) = left_out::unless(install.nats()) else { return };
    let server = nats::start(&install).unwrap();
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", &server.port("nats").unwrap().to_string()]);
    let log = server.folder().join("second.log");
    let mut second = crate::daemon::Daemon::new("nats-server", command, &log).unwrap().ready_when(|| false);
    second.start().unwrap();
    let text = second.wait_ready().unwrap_err().to_string();
    assert!(text.contains("ended at its start") && text.contains("address already in use"), "{text}");
}

#[test]
fn what_a_process_left_behind_is_swept() {
    let holder = Holder::new(&format!("swept-{}", std::process::id()), false, Medium::Disk).unwrap();
    let folder = holder.server_folder("sleeper").unwrap();
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let process = Process::of(child.id()).unwrap();
    let processes = vec![ProcessRecord {
        program: "sleep".into(),
        process: process.clone(),
        end_by: Signal::KILL.as_raw(),
    }];
    let record = ServerRecord { name: "sleeper".into(), ports: [].into(), variables: vec![], processes };
    record.write(&folder).unwrap();

    holder::sweep();
    assert!(process.is_alive(), "its holder, this process, lives");

    let mut gone = Command::new("true").spawn().unwrap();
    let holding = serde_json::json!({ "process": { "pid": gone.id(), "born": "an earlier boot/1" } });
    gone.wait().unwrap();
    std::fs::write(folder.parent().unwrap().join("holder.json"), holding.to_string()).unwrap();
    // Another test of this process may have swept it in between: what counts is that it is gone.
    holder::sweep();
    assert!(process.wait_gone(DEADLINE));
    assert!(holds_within(DEADLINE, || !folder.exists()));
    child.wait().unwrap();
}

#[test]
fn the_workspace_is_the_folder_with_the_lock_file() {
    assert!(Path::new(place::workspace()).join("Cargo.lock").exists());
}
