//! A table of host names that some programs ask, and that can change while they run.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use outrider_servers::Install;
use tempfile::TempDir;

/// The table, in a folder that is gone when this is dropped.
#[derive(Debug)]
pub struct Hosts {
    folder: TempDir,
    library: PathBuf,
}

impl Hosts {
    /// `None` where libnss-wrapper, which makes a program ask the table, is not installed.
    pub fn new(hosts: &[(&str, IpAddr)]) -> Result<Option<Hosts>> {
        let Some(library) = Install::locate().nss_wrapper() else { return Ok(None) };
        let folder = tempfile::tempdir().context("make a folder")?;
        let table = Hosts { folder, library };
        table.are(hosts)?;
        Ok(Some(table))
    }

    /// From now on these names lead to these addresses, for connections that are made from now on.
    pub fn are(&self, hosts: &[(&str, IpAddr)]) -> Result<()> {
        let lines: Vec<String> = hosts.iter().map(|(name, address)| format!("{address} {name}\n")).collect();
        let draft = self.folder.path().join("draft");
        fs::write(&draft, lines.concat()).context("write a table of host names")?;
        fs::rename(draft, self.file()).context("write a table of host names")
    }

    /// Environment variables for the programs that are to ask it.
    pub fn variables(&self) -> [(String, String); 2] {
        [("LD_PRELOAD", &self.library), ("NSS_WRAPPER_HOSTS", &self.file())]
            .map(|(name, value)| (name.to_owned(), value.display().to_string()))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("hosts")
    }
}
