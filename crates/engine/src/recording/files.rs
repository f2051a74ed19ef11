//! Files of a phase, written every second during the load. Each line is written at once, so that a full disk
//! is noticed immediately: functions return the error of a failed write.
//!
//! - `series.csv`: one row per stream, operation, segment and second; parts of operations are named
//!   `OPERATION.PART`.
//! - `nodes.csv`: requests and documents of each operation per host and second.
//! - `generator.csv`: metrics of the workers per second, with `spin_seconds` if they spin. With several ranks and
//!   many workers, only the worst workers.
//! - `workers.csv`: with several ranks, the sums of these metrics.
//! - `histograms.hlog`: see [`crate::recording::hlog`].
//! - `samples.bin` and `slots.csv`, if every request is recorded: see [`crate::recording::sample`].

use std::fs::File;
use std::io::{self, LineWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::driver::ErrorClass;
use crate::plan::Plan;
use crate::recording::hlog::Log;
use crate::recording::recorder::{Cell, Interval};
use crate::recording::sample::SampleFile;
use crate::recording::slot::Slot;
use crate::recording::worker_stats::Workers;

/// Result of writing a file.
pub type Result<T> = io::Result<T>;

/// The open files of a phase.
pub struct Files {
    phase: String,
    spins: bool,
    series: LineWriter<File>,
    nodes: LineWriter<File>,
    generator: LineWriter<File>,
    /// With several ranks only.
    workers: Option<LineWriter<File>>,
    log: Log,
    samples: Option<SampleFile>,
}

impl Files {
    /// Creates the phase's files in `folder`, with their headers; replaces older ones. `offset`: start of the load
    /// after the run's start. `began`: the run's start by the wall clock. `sums`: the seconds are sums over several
    /// ranks, so `workers.csv` is written too. Fails if a file cannot be created.
    pub fn create(
        folder: &Path,
        plan: &Plan,
        slots: &[Slot],
        offset: Duration,
        began: SystemTime,
        sums: bool,
    ) -> Result<Self> {
        let open = |name: &str| File::create(folder.join(name)).map(LineWriter::new);
        let mut files = Self {
            phase: plan.phase.clone(),
            spins: plan.spin,
            series: open("series.csv")?,
            nodes: open("nodes.csv")?,
            generator: open("generator.csv")?,
            workers: sums.then(|| open("workers.csv")).transpose()?,
            log: Log::create(&folder.join("histograms.hlog"), offset, began)?,
            samples: plan.samples.then(|| SampleFile::create(folder, slots)).transpose()?,
        };
        write!(
            files.series,
            "stream,operation,segment,second,requests,successes,documents,bytes_sent,bytes_received,dropped,retries,reconnects"
        )?;
        for class in ErrorClass::ALL {
            write!(files.series, ",error_{}", class.name())?;
        }
        for measure in ["response", "service", "failure", "setup"] {
            write!(files.series, ",{measure}_p50,{measure}_p99,{measure}_max")?;
        }
        writeln!(files.series, ",unanswered,oldest_unanswered")?;
        writeln!(files.nodes, "operation,node,second,requests,documents")?;
        write!(
            files.generator,
            "second,rank,worker,cpu_seconds,waited_seconds,wall_seconds,lateness_p99,lateness_max,lag_p99,lag_max,away_seconds,in_flight"
        )?;
        writeln!(files.generator, "{}", if plan.spin { ",spin_seconds" } else { "" })?;
        if let Some(workers) = &mut files.workers {
            writeln!(workers, "second,ranks,workers,cpu_seconds,waited_seconds,away_seconds,in_flight")?;
        }
        Ok(files)
    }

    /// Writes the records of one second to all files of the phase. `sum` has the cells of all workers, in the order of
    /// `slots` (operations and their parts); `workers` has the metrics of each worker. Fails if a file cannot be
    /// written.
    pub fn second(&mut self, slots: &[Slot], sum: &Interval, workers: &Workers) -> Result<()> {
        let second = sum.second;
        self.workers(second, workers)?;
        if let Some(samples) = &mut self.samples {
            samples.write(&sum.samples)?;
        }
        for (slot, measured, cell) in sum.used_cells() {
            self.row(&slots[slot], measured, second, cell)?;
            let operation = slots[slot].name();
            let suffix = if measured { "" } else { "/warmup" };
            for (measure, histogram) in cell.measures().into_iter().chain(cell.further_measures()) {
                if let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) {
                    let tag = format!("{}/{operation}/{measure}{suffix}", self.phase);
                    self.log.write(&tag, second, histogram)?;
                }
            }
        }
        for (tag, histogram) in [("generator/lateness", &sum.watch.lateness), ("generator/lag", &sum.watch.lag)] {
            if !histogram.is_empty() {
                self.log.write(tag, second, histogram)?;
            }
        }
        Ok(())
    }

    /// Flushes all files except the samples, which are flushed every second.
    pub fn end(&mut self) -> Result<()> {
        self.log.flush()?;
        self.series.flush()?;
        self.nodes.flush()?;
        self.workers.as_mut().map_or(Ok(()), Write::flush)?;
        self.generator.flush()
    }

    /// Writes the metrics of the workers in second number `second` to `generator.csv`.
    /// With several ranks, also writes their sums to `workers.csv`.
    fn workers(&mut self, second: u64, workers: &Workers) -> Result<()> {
        for row in &workers.rows {
            write!(
                self.generator,
                "{second},{},{},{:.6},{:.6},{:.6},{},{},{},{},{:.6},{}",
                row.rank,
                row.worker,
                seconds(row.cpu),
                seconds(row.waited),
                seconds(row.wall),
                Seconds(row.lateness.0),
                Seconds(row.lateness.1),
                Seconds(row.lag.0),
                Seconds(row.lag.1),
                seconds(row.away),
                row.in_flight
            )?;
            if self.spins {
                write!(self.generator, ",{:.6}", seconds(row.spun))?;
            }
            writeln!(self.generator)?;
        }
        let Some(file) = &mut self.workers else { return Ok(()) };
        writeln!(
            file,
            "{second},{},{},{:.6},{:.6},{:.6},{}",
            workers.ranks,
            workers.workers,
            seconds(workers.cpu),
            seconds(workers.waited),
            seconds(workers.away),
            workers.in_flight
        )
    }

    /// Writes a cell of second number `second` to `series.csv`, and its requests per host to `nodes.csv`. `measured`:
    /// the segment is not the warm-up.
    fn row(&mut self, slot: &Slot, measured: bool, second: u64, cell: &Cell) -> Result<()> {
        let (stream, operation) = (&slot.stream, slot.name());
        let segment = if measured { "measure" } else { "warmup" };
        let c = &cell.counts;
        write!(
            self.series,
            "{stream},{operation},{segment},{second},{},{},{},{},{},{},{},{}",
            c.requests, c.successes, c.documents, c.bytes_sent, c.bytes_received, c.dropped, c.retries, c.reconnects
        )?;
        for errors in c.errors {
            write!(self.series, ",{errors}")?;
        }
        for (_, histogram) in cell.measures() {
            // Percentiles of a second without a success are empty, not zero.
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
            some => writeln!(self.series, ",{some},{}", Seconds(cell.oldest_unanswered.as_nanos() as u64))?,
        }
        for (node, served) in cell.nodes.iter().enumerate().filter(|(_, served)| served.requests > 0) {
            writeln!(self.nodes, "{operation},{node},{second},{},{}", served.requests, served.documents)?;
        }
        Ok(())
    }
}

/// Converts nanoseconds to seconds.
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Nanoseconds, displayed as seconds.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    /// Writes seconds with nine decimals.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
