//! CPU time and memory of a process, as Linux tells them. `None` where it does not: another system, or a process that is
//! gone or lives in a container.

use std::fs;

/// Ticks of `utime` and `stime` in `/proc/PID/stat` are hundredths of a second on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU seconds that a process has used, in user and kernel mode, in all threads.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold spaces and brackets.
    let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS_PER_SECOND)
}

/// The most memory that was ever resident, in bytes.
pub(crate) fn peak_resident_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Whether a process has that name.
pub(crate) fn is_named(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|found| found.trim() == name)
}

/// How busy the machine is: the load average of the last minute.
pub(crate) fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn reads_this_process() {
        let pid = std::process::id();
        let mut sum = 0_u64;
        while cpu_seconds(pid).expect("this process is there") < 0.05 {
            sum = sum.wrapping_mul(31).wrapping_add(std::hint::black_box(7));
        }
        std::hint::black_box(sum);
        assert!(peak_resident_bytes(pid).expect("this process is there") > 1 << 20);
        assert!(load().is_some());
    }

    #[test]
    fn nothing_is_known_of_nobody() {
        assert_eq!((cpu_seconds(u32::MAX), peak_resident_bytes(u32::MAX)), (None, None));
        assert!(!is_named(u32::MAX, "postgres"));
    }
}
