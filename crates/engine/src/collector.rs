//! Adds up the workers' seconds and writes them to the phase's folder while the load runs.
//!
//! It has a thread of its own, so that no worker waits for a disk, and keeps only the second that is not complete yet,
//! so that memory does not grow with the length of a run. The files:
//!
//! - `series.csv`: a row for each stream, operation, segment and second; parts of operations are `OPERATION.PART`,
//! - `nodes.csv`: which host served how many of an operation's requests in each second,
//! - `generator.csv`: what each worker measured of itself in each second,
//! - `histograms.hlog`: the HdrHistogram log (version 1.3), values in microseconds, tags `PHASE/OPERATION/response`,
//!   `.../service` and `.../failure`, with `/warmup` behind it for the warm-up; `generator/lateness`, `generator/lag`.

use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::driver::ErrorClass;
use crate::microseconds::histogram;
use crate::plan::{Condition, Metric, Plan};
use crate::recorder::{Cell, Counts, Interval, Message};

/// Messages kept of a phase, per operation and error class.
const MESSAGES: usize = 5;

/// A stream's operation, or a part of one, as the records name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The stream's name.
    pub stream: String,
    /// The operation's name.
    pub operation: String,
    /// Which of the operation's parts; `None` for the operation itself.
    pub part: Option<&'static str>,
}

impl Slot {
    /// `OPERATION` or `OPERATION.PART`.
    pub fn name(&self) -> String {
        let Self { operation, part, .. } = self;
        part.map_or_else(|| operation.clone(), |part| format!("{operation}.{part}"))
    }
}

/// What a person who waits wants to see.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Seconds recorded so far.
    pub seconds: u64,
    /// Requests of the phase so far, warm-up included.
    pub requests: u64,
    /// Failed ones.
    pub errors: u64,
    /// Documents taken or returned.
    pub documents: u64,
    /// Successes of the last second.
    pub throughput: u64,
    /// Documents of the last second.
    pub documents_throughput: u64,
    /// 50th and 99th percentile of the last second's response times, microseconds.
    pub response: (u64, u64),
}

/// What the collector knows when all workers have ended.
#[derive(Debug)]
pub struct Totals {
    /// Counts of the warm-up and of the measured segment, by slot.
    pub counts: Vec<[Counts; 2]>,
    /// The first messages of each operation and error class.
    pub messages: Vec<Message>,
    /// The condition that ended the phase, if one did.
    pub stopped_by: Option<Condition>,
}

/// What goes between the collector and one worker.
pub struct Link {
    /// The worker's seconds, each one of them in its order; it hangs up when it ends.
    pub intervals: Receiver<Interval>,
    /// Takes them back for reuse.
    pub empty: Sender<Interval>,
}

/// Seconds of the phase, written as they become complete: line by line, so that a disk that is full shows at once.
pub struct Collector {
    phase: String,
    slots: Vec<Slot>,
    offset: Duration,
    series: LineWriter<File>,
    nodes: LineWriter<File>,
    generator: LineWriter<File>,
    log: PathBuf,
    began: SystemTime,
    progress: Arc<Mutex<Progress>>,
    /// Each with the number of consecutive seconds in which it was met.
    conditions: Vec<(Condition, u64)>,
    totals: Totals,
}

/// Files that could not be written.
pub type Result<T> = io::Result<T>;

impl Collector {
    /// Creates the phase's files in `folder`. The phase's load begins `offset` after the run, and that at `began` by
    /// the wall clock.
    pub fn create(
        folder: &Path,
        plan: &Plan,
        slots: Vec<Slot>,
        offset: Duration,
        began: SystemTime,
        progress: Arc<Mutex<Progress>>,
    ) -> Result<Self> {
        let open = |name: &str| File::create(folder.join(name)).map(LineWriter::new);
        let totals = Totals { counts: vec![Default::default(); slots.len()], messages: Vec::new(), stopped_by: None };
        let mut collector = Self {
            phase: plan.phase.clone(),
            slots,
            offset,
            series: open("series.csv")?,
            nodes: open("nodes.csv")?,
            generator: open("generator.csv")?,
            log: folder.join("histograms.hlog"),
            began,
            progress,
            conditions: plan.stop_when.iter().map(|condition| (condition.clone(), 0)).collect(),
            totals,
        };
        write!(
            collector.series,
            "stream,operation,segment,second,requests,successes,documents,bytes_sent,bytes_received,dropped,retries"
        )?;
        for class in ErrorClass::ALL {
            write!(collector.series, ",error_{}", class.name())?;
        }
        for measure in ["response", "service", "failure"] {
            write!(collector.series, ",{measure}_p50,{measure}_p99,{measure}_max")?;
        }
        writeln!(collector.series, ",unanswered,oldest_unanswered")?;
        writeln!(collector.nodes, "operation,node,second,requests")?;
        writeln!(
            collector.generator,
            "second,worker,cpu_seconds,waited_seconds,wall_seconds,lateness_p99,lateness_max,lag_p99,lag_max,away_seconds,in_flight"
        )?;
        Ok(collector)
    }

    /// Collects until the last worker has hung up. `stop` is set when a condition of the plan is met.
    pub fn collect(mut self, mut workers: Vec<Link>, stop: &AtomicBool) -> Result<Totals> {
        let mut log = LineWriter::new(File::create(&self.log)?);
        {
            let mut serializer = V2DeflateSerializer::new();
            let mut log = IntervalLogWriterBuilder::new()
                .add_comment("Values are microseconds; seconds are since the run began; Interval_Max is milliseconds")
                .with_start_time(self.began)
                .with_base_time(self.began)
                .with_max_value_divisor(1000.0)
                .begin_log_with(&mut log, &mut serializer)?;
            let mut write = |tag: &str, second: u64, offset: Duration, histogram: &Histogram<u64>| {
                let tag = Tag::new(tag).ok_or_else(|| io::Error::other(format!("{tag:?} is not a valid tag")))?;
                log.write_histogram(histogram, offset + Duration::from_secs(second), Duration::from_secs(1), Some(tag))
                    .map_err(|error| io::Error::other(format!("{error:?}")))
            };
            while let Some(sum) = self.gather(&mut workers)? {
                self.second(&sum, &mut write)?;
                if self.totals.stopped_by.is_some() {
                    stop.store(true, Ordering::Relaxed);
                }
                recycle(sum, &workers[0]);
            }
        }
        log.flush()?;
        self.series.flush()?;
        self.nodes.flush()?;
        self.generator.flush()?;
        Ok(self.totals)
    }

    /// The sum of the next second of all workers who are still there, which is the first one's to be taken back; `None`
    /// when the last has hung up. One that has ended, since it had no client or its streams were over, does not delay
    /// the others.
    fn gather(&mut self, workers: &mut Vec<Link>) -> Result<Option<Interval>> {
        let mut sum: Option<Interval> = None;
        for link in take(workers) {
            let Ok(interval) = link.intervals.recv() else { continue };
            self.worker(&interval)?;
            match &mut sum {
                None => sum = Some(interval),
                Some(sum) => {
                    add(sum, &interval);
                    recycle(interval, &link);
                }
            }
            workers.push(link);
        }
        Ok(sum)
    }

    fn worker(&mut self, interval: &Interval) -> Result<()> {
        let watch = &interval.watch;
        writeln!(
            self.generator,
            "{},{},{:.6},{:.6},{:.6},{},{},{},{},{:.6},{}",
            interval.second,
            interval.worker,
            watch.cpu,
            watch.waited,
            watch.wall,
            Seconds(watch.lateness.value_at_quantile(0.99)),
            Seconds(watch.lateness.max()),
            Seconds(watch.lag.value_at_quantile(0.99)),
            Seconds(watch.lag.max()),
            watch.away,
            watch.in_flight
        )
    }

    fn second(
        &mut self,
        sum: &Interval,
        log: &mut impl FnMut(&str, u64, Duration, &Histogram<u64>) -> Result<()>,
    ) -> Result<()> {
        let second = sum.second;
        let mut shown = Progress { seconds: second + 1, ..self.shown() };
        (shown.throughput, shown.documents_throughput) = (0, 0);
        let mut response = histogram();
        let (mut dropped, mut oldest) = (0, Duration::ZERO);
        let before = (shown.requests, shown.errors);
        for (index, cell) in sum.cells.iter().enumerate() {
            let (Some(cell), true) = (cell, sum.used[index]) else { continue };
            let (slot, measured) = (index / 2, index % 2 == 1);
            self.row(slot, measured, second, cell)?;
            let operation = self.slots[slot].name();
            let suffix = if measured { "" } else { "/warmup" };
            for (measure, histogram) in cell.measures() {
                if let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) {
                    log(&format!("{}/{operation}/{measure}{suffix}", self.phase), second, self.offset, histogram)?;
                }
            }
            self.totals.counts[slot][usize::from(measured)].add(&cell.counts);
            if self.slots[slot].part.is_some() {
                // The phase's totals count operations and not their parts.
                continue;
            }
            shown.requests += cell.counts.requests;
            shown.errors += cell.counts.requests - cell.counts.successes;
            shown.documents += cell.counts.documents;
            dropped += cell.counts.dropped;
            oldest = oldest.max(cell.oldest_unanswered);
            shown.throughput += cell.counts.successes;
            shown.documents_throughput += cell.counts.documents;
            response.add(&cell.response).expect("layouts are equal");
        }
        for (tag, histogram) in [("generator/lateness", &sum.watch.lateness), ("generator/lag", &sum.watch.lag)] {
            if !histogram.is_empty() {
                log(tag, second, self.offset, histogram)?;
            }
        }
        for message in &sum.messages {
            let alike = self.totals.messages.iter().filter(|m| (m.slot, m.class) == (message.slot, message.class));
            if alike.count() < MESSAGES {
                self.totals.messages.push(message.clone());
            }
        }
        let requests = shown.requests - before.0;
        let errors = if requests > 0 { (shown.errors - before.1) as f64 / requests as f64 } else { 0.0 };
        for (condition, seconds) in &mut self.conditions {
            let figure = match condition.metric {
                Metric::ErrorShare => errors,
                // In a second without an answer the age of the oldest request is the least that it will take.
                Metric::ResponseP99 if response.is_empty() => oldest.as_secs_f64(),
                Metric::ResponseP99 => response.value_at_quantile(0.99) as f64 / 1e6,
                Metric::Dropped => dropped as f64,
            };
            *seconds = if figure > condition.above { *seconds + 1 } else { 0 };
            if *seconds >= condition.seconds {
                self.totals.stopped_by.get_or_insert_with(|| condition.clone());
            }
        }
        shown.response = (response.value_at_quantile(0.5), response.value_at_quantile(0.99));
        *self.progress.lock().expect("no thread panics while it holds the lock") = shown;
        Ok(())
    }

    fn shown(&self) -> Progress {
        self.progress.lock().expect("no thread panics while it holds the lock").clone()
    }

    fn row(&mut self, slot: usize, measured: bool, second: u64, cell: &Cell) -> Result<()> {
        let (stream, operation) = (&self.slots[slot].stream, self.slots[slot].name());
        let segment = if measured { "measure" } else { "warmup" };
        let c = &cell.counts;
        write!(
            self.series,
            "{stream},{operation},{segment},{second},{},{},{},{},{},{},{}",
            c.requests, c.successes, c.documents, c.bytes_sent, c.bytes_received, c.dropped, c.retries
        )?;
        for errors in c.errors {
            write!(self.series, ",{errors}")?;
        }
        for (_, histogram) in cell.measures() {
            // A second without a success has no percentile of these, which is not the same as one of zero.
            let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else {
                write!(self.series, ",,,")?;
                continue;
            };
            for value in [histogram.value_at_quantile(0.5), histogram.value_at_quantile(0.99), histogram.max()] {
                write!(self.series, ",{}", Seconds(value))?;
            }
        }
        match cell.unanswered {
            0 => writeln!(self.series, ",0,")?,
            some => writeln!(self.series, ",{some},{}", Seconds(cell.oldest_unanswered.as_micros() as u64))?,
        }
        for (node, requests) in cell.nodes.iter().enumerate().filter(|(_, requests)| **requests > 0) {
            writeln!(self.nodes, "{operation},{node},{second},{requests}")?;
        }
        Ok(())
    }
}

/// Gives a second back to its worker, cleared here so that the worker need not do it between two requests.
fn recycle(mut interval: Interval, worker: &Link) {
    interval.clear();
    // A worker that has ended needs no more.
    let _ = worker.empty.send(interval);
}

/// Adds worker `other`'s second to `sum`.
fn add(sum: &mut Interval, other: &Interval) {
    for (index, cell) in other.cells.iter().enumerate() {
        let (Some(cell), true) = (cell, other.used[index]) else { continue };
        match (&mut sum.cells[index], sum.used[index]) {
            (Some(mine), true) => mine.add(cell),
            (mine, _) => *mine = Some(cell.clone()),
        }
        sum.used[index] = true;
    }
    sum.watch.lateness.add(&other.watch.lateness).expect("layouts are equal");
    sum.watch.lag.add(&other.watch.lag).expect("layouts are equal");
    sum.watch.away += other.watch.away;
    sum.messages.extend_from_slice(&other.messages);
}

/// Microseconds, written as seconds.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}
