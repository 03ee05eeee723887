//! The `outrider` program: migrate, start, kill, end. Its output goes to a file, which is quoted when it fails.

use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Until the daemon answers that it is ready.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Longer than its own grace period for ending.
const END_WITHIN: Duration = Duration::from_secs(40);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Lines of its output that are quoted.
const QUOTED_LINES: usize = 15;

/// The program with a config of its own, in a folder that is gone when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    program: PathBuf,
    folder: TempDir,
    admin: u16,
    variables: OnceLock<Vec<(String, String)>>,
}

/// A running daemon; killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Daemon {
    /// Not started, and without a config.
    pub fn new(program: &Path) -> Result<Daemon> {
        let folder = tempfile::Builder::new().prefix("outrider-").tempdir().context("make a folder")?;
        let admin = free_port().context("find a free port")?;
        Ok(Daemon { program: program.to_owned(), folder, admin, variables: OnceLock::new() })
    }

    /// Writes `outrider.toml`, and a file for each tenant. The admin address is not set there: the daemon gets it as a
    /// variable.
    pub fn write(&self, main: &str, tenants: &[(&str, String)]) -> Result<()> {
        let folder = self.config().join("tenants");
        fs::create_dir_all(&folder).context("make the config's folder")?;
        fs::write(self.config().join("outrider.toml"), main).context("write the config")?;
        for (tenant, text) in tenants {
            fs::write(folder.join(format!("{tenant}.toml")), text).context("write a tenant's config")?;
        }
        Ok(())
    }

    /// Environment variables that the config refers to. The first call counts.
    pub fn tell(&self, variables: Vec<(String, String)>) {
        let _ = self.variables.set(variables);
    }

    pub fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    /// Everything that it printed, over all its lives.
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("outrider.log")
    }

    /// Where `/metrics`, `/healthz` and `/readyz` are.
    pub fn admin(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.admin).into()
    }

    fn command(&self, verb: &str) -> Result<Command> {
        let log = File::options().create(true).append(true).open(self.log()).context("open the log")?;
        let mut command = Command::new(&self.program);
        command
            .args([verb, "--config"])
            .arg(self.config())
            .env("OUTRIDER_ADMIN__LISTEN", self.admin().to_string())
            .envs(self.variables.get().into_iter().flatten().cloned())
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("open the log")?)
            .stderr(log)
            .kill_on_drop(true);
        Ok(command)
    }

    /// `outrider migrate`.
    pub async fn migrate(&self) -> Result<()> {
        let status = self.command("migrate")?.status().await.with_context(|| self.not_run())?;
        if !status.success() {
            bail!("run `outrider migrate`: {status}\n{}", self.quote());
        }
        Ok(())
    }

    /// Starts it, and waits for nothing.
    pub fn launch(&self) -> Result<Running> {
        self.launch_with(&[])
    }

    /// The same with variables for this life alone.
    pub fn launch_with(&self, variables: &[(&str, &str)]) -> Result<Running> {
        let mut command = self.command("run")?;
        command.envs(variables.iter().copied());
        Ok(Running { child: command.spawn().with_context(|| self.not_run())? })
    }

    /// Starts it and waits until it is ready.
    pub async fn start(&self) -> Result<Running> {
        let mut running = self.launch()?;
        self.ready(&mut running).await?;
        Ok(running)
    }

    /// Waits until it is ready.
    pub async fn ready(&self, running: &mut Running) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while !self.is_ready().await {
            if let Some(status) = running.ended()? {
                bail!("start outrider: it ended with {status}\n{}", self.quote());
            }
            if Instant::now() > deadline {
                bail!("start outrider: it was not ready within {READY_WITHIN:?}\n{}", self.quote());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    async fn is_ready(&self) -> bool {
        let answer = tokio::time::timeout(Duration::from_secs(1), self.ask("/readyz")).await;
        matches!(answer, Ok(Ok(answer)) if answer.starts_with("HTTP/1.1 200"))
    }

    /// The whole answer to a GET of one of the admin paths, head and body.
    pub async fn ask(&self, path: &str) -> io::Result<String> {
        let mut socket = TcpStream::connect(self.admin()).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    fn not_run(&self) -> String {
        format!("run `{}`; is it built?", self.program.display())
    }

    /// The end of its output.
    pub fn quote(&self) -> String {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(QUOTED_LINES)..].join("\n")
    }
}

impl Running {
    /// Its process; `None` once it has ended.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("look after outrider")
    }

    /// SIGKILL: it gets no chance to do anything.
    pub async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("kill outrider")
    }

    /// SIGTERM, without waiting for what comes of it.
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGINT, as Ctrl-C sends it.
    pub fn interrupt(&self) -> Result<()> {
        self.signal(Signal::INT)
    }

    /// SIGSTOP: it stands still until [`resume`](Self::resume).
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// One that has ended already gets no signal.
    fn signal(&self, signal: Signal) -> Result<()> {
        let Some(pid) = self.child.id() else { return Ok(()) };
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("read a pid")?;
        kill_process(pid, signal).context("send outrider a signal")
    }

    /// How it ended. Killed, and an error, if it is still there after `limit`.
    pub async fn ended_within(&mut self, limit: Duration) -> Result<ExitStatus> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => status.context("wait for outrider"),
            Err(_) => {
                self.kill().await?;
                bail!("wait for the end of outrider: it was still there after {limit:?}")
            }
        }
    }

    /// SIGTERM, and how it ended. Killed when it does not end.
    pub async fn end(mut self) -> Result<ExitStatus> {
        self.terminate()?;
        self.ended_within(END_WITHIN).await
    }
}

/// A loopback port that nobody listens on at the moment.
fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
