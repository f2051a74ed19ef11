//! Recorder of one worker: counts and histograms of the current second, per stream and operation.
//!
//! A recording is two histogram increments and a few additions, without locks, channels or allocation. Once a
//! second the finished [`Interval`] goes to the collector. Its thread clears the interval and sends an empty
//! one back. The worker's own metrics are in [`crate::recording::self_monitor`].

mod cell;
mod interval;

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use crate::driver::{Failure, Reply, ReplyPart};
use crate::recording::durations::record;
use crate::recording::sample::Sample;
use crate::recording::self_monitor::SelfMonitor;
use crate::recording::spans::Span;
use crate::util::trace::Trace;
use cell::grow;
pub use cell::{Cell, Counts, DeadlineCounts, Served};
pub use interval::{Interval, Message, same_words};

/// Requests in flight by client: slot and scheduled time.
pub type Waiting = [Option<(usize, Instant)>];

const SECOND: Duration = Duration::from_secs(1);

/// Maximum number of different messages kept per operation, segment and error class, for a second and for a
/// phase.
pub const MESSAGES: usize = 5;

/// Times and client of a request.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When it was due.
    pub scheduled: Instant,
    /// When its client started it.
    pub started: Instant,
    /// End of the stream's measured window, if the clock ends it.
    pub ends: Option<Instant>,
    /// Number of the client.
    pub client: u64,
    /// Trace context of the last attempt, if the request is sampled.
    pub trace: Option<Trace>,
}

/// A worker's recorder.
pub struct Recorder {
    start: Instant,
    /// Whether to record every request individually.
    samples: bool,
    /// Times after a request was due, against which to count it.
    deadlines: Vec<Duration>,
    /// Whether to record the generator's overhead by the kernel's timestamps.
    kernel_timestamps: bool,
    measured_from: Instant,
    /// Returns the warm-up as it is known now.
    warmup: Box<dyn Fn() -> Duration + Send>,
    /// Stored outside the interval, so that finding a cell takes two comparisons.
    second_ends: Instant,
    interval: Interval,
    finished: Sender<Interval>,
    empty: Receiver<Interval>,
    monitor: SelfMonitor,
}

impl Recorder {
    /// Creates a recorder of worker `worker` for `slots` slots of a phase that began at `start`. The slots of an
    /// operation's parts follow the operation's slot. `warmup` returns the length of the warm-up, and is called every
    /// second. `samples`: also record every request individually. `finished`: receives each finished second. `empty`:
    /// returns cleared seconds for reuse.
    pub fn new(
        worker: usize,
        slots: usize,
        start: Instant,
        warmup: impl Fn() -> Duration + Send + 'static,
        samples: bool,
        finished: Sender<Interval>,
        empty: Receiver<Interval>,
    ) -> Self {
        Self {
            start,
            samples,
            deadlines: Vec::new(),
            kernel_timestamps: false,
            measured_from: start + warmup(),
            warmup: Box::new(warmup),
            second_ends: start + SECOND,
            interval: Interval::new(worker, slots),
            finished,
            empty,
            monitor: SelfMonitor::new(start),
        }
    }

    /// Returns the recorder with `deadlines`, times after a request was due: it counts the requests that meet or miss
    /// each.
    pub fn with_deadlines(self, deadlines: Vec<Duration>) -> Self {
        Self { deadlines, ..self }
    }

    /// Returns the recorder. `on`: it also records the generator's overhead by the kernel's timestamps, where replies
    /// have it.
    pub fn with_kernel_timestamps(self, on: bool) -> Self {
        Self { kernel_timestamps: on, ..self }
    }

    /// Records a finished request of the operation at `slot`, which is still listed in `waiting`, with its parts. It
    /// counts in the second in which it ended, and in the segment in which it was scheduled. Hands over seconds that
    /// have passed.
    #[inline]
    pub fn request(&mut self, slot: usize, times: Times, reply: Reply, waiting: &Waiting) {
        let Times { scheduled, started, ends, client, trace } = times;
        self.turn(reply.done, waiting);
        let in_window = self.in_window(reply.done, ends);
        record(&mut self.interval.watch.lateness, started.saturating_duration_since(scheduled));
        if self.samples {
            let measured = scheduled >= self.measured_from;
            self.interval.samples.push(Sample::of(slot, client, self.start, scheduled, measured, &reply));
        }
        if trace.is_some() {
            self.trace(slot, times, &reply, true);
        }
        if !self.deadlines.is_empty() {
            self.count_deadlines(slot, times, &reply);
        }
        let kernel_timestamps = self.kernel_timestamps;
        let cell = self.cell(slot, scheduled);
        if kernel_timestamps && reply.outcome.is_ok() {
            cell.stamp(reply.overhead, reply.done.saturating_duration_since(reply.sent));
        }
        cell.exchanged(&reply, in_window);
        self.count(slot, times, reply, in_window);
    }

    /// Records several requests of a user as one request at `slot`, from the first to the end of the last. They are
    /// recorded individually, too: the group has no lateness, bytes or host. It counts in the second in which it
    /// ended, and in the segment in which it was scheduled. Hands over seconds that have passed.
    pub fn group(&mut self, slot: usize, times: Times, reply: Reply, waiting: &Waiting) {
        self.turn(reply.done, waiting);
        if self.samples {
            let Times { scheduled, client, .. } = times;
            let measured = scheduled >= self.measured_from;
            self.interval.samples.push(Sample::of(slot, client, self.start, scheduled, measured, &reply));
        }
        let in_window = self.in_window(reply.done, times.ends);
        self.count(slot, times, reply, in_window);
    }

    /// Counts a finished request at `slot` with its times and parts, in the current second. `in_window`: it ended in
    /// the measured window.
    #[inline]
    fn count(&mut self, slot: usize, times: Times, reply: Reply, in_window: bool) {
        let scheduled = times.scheduled;
        let cell = self.cell(slot, scheduled);
        let counts = &mut cell.counts;
        counts.requests += 1;
        counts.completed += u64::from(in_window && reply.outcome.is_ok());
        if let Some(recall) = reply.recall {
            counts.relevant += recall.relevant;
            counts.relevant_found += recall.retrieved;
        }
        match reply.outcome {
            Ok(()) => {
                counts.successes += 1;
                record(&mut cell.response, reply.done.saturating_duration_since(scheduled));
                record(&mut cell.service, reply.done.saturating_duration_since(reply.sent));
            }
            Err(failure) => {
                counts.errors[failure.class as usize] += 1;
                cell.fail(reply.done.saturating_duration_since(scheduled));
                self.keep(slot, scheduled >= self.measured_from, reply.status, failure, 1);
            }
        }
        for part in &reply.parts {
            self.part(slot + 1 + part.name, times, part);
        }
    }

    /// Counts a finished request as met or missed for each deadline.
    /// Leaves out a deadline for which the end of a second has counted it as missed already. A failure counts as
    /// missed.
    fn count_deadlines(&mut self, slot: usize, Times { scheduled, started, .. }: Times, reply: &Reply) {
        let began = self.second_ends - SECOND;
        let counts = &mut self.interval.cell(slot, scheduled >= self.measured_from).deadlines;
        grow(counts, self.deadlines.len());
        for (deadline, counts) in self.deadlines.iter().zip(counts) {
            if began.saturating_duration_since(scheduled) >= *deadline {
                // The first end of a second after the deadline counted it, unless it started later.
                let due = scheduled.saturating_duration_since(self.start) + *deadline;
                let end = Duration::from_secs(due.as_secs() + u64::from(due.subsec_nanos() > 0));
                counts.missed += u64::from(started > self.start + end);
            } else if reply.outcome.is_ok() && reply.done.saturating_duration_since(scheduled) < *deadline {
                counts.met += 1;
            } else {
                counts.missed += 1;
            }
        }
    }

    /// Records a failed attempt that will be retried: its bytes, host, message and stored documents. The request
    /// itself is recorded after its last attempt. Hands over seconds that have passed.
    pub fn attempt(&mut self, slot: usize, times: Times, reply: Reply, waiting: &Waiting) {
        self.turn(reply.done, waiting);
        let in_window = self.in_window(reply.done, times.ends);
        let cell = self.cell(slot, times.scheduled);
        cell.counts.retries += 1;
        cell.exchanged(&reply, in_window);
        self.trace(slot, times, &reply, false);
        if let Err(failure) = reply.outcome {
            self.keep(slot, times.scheduled >= self.measured_from, reply.status, failure, 0);
        }
    }

    /// Records a poll that did not find the write yet, as a retried attempt without a failure message.
    pub fn saw_nothing(&mut self, slot: usize, times: Times, reply: &Reply, waiting: &Waiting) {
        self.turn(reply.done, waiting);
        let in_window = self.in_window(reply.done, times.ends);
        let cell = self.cell(slot, times.scheduled);
        cell.counts.retries += 1;
        cell.exchanged(reply, in_window);
        self.trace(slot, times, reply, false);
    }

    /// Records the span of an attempt, if its request is sampled. `recorded`: the histograms count its times.
    pub fn trace(&mut self, slot: usize, times: Times, reply: &Reply, recorded: bool) {
        let Times { scheduled, client, trace: Some(trace), .. } = times else { return };
        let sample = Sample::of(slot, client, self.start, scheduled, scheduled >= self.measured_from, reply);
        self.interval.spans.push(Span { trace, recorded, sample });
    }

    /// Adds the message of a failure at `slot` to the second, with `count` failed requests. `measured`: the request's
    /// segment. `status`: of the answer, if the protocol has one.
    fn keep(&mut self, slot: usize, measured: bool, status: Option<u16>, failure: Failure, count: u64) {
        let Failure { class, message: text, .. } = failure;
        Message { slot, class, measured, status, text, count }.add_to(&mut self.interval.messages, MESSAGES);
    }

    /// Returns whether `done` is in the measured window of a stream. `ends`: its end, if the clock ends it.
    fn in_window(&self, done: Instant, ends: Option<Instant>) -> bool {
        done >= self.measured_from && ends.is_none_or(|ends| done < ends)
    }

    /// Records a part of the last recorded request, in the same second and in the segment in which it was scheduled.
    /// `slot`: slot of the part.
    pub fn part(&mut self, slot: usize, Times { scheduled, ends, .. }: Times, part: &ReplyPart) {
        let in_window = self.in_window(part.done, ends);
        let cell = self.cell(slot, scheduled);
        let counts = &mut cell.counts;
        counts.requests += 1;
        counts.documents += part.documents;
        counts.completed += u64::from(in_window && part.failed.is_none());
        counts.completed_documents += if in_window { part.documents } else { 0 };
        let service = part.done.saturating_duration_since(part.sent);
        match part.failed {
            None => {
                counts.successes += 1;
                record(&mut cell.response, service);
                record(&mut cell.service, service);
            }
            Some(class) => {
                counts.errors[class as usize] += 1;
                cell.fail(service);
            }
        }
    }

    /// Records a request of the operation at `slot` that was due and not sent. `now`: the current time; seconds that
    /// have passed are handed over.
    pub fn dropped(&mut self, slot: usize, scheduled: Instant, now: Instant, waiting: &Waiting) {
        self.turn(now, waiting);
        self.cell(slot, scheduled).counts.dropped += 1;
    }

    /// Records the lag of each event-loop check that was due by `now`, including missed ones.
    /// Hands over seconds that have passed. Returns when the next check is due.
    pub fn look(&mut self, now: Instant, waiting: &Waiting) -> Instant {
        self.turn(now, waiting);
        self.monitor.look(now, &mut self.interval.watch)
    }

    /// Records the requests in flight as abandoned at `now`, and hands over the last, partial second. The collector
    /// waits for more until the recorder is dropped.
    pub fn finish(&mut self, now: Instant, waiting: &Waiting) {
        self.turn(now, waiting);
        for &(slot, scheduled) in waiting.iter().flatten() {
            self.cell(slot, scheduled).abandon(now.saturating_duration_since(scheduled));
        }
        self.hand_over(now, now, waiting);
    }

    /// Returns the current second's cell of a slot, in the segment of a request due at `scheduled`.
    #[inline]
    fn cell(&mut self, slot: usize, scheduled: Instant) -> &mut Cell {
        self.interval.cell(slot, scheduled >= self.measured_from)
    }

    /// Hands over each second that has ended by `now`, and updates the end of the warm-up.
    #[inline]
    fn turn(&mut self, now: Instant, waiting: &Waiting) {
        while now >= self.second_ends {
            let ended = self.second_ends;
            self.hand_over(ended, now, waiting);
            self.second_ends = ended + SECOND;
            // Chosen ends of the warm-up are whole seconds, and known before they begin.
            self.measured_from = self.start + (self.warmup)();
        }
    }

    /// Sends the second that `ended` to the collector, and starts the next one. `now`: the current time.
    /// The second gets its requests in flight and the worker's metrics.
    fn hand_over(&mut self, ended: Instant, now: Instant, waiting: &Waiting) {
        let mut in_flight = 0;
        let began = self.second_ends - SECOND;
        for &(slot, scheduled) in waiting.iter().flatten().filter(|(_, scheduled)| *scheduled < ended) {
            in_flight += 1;
            let cell = self.interval.cell(slot, scheduled >= self.measured_from);
            cell.unanswered += 1;
            cell.oldest_unanswered = cell.oldest_unanswered.max(ended - scheduled);
            grow(&mut cell.deadlines, self.deadlines.len());
            for (deadline, counts) in self.deadlines.iter().zip(&mut cell.deadlines) {
                let passed = ended - scheduled >= *deadline && began.saturating_duration_since(scheduled) < *deadline;
                counts.missed += u64::from(passed);
            }
        }
        self.interval.watch.in_flight = in_flight;
        self.monitor.second(ended, now, &mut self.interval.watch);
        let (worker, second) = (self.interval.worker, self.interval.second);
        let mut next = self.empty.try_recv().unwrap_or_else(|_| Interval::new(worker, self.interval.cells.len() / 2));
        next.second = second + 1;
        let full = std::mem::replace(&mut self.interval, next);
        // The collector is gone only if its files failed, which it reports itself.
        let _ = self.finished.send(full);
    }
}

#[cfg(test)]
mod tests;
