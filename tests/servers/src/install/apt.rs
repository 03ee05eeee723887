//! Debian packages: which of those needed are missing, and installing them, as root or through sudo.
//!
//! Must not: start, stop or configure a server of the machine. What a package's own scripts start stays as it is
//! and is never used. The one setting made: before PostgreSQL comes in, Debian is told not to make and start a
//! cluster for it.

use std::fs::{self, File};
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::Install;
use crate::place;

/// What a build of the workspace needs: librdkafka is compiled, and links the system's TLS and compression.
const BUILD: [&str; 7] =
    ["cmake", "g++", "pkg-config", "libssl-dev", "zlib1g-dev", "libzstd-dev", "libcurl4-openssl-dev"];

/// Makes PostgreSQL's scripts create clusters on installation; read by them if it exists.
const CLUSTER_CONFIG: &str = "/etc/postgresql-common/createcluster.conf";
const CLUSTER_SETTING: &str = "create_main_cluster";

/// Whether this is a system with Debian packages.
pub fn is_here() -> bool {
    Path::new("/usr/bin/apt-get").exists() && Path::new("/usr/bin/dpkg-query").exists()
}

/// Installs the packages that a build needs.
///
/// # Errors
/// Without root's rights, with the command to run; or when apt-get fails, with the end of its output.
pub fn ensure_build(report: &dyn Fn(&str)) -> Result<()> {
    ensure(missing_build()?, report)
}

/// Installs what a build needs and the servers that are not there.
///
/// # Errors
/// As [`ensure_build`].
pub fn ensure_all(install: &Install, report: &dyn Fn(&str)) -> Result<()> {
    let mut packages = missing_build()?;
    let mut need = |is_missing: bool, alternatives: &[&str]| {
        if is_missing {
            packages.push(alternatives.iter().map(|name| (*name).to_owned()).collect());
        }
    };
    need(install.postgres().is_err(), &["postgresql-15", "postgresql"]);
    need(install.rabbitmq().is_err(), &["rabbitmq-server"]);
    need(install.nats().is_err(), &["nats-server"]);
    need(install.java().is_err(), &["openjdk-17-jre-headless", "openjdk-21-jre-headless"]);
    need(install.pgbouncer().is_err(), &["pgbouncer"]);
    need(install.faketime().is_none(), &["libfaketime"]);
    need(install.nss_wrapper().is_none(), &["libnss-wrapper"]);
    need(super::maven::is_needed(install), &["maven"]);
    ensure(packages, report)
}

/// A package, or the first of several that apt knows.
type Alternatives = Vec<String>;

fn missing_build() -> Result<Vec<Alternatives>> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"])
        .args(BUILD)
        .stdin(Stdio::null())
        .output()
        .context("run `dpkg-query`")?;
    // It fails when it knows one of the names not at all, and still lists the others.
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(not_installed(&BUILD, &listed).into_iter().map(|name| vec![name.to_owned()]).collect())
}

/// The names that `listed` (lines of `PACKAGE STATUS`) does not call installed.
fn not_installed<'a>(names: &[&'a str], listed: &str) -> Vec<&'a str> {
    let installed =
        |name: &&str| listed.lines().any(|line| line.split_once(' ') == Some((*name, "installed")));
    names.iter().filter(|name| !installed(name)).copied().collect()
}

fn ensure(packages: Vec<Alternatives>, report: &dyn Fn(&str)) -> Result<()> {
    if packages.is_empty() {
        return Ok(());
    }
    let first_choices: Vec<String> = packages.iter().filter_map(|names| names.first().cloned()).collect();
    let rights = Rights::find(&first_choices)?;
    report("apt-get update");
    if let Err(cause) = rights.apt_get(&["update"]) {
        report(&format!("apt-get update failed, going on with the lists there are: {cause:#}"));
    }
    let names = packages.into_iter().map(choose).collect::<Result<Vec<_>>>()?;
    if names.iter().any(|name| name.starts_with("postgresql")) {
        rights.keep_postgres_from_starting(report)?;
    }
    report(&format!("apt-get install {}", names.join(" ")));
    rights.install(&names)
}

/// The first of the alternatives that can be installed.
fn choose(alternatives: Alternatives) -> Result<String> {
    let known = |name: &String| {
        let output = Command::new("apt-cache").args(["policy", name]).stdin(Stdio::null()).output();
        output.is_ok_and(|output| has_candidate(&String::from_utf8_lossy(&output.stdout)))
    };
    let found = alternatives.iter().find(|name| known(name)).cloned();
    found.with_context(|| format!("find the package `{}` in apt's lists", alternatives.join("` or `")))
}

fn has_candidate(policy: &str) -> bool {
    policy
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Candidate: "))
        .any(|version| version != "(none)")
}

/// How commands are run as root.
#[derive(Clone, Copy, Debug)]
enum Rights {
    Root,
    Sudo,
}

impl Rights {
    fn find(packages: &[String]) -> Result<Rights> {
        if place::is_root() {
            return Ok(Rights::Root);
        }
        // With a terminal sudo may ask for the password; without one it must not need any.
        let test: &[&str] = if std::io::stdin().is_terminal() { &["--validate"] } else { &["-n", "true"] };
        if Command::new("sudo").args(test).status().is_ok_and(|status| status.success()) {
            return Ok(Rights::Sudo);
        }
        bail!(
            "install packages: that takes root, and sudo does not work here; as root, run\n    \
             apt-get update && apt-get install --yes --no-install-recommends {}",
            packages.join(" ")
        )
    }

    fn command(self, program: &str) -> Command {
        match self {
            Rights::Root => Command::new(program),
            Rights::Sudo => {
                let mut command = Command::new("sudo");
                command.arg(program);
                command
            }
        }
    }

    fn install(self, names: &[String]) -> Result<()> {
        let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
        arguments.extend(names.iter().map(String::as_str));
        self.apt_get(&arguments)
    }

    fn apt_get(self, arguments: &[&str]) -> Result<()> {
        let folder = place::private().join("log");
        place::make(&folder)?;
        let log = folder.join("apt.log");
        let file = File::create(&log).with_context(|| format!("write `{}`", log.display()))?;
        let errors = file.try_clone().context("write apt's log")?;
        let mut command = self.command("env");
        command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]);
        let status = command.args(arguments).stdin(Stdio::null()).stdout(file).stderr(errors).status();
        if !status.context("run `apt-get`")?.success() {
            bail!("run `apt-get {}`:\n{}", arguments.join(" "), tail(&log));
        }
        Ok(())
    }

    /// Debian makes and starts a cluster when PostgreSQL comes in, unless told otherwise. Whoever has told it
    /// something already keeps that.
    fn keep_postgres_from_starting(self, report: &dyn Fn(&str)) -> Result<()> {
        self.install(&["postgresql-common".to_owned()])?;
        let config = fs::read_to_string(CLUSTER_CONFIG).unwrap_or_default();
        if says_whether_to_create(&config) {
            return Ok(());
        }
        report(&format!("{CLUSTER_CONFIG}: {CLUSTER_SETTING} = false, so that no server starts"));
        let mut command = self.command("sh");
        command.args(["-c", &format!("echo '{CLUSTER_SETTING} = false' >> {CLUSTER_CONFIG}")]);
        let status = command.stdin(Stdio::null()).status().context("run `sh`")?;
        if !status.success() {
            bail!("write `{CLUSTER_CONFIG}`");
        }
        Ok(())
    }
}

fn says_whether_to_create(config: &str) -> bool {
    config.lines().any(|line| line.trim_start().starts_with(CLUSTER_SETTING))
}

fn tail(log: &Path) -> String {
    let mut text = String::new();
    let _ = File::open(log).and_then(|mut file| file.read_to_string(&mut text));
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_installed_packages_count() {
        let listed = "cmake installed\ng++ config-files\nlibssl-dev installed\n";
        assert_eq!(not_installed(&["cmake", "g++", "libssl-dev", "maven"], listed), ["g++", "maven"]);
    }

    #[test]
    fn dpkg_query_is_understood() {
        if is_here() {
            let output = Command::new("dpkg-query")
                .args([
                    "--show",
                    "--showformat",
                    "${Package} ${db:Status-Status}\n",
                    "dpkg",
                    "no-such-package",
                ])
                .output()
                .unwrap();
            let listed = String::from_utf8(output.stdout).unwrap();
            assert_eq!(not_installed(&["dpkg", "no-such-package"], &listed), ["no-such-package"]);
        }
    }

    #[test]
    fn a_package_without_candidate_is_passed_over() {
        assert!(has_candidate("maven:\n  Installed: (none)\n  Candidate: 3.8.7-1\n"));
        assert!(!has_candidate("postgresql-15:\n  Installed: (none)\n  Candidate: (none)\n"));
        assert!(!has_candidate(""), "not known at all");
    }

    #[test]
    fn a_commented_setting_is_none() {
        assert!(!says_whether_to_create("# Create\n#create_main_cluster = true\nssl = on\n"));
        assert!(says_whether_to_create("ssl = on\n create_main_cluster = true\n"));
    }
}
