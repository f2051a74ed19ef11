//! Adds up the workers' seconds and passes the sums to a [`Sink`] during the load.
//!
//! The collector has its own thread, so that workers never wait for a disk. It keeps only the incomplete
//! second, so memory does not grow with the length of a run.

use std::io;
use std::mem::take;
use std::sync::mpsc::{Receiver, Sender};

use crate::recording::recorder::Interval;
use crate::recording::worker_stats::WorkerRow;

/// Receiver of the summed seconds.
pub trait Sink {
    /// Handles the next second of all workers: their sum, and the row of each. An error ends the collection.
    fn second(&mut self, sum: &Interval, rows: Vec<WorkerRow>) -> io::Result<()>;
}

/// Channels between the collector and one worker.
pub struct Link {
    /// The worker's seconds, in order; closed when it ends.
    pub intervals: Receiver<Interval>,
    /// Returns intervals for reuse.
    pub empty: Sender<Interval>,
}

/// Passes the sum of each second of all workers of process `rank` to `sink`, until the last worker has ended.
/// Blocks. Fails with the sink's first error, and then passes no more seconds.
pub fn collect(rank: u64, mut workers: Vec<Link>, sink: &mut impl Sink) -> io::Result<()> {
    while let Some((sum, rows)) = gather(rank, &mut workers) {
        sink.second(&sum, rows)?;
        recycle(sum, &workers[0]);
    }
    Ok(())
}

/// Waits for the next second of each running worker; returns their sum and their rows, or `None` after the last worker
/// has ended. `rank`: number of the process, for the rows. The sum reuses the first worker's interval. Workers that
/// have ended are removed from `workers`.
fn gather(rank: u64, workers: &mut Vec<Link>) -> Option<(Interval, Vec<WorkerRow>)> {
    let mut sum: Option<Interval> = None;
    let mut rows = Vec::new();
    for link in take(workers) {
        let Ok(interval) = link.intervals.recv() else { continue };
        rows.push(WorkerRow::of(rank, &interval));
        match &mut sum {
            None => sum = Some(interval),
            Some(sum) => {
                sum.add(&interval);
                recycle(interval, &link);
            }
        }
        workers.push(link);
    }
    sum.map(|sum| (sum, rows))
}

/// Clears an interval and returns it to its worker, which must not clear it between two requests.
fn recycle(mut interval: Interval, worker: &Link) {
    interval.clear();
    // The send fails if the worker has ended.
    let _ = worker.empty.send(interval);
}
