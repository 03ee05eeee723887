//! Where private servers live on disk: one folder with what was installed and what runs.
//!
//! `install/` holds downloads and is kept; `run/HOLDER/SERVER/` holds the data of a running server and goes with
//! it; `log/` holds the last logs. Where there is room, `run/` of tests is a folder in memory instead, for they make
//! and drop hundreds of databases. Must not: put anything outside of those folders.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Overrides the folder, which is `.private/` in the workspace by default.
pub const PRIVATE_DIR: &str = "OUTRIDER_PRIVATE_DIR";

/// Where the folder is put if the user `postgres` could not reach it in the workspace.
const FALLBACK: &str = "/var/lib/outrider-private";

/// The workspace that this crate was built in.
pub fn workspace() -> &'static Path {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_folder.ancestors().nth(2).expect("the crate lies two folders below the workspace")
}

/// The folder of private servers. PostgreSQL refuses to run as root, and as user `postgres` it needs every folder
/// on the way to be searchable; root's own home is not. So for root, a workspace out of reach means a folder
/// under `/var/lib`, named after the workspace.
pub fn private() -> PathBuf {
    if let Some(folder) = std::env::var_os(PRIVATE_DIR).filter(|value| !value.is_empty()) {
        return std::path::absolute(&folder).unwrap_or_else(|_| folder.into());
    }
    let workspace = workspace();
    if !is_root() || unreachable_parent(workspace).is_none() {
        return workspace.join(".private");
    }
    let name: String = workspace.to_string_lossy().trim_matches('/').replace('/', "-");
    Path::new(FALLBACK).join(name)
}

/// Where a running server keeps its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// As a server in earnest does.
    Disk,
    /// In memory if there is room, else on disk.
    Memory,
}

/// Free memory, and room in the file system there, from which on data goes to memory.
const ROOM: u64 = 6 << 30;

/// File system in memory that every Linux has; small in a container, unless asked for more.
const MEMORY: &str = "/dev/shm";

/// The folder for holders of this process.
pub(crate) fn run(medium: Medium) -> PathBuf {
    match medium {
        Medium::Memory if has_room(Path::new(MEMORY)) && is_ours(&run_in_memory()) => run_in_memory(),
        Medium::Memory | Medium::Disk => run_on_disk(),
    }
}

/// Every folder in which there may be holders.
pub(crate) fn all_runs() -> [PathBuf; 2] {
    [run_on_disk(), run_in_memory()]
}

/// Removes the folder in memory if it is empty. For the end of a command whose own test programs have ended.
pub fn tidy() {
    // Somebody else's holder in it is a reason to leave it.
    let _ = fs::remove_dir(run_in_memory());
}

fn run_on_disk() -> PathBuf {
    private().join("run")
}

/// Named after the user and the private folder.
fn run_in_memory() -> PathBuf {
    let name = private().to_string_lossy().replace('/', "-");
    Path::new(MEMORY).join(format!("outrider-{}{name}", rustix::process::geteuid().as_raw()))
}

/// Whether what is in `folder` is in memory.
pub(crate) fn in_memory(folder: &Path) -> bool {
    folder.starts_with(MEMORY)
}

fn has_room(folder: &Path) -> bool {
    let Ok(found) = rustix::fs::statvfs(folder) else { return false };
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    found.f_bavail.saturating_mul(found.f_frsize) >= ROOM && available(&memory) >= ROOM
}

/// `MemAvailable` of `/proc/meminfo`, in bytes; 0 without one.
fn available(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Anybody may make a folder there: one that somebody else made, or a link, is not used.
fn is_ours(folder: &Path) -> bool {
    match fs::symlink_metadata(folder) {
        Ok(found) => found.is_dir() && found.uid() == rustix::process::geteuid().as_raw(),
        Err(cause) => cause.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Whether the calling process is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes `folder` and what leads to it, readable for every user: servers run as another one than root.
pub fn make(folder: &Path) -> Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|parent| !parent.exists()).collect();
    for parent in missing.into_iter().rev() {
        make_new(parent)?;
    }
    Ok(())
}

/// Makes `folder` alone, readable for every user. Says whether it was not there before.
pub(crate) fn make_new(folder: &Path) -> Result<bool> {
    match fs::create_dir(folder) {
        Err(cause) if cause.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
        Err(cause) => Err(cause).with_context(|| format!("make the folder `{}`", folder.display())),
        Ok(()) => {
            fs::set_permissions(folder, Permissions::from_mode(0o755))
                .with_context(|| format!("make the folder `{}` readable", folder.display()))?;
            Ok(true)
        }
    }
}

/// A user that a server is started as, instead of root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

impl User {
    /// Who PostgreSQL runs as: `postgres` if the caller is root, else the caller (`None`).
    pub(crate) fn for_postgres() -> Result<Option<User>> {
        if !is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").context("read `/etc/passwd`")?;
        match find_user(&users, "postgres") {
            Some(user) => Ok(Some(user)),
            None => bail!(
                "find the user `postgres`, as whom PostgreSQL runs: root must not, and there is no such user"
            ),
        }
    }

    /// Hands `folder` over to this user.
    pub(crate) fn own(self, folder: &Path) -> Result<()> {
        chown(folder, Some(self.uid), Some(self.gid))
            .with_context(|| format!("hand `{}` over to the user `postgres`", folder.display()))
    }
}

/// Checks that the user whom PostgreSQL runs as can get to `folder`.
pub(crate) fn check_reachable(folder: &Path) -> Result<()> {
    match unreachable_parent(folder) {
        Some(parent) if is_root() => bail!(
            "let the user `postgres` reach `{}`: `{}` is closed to other users; set {PRIVATE_DIR} to a folder that \
             is not",
            folder.display(),
            parent.display()
        ),
        _ => Ok(()),
    }
}

fn find_user(passwd: &str, name: &str) -> Option<User> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let is_it = fields.first() == Some(&name);
        is_it.then_some(User { uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
    })
}

/// The nearest folder on the way to `folder` that other users may not pass through.
fn unreachable_parent(folder: &Path) -> Option<&Path> {
    let closed =
        |parent: &&Path| fs::metadata(parent).is_ok_and(|found| found.permissions().mode() & 0o001 == 0);
    folder.ancestors().find(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_user_by_its_whole_name() {
        let passwd = "postgres2:x:1:1::/:/bin/sh\nbroken\npostgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash\n";
        let user = find_user(passwd, "postgres").unwrap();
        assert_eq!((user.uid, user.gid), (101, 104));
        assert!(find_user(passwd, "nobody").is_none());
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(available("MemTotal:  24105116 kB\nMemAvailable:   1048576 kB\n"), 1 << 30);
        assert_eq!(available("MemTotal:  24105116 kB\n"), 0);
    }

    #[test]
    fn a_link_and_a_file_are_not_ours() {
        let top = std::env::temp_dir().join(format!("outrider-ours-{}", std::process::id()));
        assert!(is_ours(&top), "one that is not there will be");
        fs::create_dir(&top).unwrap();
        assert!(is_ours(&top));
        std::os::unix::fs::symlink(&top, top.join("link")).unwrap();
        fs::write(top.join("file"), "").unwrap();
        assert!(!is_ours(&top.join("link")) && !is_ours(&top.join("file")));
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_closed_folder_on_the_way_is_found() {
        let top = std::env::temp_dir().join(format!("outrider-place-{}", std::process::id()));
        let inner = top.join("a/b");
        make(&inner).unwrap();
        assert_eq!(unreachable_parent(&inner), unreachable_parent(&std::env::temp_dir()));
        fs::set_permissions(top.join("a"), Permissions::from_mode(0o700)).unwrap();
        assert_eq!(unreachable_parent(&inner), Some(top.join("a").as_path()));
        fs::remove_dir_all(&top).unwrap();
    }
}
