//! Adds up the workers' seconds and hands the sums to a [`Sink`] while the load runs.
//!
//! It has a thread of its own, so that no worker waits for a disk, and keeps only the second that is not complete yet,
//! so that memory does not grow with the length of a run.

use std::io;
use std::mem::take;
use std::sync::mpsc::{Receiver, Sender};

use crate::recording::recorder::Interval;
use crate::recording::worker_stats::WorkerRow;

/// What becomes of the seconds.
pub trait Sink {
    /// Takes the next second of all workers: their sum, and the row of each.
    fn second(&mut self, sum: &Interval, rows: Vec<WorkerRow>) -> io::Result<()>;
}

/// What goes between the collector and one worker.
pub struct Link {
    /// The worker's seconds, each one of them in its order; it hangs up when it ends.
    pub intervals: Receiver<Interval>,
    /// Takes them back for reuse.
    pub empty: Sender<Interval>,
}

/// Collects the seconds of the workers of process `rank` until the last of them has hung up.
pub fn collect(rank: u64, mut workers: Vec<Link>, sink: &mut impl Sink) -> io::Result<()> {
    while let Some((sum, rows)) = gather(rank, &mut workers) {
        sink.second(&sum, rows)?;
        recycle(sum, &workers[0]);
    }
    Ok(())
}

/// The sum of the next second of all workers who are still there, which is the first one's to be taken back, and their
/// rows; `None` when the last has hung up. One that has ended, since it had no client or its streams were over, does not
/// delay the others.
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

/// Gives a second back to its worker, cleared here so that the worker need not do it between two requests.
fn recycle(mut interval: Interval, worker: &Link) {
    interval.clear();
    // A worker that has ended needs no more.
    let _ = worker.empty.send(interval);
}
