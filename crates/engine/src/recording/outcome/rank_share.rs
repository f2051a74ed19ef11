//! One rank's share of a phase, for its verdict and for finding stragglers: some figures, whatever the phase's length.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::recording::durations::histogram;
use crate::recording::recorder::{Counts, Interval};
use crate::recording::slot::Slot;
use crate::recording::worker_stats::WorkerRow;

/// A second that the phase's end cut shorter than this is too short for a share of it; nanoseconds.
const SHORT: u64 = 500_000_000;

/// One rank's share. Times are seconds; shares and times of the watch are of the measured window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankShare {
    /// The rank.
    pub rank: u64,
    /// How long after the phase's start its workers were there; 0 if they were in time.
    pub began_late: f64,
    /// Counts of the measured segment.
    pub requests: u64,
    /// The same.
    pub successes: u64,
    /// The same.
    pub documents: u64,
    /// The same.
    pub dropped: u64,
    /// The same: requests that failed.
    pub errors: u64,
    /// Requests in flight when it ended.
    pub in_flight_at_end: u64,
    /// When its last request was done, after the start.
    pub last_done: f64,
    /// When its last worker ended, after the start.
    pub ended: f64,
    /// What its workers measured of themselves.
    #[serde(flatten)]
    pub watched: Watched,
    /// By how much its wall clock may be off, and how far it has drifted.
    pub clock: Clock,
    /// The hosts that it could not reach.
    pub unreachable: Vec<String>,
    /// How it failed, if it did.
    pub failed: Option<String>,
}

/// A rank's wall clock; seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Clock {
    /// By how much it may be off.
    pub uncertainty: f64,
    /// How much it gained on the monotonic clock.
    pub drift: f64,
}

/// What a rank's workers measured of themselves in the measured window; seconds. Shares are of the worst worker, and
/// `None` where no second lies in the window.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Watched {
    /// Sums over the workers.
    pub cpu_seconds: f64,
    /// The same.
    pub waited_seconds: f64,
    /// The same.
    pub wall_seconds: f64,
    /// The same.
    pub away_seconds: f64,
    /// CPU time by wall time.
    pub cpu_share: Option<f64>,
    /// The same, the greatest of a second.
    pub cpu_share_peak: Option<f64>,
    /// Time ready to run and not running by wall time.
    pub waited_share: Option<f64>,
    /// Time in stalls of the event loop by wall time.
    pub away_share: Option<f64>,
    /// How late requests were turned to.
    pub lateness_p99: Option<f64>,
    /// The same.
    pub lateness_max: Option<f64>,
    /// How late the event loop was.
    pub lag_p99: Option<f64>,
    /// The same.
    pub lag_max: Option<f64>,
}

/// Adds up what a rank's workers measure of themselves.
pub struct Watch {
    /// From where to where the measured window goes, seconds after the start.
    window: (Duration, Option<Duration>),
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
    /// Of a process that carries out `plan`.
    pub fn new(plan: &Plan) -> Self {
        let clocks: Option<Vec<Duration>> = (0..plan.streams.len()).map(|stream| plan.clock(stream)).collect();
        let longest = clocks.and_then(|clocks| clocks.into_iter().max());
        Self {
            window: (plan.warmup, longest.map(|longest| plan.warmup + longest)),
            workers: vec![Sums::default(); plan.threads as usize],
            lateness: histogram(),
            lag: histogram(),
        }
    }

    /// Adds a second.
    pub fn second(&mut self, sum: &Interval, rows: &[WorkerRow]) {
        let second = Duration::from_secs(sum.second);
        if second < self.window.0 || self.window.1.is_some_and(|end| second >= end) {
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

    /// What there is.
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

/// The sum over a phase's requests, not over their parts, of the measured segment.
pub fn measured(slots: &[Slot], counts: &[[Counts; 2]]) -> Counts {
    let mut sum = Counts::default();
    let operations = slots.iter().zip(counts).filter(|(slot, _)| slot.counts());
    operations.for_each(|(_, [_, measured])| sum.add(measured));
    sum
}
