//! Metrics of a worker itself: CPU time, request lateness and event-loop lag.
//!
//! A check of the event loop is due every [`TICK`]. A stalled loop misses checks; each missed check is
//! recorded with its lag. A stall of length L thus yields the lags L, L - TICK, L - 2 TICK and so on, and
//! percentiles of lag are percentiles over time. This is HdrHistogram's correction for coordinated omission
//! (`recordValueWithExpectedInterval`; Gil Tene), with known instead of assumed times.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::recording::durations::{clear, histogram, record};
use crate::util::cpu::{thread_cpu, thread_spun, thread_waited};

/// Interval of the event-loop checks, which also test for a stop. Each check wakes the thread, so shorter
/// intervals would dominate the CPU time of a load on a slow store.
pub const TICK: Duration = Duration::from_millis(50);

/// Metrics of a worker in one second.
#[derive(Clone, Debug)]
pub struct SelfMetrics {
    /// CPU time of the worker's thread without `spun`, seconds.
    pub cpu: f64,
    /// Time that the thread waited awake for scheduled requests, seconds.
    pub spun: f64,
    /// Time in which the thread was ready but not running, because other threads used the cores or its
    /// cgroup's quota was exhausted.
    pub waited: f64,
    /// Length of the second, s: the CPU share is `cpu / wall`.
    pub wall: f64,
    /// From a request's scheduled time to its start by the client.
    pub lateness: Histogram<u64>,
    /// Event-loop lag of each check due in this second.
    pub lag: Histogram<u64>,
    /// Time in stalls of at least one [`TICK`], s: one tick for each check with such a lag.
    pub away: f64,
    /// Requests in flight at the second's end.
    pub in_flight: u64,
}

impl SelfMetrics {
    /// Creates empty metrics.
    pub fn new() -> Self {
        let (lateness, lag) = (histogram(), histogram());
        Self { cpu: 0.0, spun: 0.0, waited: 0.0, wall: 0.0, lateness, lag, away: 0.0, in_flight: 0 }
    }

    /// Clears the histograms and the time in stalls for another second; values set at a second's end remain.
    pub fn clear(&mut self) {
        clear(&mut self.lateness);
        clear(&mut self.lag);
        self.away = 0.0;
    }
}

impl Default for SelfMetrics {
    /// Creates empty metrics.
    fn default() -> Self {
        Self::new()
    }
}

/// Monitor of the thread that created it.
#[derive(Debug)]
pub struct SelfMonitor {
    /// When the next check is due.
    due: Instant,
    cpu: f64,
    spun: f64,
    waited: f64,
    turned: Instant,
}

impl SelfMonitor {
    /// Creates a monitor of the calling thread, with checks from `start` on.
    pub fn new(start: Instant) -> Self {
        Self { due: start, cpu: thread_cpu(), spun: thread_spun(), waited: thread_waited(), turned: start }
    }

    /// Adds the lag of each check due by `now` to `watch`; returns when the next check is due.
    pub fn look(&mut self, now: Instant, watch: &mut SelfMetrics) -> Instant {
        while self.due <= now {
            self.late(now, watch);
        }
        self.due
    }

    /// Ends the second that ended at `ended`: adds the lags of its missed checks, and sets its times in `watch`.
    /// `now`: the current time. Checks due at least a tick (50 ms) before the end were missed: a stall counts in the
    /// seconds in which it lasted. The times are CPU, spinning, waiting and wall time, s.
    pub fn second(&mut self, ended: Instant, now: Instant, watch: &mut SelfMetrics) {
        while self.due + TICK <= ended {
            self.late(now, watch);
        }
        let (cpu, spun) = (thread_cpu(), thread_spun());
        watch.spun = spun - std::mem::replace(&mut self.spun, spun);
        watch.cpu = (cpu - std::mem::replace(&mut self.cpu, cpu) - watch.spun).max(0.0);
        let waited = thread_waited();
        watch.waited = waited - std::mem::replace(&mut self.waited, waited);
        watch.wall = ended.saturating_duration_since(self.turned).as_secs_f64();
        self.turned = ended;
    }

    /// Adds the lag of the next check, from its due time to `now`, to `watch`, and moves the due time on by a tick.
    fn late(&mut self, now: Instant, watch: &mut SelfMetrics) {
        let lag = now - self.due;
        record(&mut watch.lag, lag);
        if lag >= TICK {
            watch.away += TICK.as_secs_f64();
        }
        self.due += TICK;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::cpu::count_spin;

    /// A stall records one lag for each check that it missed.
    #[test]
    fn a_stall_is_a_lag_for_each_look_that_it_missed() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let (mut monitor, mut watch) = (SelfMonitor::new(start), SelfMetrics::new());
        assert_eq!(monitor.look(at(1), &mut watch), at(50));
        assert_eq!(monitor.look(at(1050), &mut watch), at(1100));
        assert_eq!(watch.lag.len(), 22, "looks at 0, 50, ... 1050");
        assert_eq!(watch.lag.max() / 1_000_000, 1000);
        let late = watch.lag.count_between(watch.lag.lowest_equivalent(50_000_000), u64::MAX);
        assert_eq!(late, 20, "1000, 950, ... 50 ms");
        assert!((watch.away - 1.0).abs() < 1e-9, "{}", watch.away);
    }

    /// A stall over several seconds counts in each of them.
    #[test]
    fn a_stall_belongs_to_the_seconds_over_which_it_lasted() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let (mut monitor, mut watch) = (SelfMonitor::new(start), SelfMetrics::new());
        monitor.look(at(500), &mut watch);
        watch.clear();
        // Nothing happens from 0.5 s to 2.5 s; then a request starts.
        let mut away = Vec::new();
        for second in [1000, 2000] {
            monitor.second(at(second), at(2500), &mut watch);
            away.push((watch.lag.len(), watch.lag.max() / 1_000_000, watch.away));
            watch.clear();
        }
        monitor.look(at(2500), &mut watch);
        away.push((watch.lag.len(), watch.lag.max() / 1_000_000, watch.away));
        let rounded: Vec<_> = away.iter().map(|(n, most, away)| (*n, most / 10 * 10, (away * 100.0).round())).collect();
        assert_eq!(rounded, [(9, 1950, 45.0), (20, 1500, 100.0), (11, 500, 50.0)]);
    }

    #[test]
    fn spinning_is_not_counted_as_work() {
        let start = Instant::now();
        let (mut monitor, mut watch) = (SelfMonitor::new(start), SelfMetrics::new());
        count_spin(Duration::from_secs(3));
        monitor.second(start + Duration::from_secs(1), Instant::now(), &mut watch);
        assert_eq!((watch.spun, watch.cpu), (3.0, 0.0), "more than the thread's CPU time");
        monitor.second(start + Duration::from_secs(2), Instant::now(), &mut watch);
        assert_eq!(watch.spun, 0.0);
        assert!(watch.cpu > 0.0, "{}", watch.cpu);
    }

    #[test]
    fn small_lags_are_not_time_away() {
        let start = Instant::now();
        let (mut monitor, mut watch) = (SelfMonitor::new(start), SelfMetrics::new());
        for look in 0..20u64 {
            monitor.look(start + Duration::from_millis(50 * look + 49), &mut watch);
        }
        assert_eq!((watch.lag.len(), watch.away), (20, 0.0));
    }
}
