//! Runs the built `outrider` on a config directory of the test's own.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// Brokers that need no server, and a route for `orders.*` only.
const ROOT: &str = "[admin]\nlisten = \"127.0.0.1:0\"\n[brokers.memory]\nkind = \"memory\"\n\
     [[routes]]\ntopic = \"orders.*\"\nbroker = \"memory\"\n";

/// A config directory with tenant `acme`, whose database is `$ACME_URL`.
pub(crate) struct Cli {
    dir: TempDir,
    url: String,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Cli {
    pub(crate) fn new(database_url: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("tenants")).unwrap();
        let cli = Cli { dir, url: database_url.to_owned() };
        cli.root(ROOT).file("tenants/acme.toml", "database = { url = \"env:ACME_URL\" }\n")
    }

    pub(crate) fn root(self, text: &str) -> Self {
        self.file("outrider.toml", text)
    }

    pub(crate) fn file(self, name: &str, content: &str) -> Self {
        std::fs::write(self.dir.path().join(name), content).unwrap();
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The command with this config and nothing of the test's own environment.
    pub(crate) fn command(&self, args: &[impl AsRef<OsStr>]) -> Command {
        let mut command = outrider(args);
        command.env("OUTRIDER_CONFIG", self.path()).env("ACME_URL", &self.url);
        command
    }

    pub(crate) fn run(&self, args: &[impl AsRef<OsStr>]) -> Ended {
        self.command(args).output().unwrap().into()
    }

    pub(crate) fn run_with_input(&self, args: &[impl AsRef<OsStr>], input: &[u8]) -> Ended {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().into()
    }
}

/// The binary without any config.
pub(crate) fn outrider(args: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_outrider"));
    command.args(args).env_clear().stdin(Stdio::null());
    command
}

impl Ended {
    /// What it printed, as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Ended {
            code: output.status.code().expect("no signal ended it"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
