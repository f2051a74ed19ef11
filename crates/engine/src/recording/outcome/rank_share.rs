//! One rank's share of a phase, for its verdict and for finding stragglers. Its size does not depend on the
//! phase's length.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::recording::durations::histogram;
use crate::recording::recorder::{Counts, Interval};
use crate::recording::slot::Slot;
use crate::recording::worker_stats::WorkerRow;

/// Minimum length of a partial last second for computing shares, nanoseconds.
const SHORT: u64 = 500_000_000;

/// One rank's share. Times are seconds. Worker shares and times cover the measured window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankShare {
    /// The rank.
    pub rank: u64,
    /// When its workers were ready, after the phase's start; 0 if they were in time.
    pub began_late: f64,
    /// Requests in the measured segment.
    pub requests: u64,
    /// Successes in the measured segment.
    pub successes: u64,
    /// Documents in the measured segment.
    pub documents: u64,
    /// Dropped requests in the measured segment.
    pub dropped: u64,
    /// Failed requests in the measured segment.
    pub errors: u64,
    /// Requests in flight at the end.
    pub in_flight_at_end: u64,
    /// End of its last request, after the start.
    pub last_done: f64,
    /// End of its last worker, after the start.
    pub ended: f64,
    /// Metrics of its workers.
    #[serde(flatten)]
    pub watched: Watched,
    /// Uncertainty and drift of its wall clock.
    pub clock: Clock,
    /// Hosts that it could not reach.
    pub unreachable: Vec<String>,
    /// The error, if it failed.
    pub failed: Option<String>,
}

/// A rank's wall clock; seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// Uncertainty of a reading.
    pub uncertainty: f64,
    /// Drift against the monotonic clock.
    pub drift: f64,
}

/// Metrics of a rank's workers in the measured window; seconds. Shares are those of the worst worker, and
/// `None` if the window contains no full second.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Watched {
    /// CPU time, summed over the workers.
    pub cpu_seconds: f64,
    /// Time spent ready but not running, summed over the workers.
    pub waited_seconds: f64,
    /// Wall time, summed over the workers.
    pub wall_seconds: f64,
    /// Time in stalls of the event loop, summed over the workers.
    pub away_seconds: f64,
    /// CPU time divided by wall time.
    pub cpu_share: Option<f64>,
    /// Maximum of the CPU share in a second.
    pub cpu_share_peak: Option<f64>,
    /// Time spent ready but not running, divided by wall time.
    pub waited_share: Option<f64>,
    /// Time in stalls of the event loop, divided by wall time.
    pub away_share: Option<f64>,
    /// 99th percentile of request lateness.
    pub lateness_p99: Option<f64>,
    /// Maximum of request lateness.
    pub lateness_max: Option<f64>,
    /// 99th percentile of event-loop lag.
    pub lag_p99: Option<f64>,
    /// Maximum of event-loop lag.
    pub lag_max: Option<f64>,
}

/// Sums the metrics of a rank's workers.
pub struct Watch {
    /// Length of the measured window, if the clock ends it.
    lasts: Option<Duration>,
    workers: Vec<Sums>,
    lateness: Histogram<u64>,
    lag: Histogram<u64>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    cpu: u64,
    waited: u64,
    wall: u64,
    away: u64,
    peak: Option<f64>,
}

impl Watch {
    /// Creates the sums for a process that runs `plan`.
    pub fn new(plan: &Plan) -> Self {
        let clocks: Option<Vec<Duration>> = (0..plan.streams.len()).map(|stream| plan.clock(stream)).collect();
        let longest = clocks.and_then(|clocks| clocks.into_iter().max());
        Self {
            lasts: longest,
            workers: vec![Sums::default(); plan.threads as usize],
            lateness: histogram(),
            lag: histogram(),
        }
    }

    /// Adds a second, unless it is outside the measured window.
    /// `rows`: the metrics of its workers; rows of unknown workers are ignored. `window`: end of the warm-up, and of a
    /// phase that ends before its planned end, both after the phase's start.
    pub fn second(&mut self, sum: &Interval, rows: &[WorkerRow], window: (Duration, Option<Duration>)) {
        let (warmup, ended) = window;
        let second = Duration::from_secs(sum.second);
        let ends = [self.lasts.map(|lasts| warmup + lasts), ended].into_iter().flatten().min();
        if second < warmup || ends.is_some_and(|end| second >= end) {
            return;
        }
        self.lateness.add(&sum.watch.lateness).expect("layouts are equal");
        self.lag.add(&sum.watch.lag).expect("layouts are equal");
        for row in rows {
            let Some(sums) = self.workers.get_mut(row.worker as usize) else { continue };
            sums.cpu += row.cpu;
            sums.waited += row.waited;
            sums.wall += row.wall;
            sums.away += row.away;
            if row.wall >= SHORT {
                let share = row.cpu as f64 / row.wall as f64;
                sums.peak = Some(sums.peak.map_or(share, |peak| peak.max(share)));
            }
        }
    }

    /// Returns figures of the seconds added so far: sums and percentiles, s, and shares of the worst worker, 0 to 1.
    pub fn watched(&self) -> Watched {
        let total = |figure: fn(&Sums) -> u64| self.workers.iter().map(figure).sum::<u64>() as f64 / 1e9;
        let worst = |figure: fn(&Sums) -> u64| {
            let shares = self.workers.iter().filter(|sums| sums.wall > 0);
            shares.map(|sums| figure(sums) as f64 / sums.wall as f64).reduce(f64::max)
        };
        let of = |histogram: &Histogram<u64>, quantile: f64| {
            (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64 / 1e9)
        };
        Watched {
            cpu_seconds: total(|sums| sums.cpu),
            waited_seconds: total(|sums| sums.waited),
            wall_seconds: total(|sums| sums.wall),
            away_seconds: total(|sums| sums.away),
            cpu_share: worst(|sums| sums.cpu),
            cpu_share_peak: self.workers.iter().filter_map(|sums| sums.peak).reduce(f64::max),
            waited_share: worst(|sums| sums.waited),
            away_share: worst(|sums| sums.away),
            lateness_p99: of(&self.lateness, 0.99),
            lateness_max: of(&self.lateness, 1.0),
            lag_p99: of(&self.lag, 0.99),
            lag_max: of(&self.lag, 1.0),
        }
    }
}

/// Returns the sum of the measured segment's counts over the phase's operations, without parts and timed groups.
pub fn measured(slots: &[Slot], counts: &[[Counts; 2]]) -> Counts {
    let mut sum = Counts::default();
    let operations = slots.iter().zip(counts).filter(|(slot, _)| slot.counts());
    operations.for_each(|(_, [_, measured])| sum.add(measured));
    sum
}
