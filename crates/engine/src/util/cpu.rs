//! CPU time, waiting time and spinning time of the calling thread.

use std::cell::Cell;
use std::time::Duration;

thread_local! {
    static SPUN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Counts time that the calling thread waited awake, without work.
pub fn count_spin(time: Duration) {
    SPUN.set(SPUN.get() + time);
}

/// Returns the total time that the calling thread has waited awake, seconds; a part of its CPU time.
pub fn thread_spun() -> f64 {
    SPUN.get().as_secs_f64()
}

/// Returns the CPU time of the calling thread, seconds.
pub fn thread_cpu() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the total time that the calling thread has waited for a core, seconds; 0 if the kernel does not
/// count it.
pub fn thread_waited() -> f64 {
    // The second field of schedstat is ns on a run queue (kernel documentation, sched-stats).
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|figure| figure.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}
