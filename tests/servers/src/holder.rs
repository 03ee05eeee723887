//! Who holds which servers: the state on disk by which another process can show and stop them.
//!
//! A holder is a folder `run/NAME/` with `holder.json`, and one folder a server with `server.json` in it. A holder
//! that is a process (a test run, a test binary) is abandoned when that process is gone; what it left is stopped
//! and removed by [`sweep`]. The holder [`UP`] is no process: its servers stay until they are told to stop.
//! Must not: signal anything but recorded processes, whose identity is checked ([`Process`]).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::place::{self, Medium};
use crate::process::{Process, Signal};

/// The holder of the servers that `cargo xtask servers up` leaves running.
pub const UP: &str = "up";

/// How long a server may take to end when its data is thrown away with it.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

const HOLDER_FILE: &str = "holder.json";
const SERVER_FILE: &str = "server.json";

/// A folder with the servers of one user of them.
#[derive(Clone, Debug)]
pub struct Holder {
    folder: PathBuf,
    /// `None` if the servers stay until they are stopped.
    process: Option<Process>,
}

/// What `holder.json` says.
#[derive(Debug, Serialize, Deserialize)]
struct HolderRecord {
    process: Option<Process>,
}

/// What `server.json` says of one server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerRecord {
    pub name: String,
    /// By purpose, such as `amqp`.
    pub ports: BTreeMap<String, u16>,
    /// The environment variables by which programs find it; the first one is its address for clients.
    pub variables: Vec<(String, String)>,
    /// In the order in which they were started; the last one is the server itself.
    pub processes: Vec<ProcessRecord>,
}

/// One process of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProcessRecord {
    pub program: String,
    pub process: Process,
    /// The signal that ends it where its data is not needed any more.
    pub(crate) end_by: i32,
}

impl Holder {
    /// The holder named `name`, which is the calling process or, with `stays`, nobody.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(name: &str, stays: bool, medium: Medium) -> Result<Holder> {
        let folder = place::run(medium).join(name);
        place::make(&folder)?;
        let process = if stays { None } else { Some(Process::current()?) };
        write(&folder.join(HOLDER_FILE), &HolderRecord { process: process.clone() })?;
        Ok(Holder { folder, process })
    }

    /// The calling process, for throwaway servers of its tests. Sweeps first.
    pub(crate) fn own() -> Result<Holder> {
        static OWN: std::sync::Mutex<Option<Holder>> = std::sync::Mutex::new(None);
        let mut own = OWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(holder) = own.as_ref() {
            return Ok(holder.clone());
        }
        sweep();
        Ok(own.insert(Holder::new(&format!("own-{}", std::process::id()), false, Medium::Memory)?).clone())
    }

    /// Makes the folder for a server named `name`, numbered if there is one of that name.
    pub(crate) fn server_folder(&self, name: &str) -> Result<PathBuf> {
        static NUMBER: AtomicU32 = AtomicU32::new(1);
        let mut folder = self.folder.join(name);
        while !place::make_new(&folder)? {
            folder = self.folder.join(format!("{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        }
        Ok(folder)
    }

    /// All holders there are, by name.
    pub fn all() -> Vec<Holder> {
        let runs = place::all_runs().into_iter().filter_map(|run| fs::read_dir(run).ok());
        let mut folders: Vec<PathBuf> = runs.flatten().flatten().map(|entry| entry.path()).collect();
        folders.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
        let holder = |folder: PathBuf| {
            let record: HolderRecord = read(&folder.join(HOLDER_FILE))?;
            Some(Holder { folder, process: record.process })
        };
        folders.into_iter().filter_map(holder).collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether the process that held the servers is gone. Never for one that stays.
    pub fn is_abandoned(&self) -> bool {
        self.process.as_ref().is_some_and(|process| !process.is_alive())
    }

    /// The servers, by name.
    pub fn servers(&self) -> Vec<ServerRecord> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut records: Vec<ServerRecord> =
            entries.flatten().filter_map(|entry| read(&entry.path().join(SERVER_FILE))).collect();
        records.sort_by(|a, b| a.name.cmp(&b.name));
        records
    }

    /// Stops what runs of its servers and removes their data.
    pub fn stop(&self) {
        std::thread::scope(|scope| {
            for server in self.servers() {
                scope.spawn(move || server.stop());
            }
        });
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl ServerRecord {
    /// Whether all of its processes run.
    pub fn is_alive(&self) -> bool {
        !self.processes.is_empty() && self.processes.iter().all(|each| each.process.is_alive())
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        write(&folder.join(SERVER_FILE), self)
    }

    fn stop(&self) {
        for each in self.processes.iter().rev() {
            let signal = Signal::from_named_raw(each.end_by).unwrap_or(Signal::KILL);
            each.process.stop(signal, ENDS_WITHIN);
        }
    }
}

/// Stops and removes what holders left behind whose process is gone. Returns their names.
pub fn sweep() -> Vec<String> {
    let abandoned: Vec<Holder> = Holder::all().into_iter().filter(Holder::is_abandoned).collect();
    abandoned.iter().for_each(Holder::stop);
    abandoned.iter().map(Holder::name).collect()
}

/// Written beside and moved over, so that no reader sees half of it.
fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec_pretty(value).context("write the state as JSON")?;
    let partial = path.with_extension("partial");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .with_context(|| format!("write `{}`", path.display()))
}

/// `None` also for what cannot be read: it is nobody's state.
fn read<T: for<'a> Deserialize<'a>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
