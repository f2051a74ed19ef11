//! What workers measured of themselves in a second, in a form whose size does not grow with their number: a row for each
//! where they are few, and otherwise the rows of those that are the worst by some measure, and sums.

use serde::{Deserialize, Serialize};

use crate::recording::recorder::Interval;

/// Up to this many workers all keep their rows; also how many measures there are, of which one is the worst.
const ROWS: usize = 8;

/// What one worker measured of itself in one second. Times are nanoseconds, in whole numbers, whose sums do not depend on
/// the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct WorkerRow {
    /// The worker's process.
    pub rank: u64,
    /// Its number there.
    pub worker: u64,
    /// See [`crate::recording::self_monitor::SelfMetrics`].
    pub cpu: u64,
    /// The same.
    pub waited: u64,
    /// The same.
    pub wall: u64,
    /// The same.
    pub lateness: (u64, u64),
    /// The same.
    pub lag: (u64, u64),
    /// The same.
    pub away: u64,
    /// The same.
    pub in_flight: u64,
}

impl WorkerRow {
    /// The row of a worker's second. Of lateness and lag the 99th percentile and the greatest.
    pub fn of(rank: u64, interval: &Interval) -> Self {
        let watch = &interval.watch;
        let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
        Self {
            rank,
            worker: interval.worker as u64,
            cpu: nanoseconds(watch.cpu),
            waited: nanoseconds(watch.waited),
            wall: nanoseconds(watch.wall),
            lateness: (watch.lateness.value_at_quantile(0.99), watch.lateness.max()),
            lag: (watch.lag.value_at_quantile(0.99), watch.lag.max()),
            away: nanoseconds(watch.away),
            in_flight: watch.in_flight,
        }
    }

    /// What a worker can be the worst by.
    fn measures(&self) -> [u64; ROWS] {
        // A share in millionths: of a second that was cut short an amount says little.
        let share = if self.wall > 0 { (u128::from(self.cpu) * 1_000_000 / u128::from(self.wall)) as u64 } else { 0 };
        let Self { waited, lateness, lag, away, in_flight, .. } = *self;
        [share, waited, lateness.0, lateness.1, lag.0, lag.1, away, in_flight]
    }
}

/// Workers in one second: their rows, or the worst of them, and the sums of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// How many there are.
    pub workers: u64,
    /// How many processes they are of.
    pub ranks: u64,
    /// Sums; nanoseconds.
    pub cpu: u64,
    /// The same.
    pub waited: u64,
    /// The same.
    pub away: u64,
    /// The same, requests.
    pub in_flight: u64,
    /// By rank and worker.
    pub rows: Vec<WorkerRow>,
}

impl Workers {
    /// Workers of one process, all with their rows.
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

    /// Adds those of other processes. In which order that is done makes no difference: whoever is the worst of all is the
    /// worst of those it was compared with before.
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

    /// Keeps the rows of the worst alone where there are many workers.
    pub fn prune(&mut self) {
        self.rows.sort_unstable_by_key(|row| (row.rank, row.worker));
        if self.workers <= ROWS as u64 {
            return;
        }
        // Of several that are equally bad the first.
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

    fn row(rank: u64, worker: u64) -> WorkerRow {
        let draw = |salt| Draw::new(7, rank, worker).bits(salt) % 1000;
        WorkerRow {
            rank,
            worker,
            cpu: draw(1),
            waited: draw(2),
            wall: 1000,
            lateness: (draw(3), draw(4)),
            lag: (draw(5), draw(6)),
            away: draw(7),
            in_flight: draw(8),
        }
    }

    fn process(rank: u64, workers: u64) -> Workers {
        let mut workers = Workers::of((0..workers).map(|worker| row(rank, worker)).collect());
        workers.prune();
        workers
    }

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
    fn of_many_workers_the_worst_by_each_measure_is_kept_in_whatever_order_they_are_added() {
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
