//! Sinks of a process's seconds: files, or serialized values for rank 0.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::client::phase::Phase;
use crate::driver::Driver;
use crate::recording::collector::Sink;
use crate::recording::files::Files;
use crate::recording::measures::SharedMeasures;
use crate::recording::outcome::Watch;
use crate::recording::recorder::Interval;
use crate::recording::second::Second;
use crate::recording::tally::{Tally, Totals};
use crate::recording::worker_stats::{WorkerRow, Workers};

/// A sink with a result.
pub(super) trait Ending: Sink + Send + 'static {
    /// Returns the counts and times that the sink updates every second, for monitoring systems.
    fn measures(&self) -> SharedMeasures;

    /// Closes the sink; returns the phase's totals and the metrics of its workers. Fails if files cannot be written.
    fn end(self) -> io::Result<(Totals, Watch)>;
}

/// Writes files, and ends the phase when a condition of the plan is met.
pub(super) struct IntoFiles<D: Driver> {
    pub phase: Arc<Phase<D>>,
    pub start: Instant,
    pub files: Files,
    pub tally: Tally,
    pub watch: Watch,
}

impl<D: Driver> Sink for IntoFiles<D> {
    /// Writes a second to the files and adds it to the totals. Stops the phase if a condition of the plan is met.
    /// Fails if a file cannot be written.
    fn second(&mut self, sum: &Interval, rows: Vec<WorkerRow>) -> io::Result<()> {
        self.tally.window = window(&self.phase, self.start);
        self.watch.second(sum, &rows, self.tally.window);
        self.files.second(self.tally.slots(), sum, &Workers::of(rows))?;
        self.tally.second(sum);
        if self.phase.plan.trace.is_some() {
            let spans = &self.tally.measures.spans;
            spans.add(&sum.spans, self.tally.slots(), &self.phase.driver.hosts(), self.start);
        }
        if self.tally.totals.stopped_by.is_some() {
            self.phase.stop.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl<D: Driver> Ending for IntoFiles<D> {
    /// Returns the counts and times that are updated every second, for monitoring systems.
    fn measures(&self) -> SharedMeasures {
        self.tally.measures.clone()
    }

    /// Flushes the files; returns the totals and the workers' metrics.
    fn end(mut self) -> io::Result<(Totals, Watch)> {
        self.files.end()?;
        Ok((self.tally.totals, self.watch))
    }
}

/// Returns the end of the warm-up, and of a phase that ends before its planned end, as they are known now.
/// Both are after the phase's start. The second is `None` while the planned end holds.
fn window<D: Driver>(phase: &Phase<D>, start: Instant) -> (Duration, Option<Duration>) {
    (phase.warmup(), phase.ended.get().map(|ended| ended.saturating_duration_since(start)))
}

/// Serialized seconds not fetched yet.
pub(super) type Seconds = Arc<Mutex<Vec<Vec<u8>>>>;

/// Keeps seconds in memory until they are fetched.
pub(super) struct IntoMemory<D: Driver> {
    pub phase: Arc<Phase<D>>,
    pub start: Instant,
    pub seconds: Seconds,
    pub fingerprint: u64,
    pub tally: Tally,
    pub watch: Watch,
}

impl<D: Driver> Sink for IntoMemory<D> {
    /// Adds a second to the totals, and keeps it in serialized form until it is fetched. Does not fail.
    fn second(&mut self, sum: &Interval, rows: Vec<WorkerRow>) -> io::Result<()> {
        self.watch.second(sum, &rows, window(&self.phase, self.start));
        self.tally.second(sum);
        let (rank, hosts, state) = (self.phase.plan.rank, self.phase.driver.hosts(), self.phase.state());
        let second = Second::of(self.fingerprint, rank, sum, Workers::of(rows), &hosts, state);
        self.seconds.lock().expect("no thread panics while it holds the lock").push(second.to_bytes());
        Ok(())
    }
}

impl<D: Driver> Ending for IntoMemory<D> {
    /// Returns the counts and times that are updated every second, for monitoring systems.
    fn measures(&self) -> SharedMeasures {
        self.tally.measures.clone()
    }

    /// Returns the totals and the workers' metrics.
    fn end(self) -> io::Result<(Totals, Watch)> {
        Ok((self.tally.totals, self.watch))
    }
}
