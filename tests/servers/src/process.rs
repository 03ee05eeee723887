//! Processes by identity, from `/proc`: who is alive, who descends from whom, and signals to them.
//!
//! A pid alone names nobody: it is used again after its process ended. So a [`Process`] is a pid with the moment
//! of its birth, and no signal is sent unless both still fit. Must not: signal by name or by bare pid.
//! Where there is no `/proc` no process is ever alive; private servers are for Linux.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, kill_process};
use serde::{Deserialize, Serialize};

pub use rustix::process::Signal;

/// How often a state that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One process, told apart from a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    /// Boot id and start time in clock ticks: opaque, compared whole.
    born: String,
}

impl Process {
    /// The process that has `pid` now.
    pub fn of(pid: u32) -> Result<Process> {
        let stat = Stat::read(pid).with_context(|| format!("no process `{pid}` in /proc"))?;
        Ok(Process { pid, born: stat.born() })
    }

    /// The process that calls.
    pub fn current() -> Result<Process> {
        Self::of(std::process::id())
    }

    /// Whether it runs. One that ended and was not reaped yet does not.
    pub fn is_alive(&self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.runs() && stat.born() == self.born)
    }

    /// Sends `signal`, if this very process is alive; one that has ended is no error.
    pub fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw)
            && self.is_alive()
        {
            // Fails only if the process ended in between, or is another user's: then it is not ours to signal.
            let _ = kill_process(pid, signal);
        }
    }

    /// Everything it started and what those started, as of now. Empty once it has ended.
    pub fn descendants(&self) -> Vec<Process> {
        if !self.is_alive() {
            return Vec::new();
        }
        descendants_of(self.pid).into_iter().map(|(pid, stat)| Process { pid, born: stat.born() }).collect()
    }

    /// Waits until it has ended, at most `limit`; says whether it has.
    pub fn wait_gone(&self, limit: Duration) -> bool {
        holds_within(limit, || !self.is_alive())
    }

    /// Freezes it and its descendants; itself first, so that it starts no more of them.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
        self.descendants().iter().for_each(|child| child.signal(Signal::STOP));
    }

    /// Undoes [`pause`](Self::pause).
    pub fn resume(&self) {
        self.descendants().iter().for_each(|child| child.signal(Signal::CONT));
        self.signal(Signal::CONT);
    }

    /// SIGKILL to it and to all its descendants. Returns when all are gone, or after `limit`.
    pub fn kill(&self, limit: Duration) {
        // Frozen first: a PostgreSQL backend or an Erlang port program forked meanwhile would outlive it.
        self.signal(Signal::STOP);
        let mut all = self.descendants();
        all.insert(0, self.clone());
        all.iter().for_each(|process| process.signal(Signal::KILL));
        let deadline = Instant::now() + limit;
        for process in all {
            process.wait_gone(deadline.saturating_duration_since(Instant::now()));
        }
    }

    /// Asks it to end by `signal`, and kills it when it has not after `limit`.
    pub fn stop(&self, signal: Signal, limit: Duration) {
        self.resume();
        self.signal(signal);
        if !self.wait_gone(limit) {
            self.kill(limit);
        }
    }
}

/// Whether some process has `pid`, on any Unix. It need not be the one that had it before.
pub fn is_taken(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    !matches!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// The descendants of the calling process that share its process group: what a Ctrl-C in a terminal reaches.
/// Servers have groups of their own and are not among them.
pub fn group_descendants() -> Vec<Process> {
    let own = std::process::id();
    let Some(group) = Stat::read(own).map(|stat| stat.group) else { return Vec::new() };
    descendants_of(own)
        .into_iter()
        .filter(|(_, stat)| stat.group == group)
        .map(|(pid, stat)| Process { pid, born: stat.born() })
        .collect()
}

/// Waits until `condition` holds, at most `limit`; says whether it did.
pub(crate) fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(LOOK_EVERY);
    }
}

/// Whether `command` ends with success within `limit`. Its output is dropped; a slower one is killed.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let mut status = None;
    let ended = holds_within(limit, || {
        status = child.try_wait().transpose();
        status.is_some()
    });
    if !ended {
        let _ = child.kill();
        let _ = child.wait();
    }
    matches!(status, Some(Ok(status)) if status.success())
}

/// What is needed of `/proc/PID/stat`.
#[derive(Debug)]
struct Stat {
    state: char,
    parent: u32,
    group: u32,
    started: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The second field is the program's name in parentheses and may itself hold any character.
    fn parse(line: &str) -> Option<Stat> {
        let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Stat {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    fn runs(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }

    fn born(&self) -> String {
        static BOOT: OnceLock<String> = OnceLock::new();
        let boot = BOOT.get_or_init(|| {
            let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            id.trim().to_owned()
        });
        format!("{boot}/{}", self.started)
    }
}

fn descendants_of(root: u32) -> Vec<(u32, Stat)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<(u32, Stat)> = pids.filter_map(|pid| Some((pid, Stat::read(pid)?))).collect();
    let (mut family, mut found) = (BTreeSet::from([root]), Vec::new());
    loop {
        let (children, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(_, stat)| family.contains(&stat.parent));
        if children.is_empty() {
            return found;
        }
        family.extend(children.iter().map(|(pid, _)| *pid));
        found.extend(children);
        others = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> std::process::Child {
        Command::new("sleep").arg("600").spawn().unwrap()
    }

    #[test]
    fn a_name_with_spaces_and_parentheses_is_read_past() {
        let line = "42 (a) b (c) S 7 9 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 123456 8 8";
        let stat = Stat::parse(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.group, stat.started), ('S', 7, 9, 123456));
    }

    #[test]
    fn another_process_with_the_same_pid_is_left_alone() {
        let mut child = sleeper();
        let real = Process::of(child.id()).unwrap();
        let earlier = Process { pid: real.pid, born: "boot/1".to_owned() };
        assert!(!earlier.is_alive());
        earlier.kill(Duration::from_secs(1));
        assert!(real.is_alive());
        real.kill(Duration::from_secs(10));
        assert!(!real.is_alive(), "not reaped, but not alive");
        child.wait().unwrap();
    }

    #[test]
    fn a_kill_reaches_grandchildren() {
        let mut shell = Command::new("sh").args(["-c", "sleep 600 & wait"]).spawn().unwrap();
        let process = Process::of(shell.id()).unwrap();
        assert!(holds_within(Duration::from_secs(10), || process.descendants().len() == 1));
        let grandchild = process.descendants().remove(0);
        process.kill(Duration::from_secs(10));
        assert!(!grandchild.is_alive());
        shell.wait().unwrap();
    }

    #[test]
    fn stop_wakes_a_paused_process() {
        let mut child = sleeper();
        let process = Process::of(child.id()).unwrap();
        process.pause();
        process.stop(Signal::TERM, Duration::from_secs(10));
        let status = child.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    }

    #[test]
    fn a_slow_command_is_killed() {
        let begun = Instant::now();
        assert!(!succeeds_within(Command::new("sleep").arg("600"), Duration::from_millis(50)));
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(succeeds_within(&mut Command::new("true"), Duration::from_secs(60)));
    }
}
