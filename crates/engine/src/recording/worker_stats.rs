//! Metrics of the workers in a second, in a size independent of their number. Up to eight workers have a row
//! each. Above, the record keeps the worst worker of each metric, and the sums.

use serde::{Deserialize, Serialize};

use crate::recording::recorder::Interval;

/// Maximum number of workers that all keep their rows; also the number of metrics compared.
const ROWS: usize = 8;

/// Metrics of one worker in one second. Times are integer nanoseconds, so that sums do not depend on the
/// order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerRow {
    /// The worker's process.
    pub rank: u64,
    /// Its number in the process.
    pub worker: u64,
    /// CPU time; see [`crate::recording::self_monitor::SelfMetrics`].
    pub cpu: u64,
    /// Time spent waiting awake for scheduled requests; not in `cpu`.
    pub spun: u64,
    /// Time spent ready but not running.
    pub waited: u64,
    /// Wall time of the second.
    pub wall: u64,
    /// Request lateness: 99th percentile and maximum.
    pub lateness: (u64, u64),
    /// Event-loop lag: 99th percentile and maximum.
    pub lag: (u64, u64),
    /// Time in stalls of the event loop.
    pub away: u64,
    /// Requests in flight.
    pub in_flight: u64,
}

impl WorkerRow {
    /// Returns the row for `interval`, a second of a worker of process `rank`.
    pub fn of(rank: u64, interval: &Interval) -> Self {
        let watch = &interval.watch;
        let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
        Self {
            rank,
            worker: interval.worker as u64,
            cpu: nanoseconds(watch.cpu),
            spun: nanoseconds(watch.spun),
            waited: nanoseconds(watch.waited),
            wall: nanoseconds(watch.wall),
            lateness: (watch.lateness.value_at_quantile(0.99), watch.lateness.max()),
            lag: (watch.lag.value_at_quantile(0.99), watch.lag.max()),
            away: nanoseconds(watch.away),
            in_flight: watch.in_flight,
        }
    }

    /// Returns the eight metrics by which the worst workers are chosen, each larger for a worse worker.
    /// They are the CPU share in millionths, six times in ns, and the number of requests in flight.
    fn measures(&self) -> [u64; ROWS] {
        // A share in millionths: absolute time would not be comparable in a partial second.
        let share = if self.wall > 0 { (u128::from(self.cpu) * 1_000_000 / u128::from(self.wall)) as u64 } else { 0 };
        let Self { waited, lateness, lag, away, in_flight, .. } = *self;
        [share, waited, lateness.0, lateness.1, lag.0, lag.1, away, in_flight]
    }
}

/// Workers in one second: all rows or the worst ones, and sums over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// Number of workers.
    pub workers: u64,
    /// Number of processes.
    pub ranks: u64,
    /// Sum of CPU time; nanoseconds.
    pub cpu: u64,
    /// Sum of the time spent ready but not running; nanoseconds.
    pub waited: u64,
    /// Sum of the time in stalls; nanoseconds.
    pub away: u64,
    /// Sum of the requests in flight.
    pub in_flight: u64,
    /// Rows, by rank and worker.
    pub rows: Vec<WorkerRow>,
}

impl Workers {
    /// Creates the record of one process with all of its rows.
    pub fn of(rows: Vec<WorkerRow>) -> Self {
        let sum = |figure: fn(&WorkerRow) -> u64| rows.iter().map(figure).sum();
        Self {
            workers: rows.len() as u64,
            ranks: 1,
            cpu: sum(|row| row.cpu),
            waited: sum(|row| row.waited),
            away: sum(|row| row.away),
            in_flight: sum(|row| row.in_flight),
            rows,
        }
    }

    /// Adds the workers of other processes, and prunes the rows. The order of additions does not matter: the overall
    /// worst worker is also the worst of every subset.
    pub fn add(&mut self, other: &Self) {
        self.workers += other.workers;
        self.ranks += other.ranks;
        self.cpu += other.cpu;
        self.waited += other.waited;
        self.away += other.away;
        self.in_flight += other.in_flight;
        self.rows.extend_from_slice(&other.rows);
        self.prune();
    }

    /// Sorts the rows by rank and worker. Above eight workers, keeps only the worst row of each metric.
    pub fn prune(&mut self) {
        self.rows.sort_unstable_by_key(|row| (row.rank, row.worker));
        if self.workers <= ROWS as u64 {
            return;
        }
        // Take the first of equally bad workers.
        let worst = |measure: usize| {
            let places = (0..self.rows.len()).rev();
            places.max_by_key(|place| self.rows[*place].measures()[measure])
        };
        let mut kept: Vec<usize> = (0..ROWS).filter_map(worst).collect();
        kept.sort_unstable();
        kept.dedup();
        self.rows = kept.into_iter().map(|place| self.rows[place]).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::draw::Draw;

    /// Returns a row with random metrics below 1000.
    fn row(rank: u64, worker: u64) -> WorkerRow {
        let draw = |salt| Draw::new(7, rank, worker).bits(salt) % 1000;
        WorkerRow {
            rank,
            worker,
            cpu: draw(1),
            spun: 0,
            waited: draw(2),
            wall: 1000,
            lateness: (draw(3), draw(4)),
            lag: (draw(5), draw(6)),
            away: draw(7),
            in_flight: draw(8),
        }
    }

    /// Returns the pruned record of a process with `workers` workers.
    fn process(rank: u64, workers: u64) -> Workers {
        let mut workers = Workers::of((0..workers).map(|worker| row(rank, worker)).collect());
        workers.prune();
        workers
    }

    /// Returns the sum of several processes, added in order.
    fn sum(parts: &[Workers]) -> Workers {
        let mut parts = parts.iter();
        let mut sum = parts.next().unwrap().clone();
        parts.for_each(|part| sum.add(part));
        sum
    }

    #[test]
    fn few_workers_keep_their_rows() {
        let sum = sum(&[process(1, 3), process(0, 5)]);
        let workers: Vec<_> = sum.rows.iter().map(|row| (row.rank, row.worker)).collect();
        assert_eq!(workers, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4), (1, 0), (1, 1), (1, 2)]);
    }

    #[test]
    fn the_worst_of_many_workers_are_kept_in_any_order_of_addition() {
        let parts: Vec<Workers> = (0..40).map(|rank| process(rank, 1 + rank % 12)).collect();
        let all: Vec<WorkerRow> =
            (0..40).flat_map(|rank| (0..1 + rank % 12).map(move |worker| row(rank, worker))).collect();
        let forwards = sum(&parts);
        let backwards = sum(&parts.iter().rev().cloned().collect::<Vec<_>>());
        let tree = sum(&[sum(&parts[..13]), sum(&parts[13..14]), sum(&parts[14..])]);
        assert_eq!(forwards, backwards);
        assert_eq!(forwards, tree);
        assert!(forwards.rows.len() <= ROWS);
        assert_eq!((forwards.workers, forwards.ranks), (all.len() as u64, 40));
        assert_eq!(forwards.cpu, all.iter().map(|row| row.cpu).sum::<u64>());
        for measure in 0..ROWS {
            let most = |rows: &[WorkerRow]| rows.iter().map(|row| row.measures()[measure]).max();
            assert_eq!(most(&forwards.rows), most(&all), "measure {measure}");
        }
    }
}
