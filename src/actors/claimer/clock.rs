//! The one clock of leases: monotonic, and running while the machine is suspended.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::outbox::lease::Moment;

/// Reads `CLOCK_BOOTTIME` where there is one, else the monotonic clock.
pub(super) fn now() -> Moment {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Moment::from_clock(Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0)))
}
