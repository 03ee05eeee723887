//! A private nats-server that a test may reconfigure, pause, kill and start again. `None` instead of one where the
//! test is to be left out, for all servers are containers.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, stream};
use outrider_servers::{Install, left_out};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;

const READY_WITHIN: Duration = Duration::from_secs(20);

pub(crate) struct Server {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    config: String,
    process: Child,
}

impl Server {
    /// With JetStream, and `config` in the server's own language beside it.
    pub(crate) fn start(config: &str) -> Option<Server> {
        Server::start_with(&format!("jetstream {{ store_dir: \"store\" }}\n{config}"))
    }

    pub(crate) fn start_without_jetstream() -> Option<Server> {
        Server::start_with("")
    }

    fn start_with(config: &str) -> Option<Server> {
        Server::start_in(tempfile::tempdir().unwrap(), config)
    }

    /// In a folder that holds files which the config names.
    pub(crate) fn start_in(folder: TempDir, config: &str) -> Option<Server> {
        let program = left_out::unless(Install::locate().nats())?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let config = config.to_owned();
        let process = run(&program, &folder, port, &config);
        Some(Server { program, folder, port, config, process })
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// A file in its folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// SIGKILL: nothing is flushed or said.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again after [`Server::kill`], with what it had stored.
    pub(crate) fn start_again(&mut self) {
        self.process = run(&self.program, &self.folder, self.port, &self.config);
    }

    /// Replaces the config beside JetStream's and has the server read it.
    pub(crate) fn reload(&mut self, config: &str) {
        self.config = format!("jetstream {{ store_dir: \"store\" }}\n{config}");
        write_config(&self.folder, self.port, &self.config);
        self.signal(Signal::HUP);
    }

    /// It accepts connections, by its kernel, and does nothing else.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
        // Returns once all of its threads have stopped.
        waitpid(Some(Pid::from_child(&self.process)), WaitOptions::UNTRACED).unwrap();
    }

    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// As somebody who may do everything.
    pub(crate) async fn jetstream(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(self.url()).await.unwrap())
    }

    /// As a user whose name is also the password.
    pub(crate) async fn jetstream_as(&self, user: &str) -> jetstream::Context {
        let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), user.to_owned());
        jetstream::new(options.connect(self.url()).await.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A stream of that name for the subject of that name and everything below.
pub(crate) fn stream(name: &str) -> stream::Config {
    let subjects = vec![name.to_owned(), format!("{name}.>")];
    stream::Config { name: name.to_owned(), subjects, ..Default::default() }
}

pub(crate) async fn stored(jetstream: &jetstream::Context, stream: &str) -> u64 {
    jetstream.get_stream(stream).await.unwrap().cached_info().state.messages
}

fn write_config(folder: &TempDir, port: u16, config: &str) {
    let config = format!("listen: \"127.0.0.1:{port}\"\nlog_file: \"log\"\n{config}\n");
    std::fs::write(folder.path().join("config"), config).unwrap();
}

fn run(program: &Path, folder: &TempDir, port: u16, config: &str) -> Child {
    write_config(folder, port, config);
    let mut process = Command::new(program)
        .args(["-c", "config"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("`nats-server` starts");
    let deadline = Instant::now() + READY_WITHIN;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(process.try_wait().unwrap().is_none(), "nats-server ended: {}", log());
        assert!(Instant::now() < deadline, "nats-server is not ready after {READY_WITHIN:?}: {}", log());
        std::thread::sleep(Duration::from_millis(10));
    }
    process
}
