//! What one worker writes down: counts and histograms of the current second, per stream and operation.
//!
//! A worker owns its recorder: recording is two histogram increments and a few additions, with no lock, no channel
//! and no allocation. Once a second the finished [`Interval`] goes to the collector, whose thread clears it, and an empty
//! one comes back. What the worker says of itself is in [`crate::watch`].

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::driver::{ErrorClass, Failure, Part, Reply};
use crate::watch::{Watch, Watcher};

/// What each client of a worker waits for: its operation's slot, and when its request was scheduled.
pub type Waiting = [Option<(usize, Instant)>];

/// How many messages of each second, operation and error class are passed on.
const MESSAGES: usize = 5;

/// A histogram of microseconds, 1 us to 1 h at three significant digits (23,552 counters).
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("the bounds are constants that the layout allows")
}

/// Counts a duration; beyond an hour it counts as an hour, below a microsecond as zero.
#[inline]
pub fn record(histogram: &mut Histogram<u64>, duration: Duration) {
    histogram.saturating_record(duration.as_micros() as u64);
}

/// What was counted of one stream's operation in one second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that ended, well or not.
    pub requests: u64,
    /// Those that were answered, and judged to be right.
    pub successes: u64,
    /// Documents that the store took or returned in successes.
    pub documents: u64,
    /// Bytes written, all attempts of all requests.
    pub bytes_sent: u64,
    /// Bytes read, all attempts of all requests.
    pub bytes_received: u64,
    /// Successes that were done inside the measured window, whenever they were scheduled: what throughput counts.
    pub completed: u64,
    /// Documents of those.
    pub completed_documents: u64,
    /// Requests that were due and not sent, because too many were in flight.
    pub dropped: u64,
    /// Attempts beyond the first, where failed requests are tried again.
    pub retries: u64,
    /// Documents that answers should have had, where that is asserted.
    pub relevant: u64,
    /// Of these, those that they had.
    pub relevant_found: u64,
    /// Failed requests by class; of a bulk request with failed items one.
    pub errors: [u64; ErrorClass::ALL.len()],
}

impl Counts {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.successes += other.successes;
        self.documents += other.documents;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
        self.completed += other.completed;
        self.completed_documents += other.completed_documents;
        self.dropped += other.dropped;
        self.retries += other.retries;
        self.relevant += other.relevant;
        self.relevant_found += other.relevant_found;
        for (mine, theirs) in self.errors.iter_mut().zip(other.errors) {
            *mine += theirs;
        }
    }
}

/// One stream's operation in one second and segment: the smallest thing that is recorded.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Everything that is counted.
    pub counts: Counts,
    /// done - scheduled of the successes.
    pub response: Histogram<u64>,
    /// done - sent of the successes.
    pub service: Histogram<u64>,
    /// done - scheduled of the failures; made at the first one, since most operations have none.
    pub failure: Option<Histogram<u64>>,
    /// Attempts by the host that served them.
    pub nodes: Vec<u64>,
    /// Requests that were in flight when the second ended.
    pub unanswered: u64,
    /// How long ago the oldest of these had been scheduled then.
    pub oldest_unanswered: Duration,
}

impl Cell {
    fn new() -> Self {
        Self {
            counts: Counts::default(),
            response: histogram(),
            service: histogram(),
            failure: None,
            nodes: Vec::new(),
            unanswered: 0,
            oldest_unanswered: Duration::ZERO,
        }
    }

    fn clear(&mut self) {
        self.counts = Counts::default();
        clear(&mut self.response);
        clear(&mut self.service);
        // A second without failures is followed by others as a rule, and gives its room back.
        self.failure = self.failure.take().filter(|failure| !failure.is_empty());
        if let Some(failure) = &mut self.failure {
            failure.reset();
        }
        self.nodes.fill(0);
        self.unanswered = 0;
        self.oldest_unanswered = Duration::ZERO;
    }

    /// Counts what went to and fro in one attempt. Documents that a bulk request got through count, though it failed.
    #[inline]
    fn exchanged(&mut self, reply: &Reply, in_window: bool) {
        let counts = &mut self.counts;
        counts.bytes_sent += reply.bytes_sent;
        counts.bytes_received += reply.bytes_received;
        counts.documents += reply.documents;
        counts.completed_documents += if in_window { reply.documents } else { 0 };
        let node = usize::from(reply.node);
        grow(&mut self.nodes, node + 1);
        self.nodes[node] += 1;
    }

    fn fail(&mut self, duration: Duration) {
        record(self.failure.get_or_insert_with(histogram), duration);
    }

    /// What was timed, by the name that it has in the records.
    pub fn measures(&self) -> [(&'static str, Option<&Histogram<u64>>); 3] {
        [("response", Some(&self.response)), ("service", Some(&self.service)), ("failure", self.failure.as_ref())]
    }

    /// Adds another's; exact, since the layouts are equal.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.response.add(&other.response).expect("layouts are equal");
        self.service.add(&other.service).expect("layouts are equal");
        if let Some(failure) = &other.failure {
            self.failure.get_or_insert_with(histogram).add(failure).expect("layouts are equal");
        }
        self.unanswered += other.unanswered;
        self.oldest_unanswered = self.oldest_unanswered.max(other.oldest_unanswered);
        grow(&mut self.nodes, other.nodes.len());
        for (mine, theirs) in self.nodes.iter_mut().zip(&other.nodes) {
            *mine += theirs;
        }
    }
}

/// An error's own words, of which the first few are kept.
#[derive(Clone, Debug)]
pub struct Message {
    /// Index of the stream's operation.
    pub slot: usize,
    /// The class it was counted under.
    pub class: ErrorClass,
    /// The store's words, or the system's.
    pub text: String,
}

/// What one worker recorded in one second.
pub struct Interval {
    /// The worker's number in its process.
    pub worker: usize,
    /// Seconds since the phase began.
    pub second: u64,
    /// Two cells for each stream's operation: warm-up, measurement. `None` where nothing ever happened.
    pub cells: Vec<Option<Box<Cell>>>,
    /// Which cells hold anything in this second.
    pub used: Vec<bool>,
    /// The worker itself.
    pub watch: Watch,
    /// Some errors' words.
    pub messages: Vec<Message>,
}

impl Interval {
    /// One for `slots` operations of worker number `worker`, in which nothing has happened.
    pub fn new(worker: usize, slots: usize) -> Self {
        let cells = 2 * slots;
        Self {
            worker,
            second: 0,
            cells: (0..cells).map(|_| None).collect(),
            used: vec![false; cells],
            watch: Watch::new(),
            messages: Vec::new(),
        }
    }

    /// Makes room for another second. It touches all that was recorded, so it is no work for a thread that sends.
    pub fn clear(&mut self) {
        for (cell, used) in self.cells.iter_mut().zip(&mut self.used) {
            match cell {
                Some(cell) if *used => cell.clear(),
                // Nothing happened there for a second, as with the warm-up's cells when it is over: 370 kB given back.
                _ => *cell = None,
            }
            *used = false;
        }
        self.watch.clear();
        self.messages.clear();
    }
}

/// What the stream knows of a request.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// When it was due.
    pub scheduled: Instant,
    /// When its client turned to it.
    pub started: Instant,
    /// Where the stream's measured window ends, if the clock ends it.
    pub ends: Option<Instant>,
}

/// A worker's recorder.
pub struct Recorder {
    measured_from: Instant,
    /// Kept beside the interval, so that a recording is two comparisons away from its cell.
    second_ends: Instant,
    interval: Interval,
    finished: Sender<Interval>,
    empty: Receiver<Interval>,
    watcher: Watcher,
}

impl Recorder {
    /// A recorder for `slots` operations (over all streams) of a phase that began at `start`; each operation's parts
    /// have the slots behind it.
    pub fn new(
        worker: usize,
        slots: usize,
        start: Instant,
        warmup: Duration,
        finished: Sender<Interval>,
        empty: Receiver<Interval>,
    ) -> Self {
        Self {
            measured_from: start + warmup,
            second_ends: start + Duration::from_secs(1),
            interval: Interval::new(worker, slots),
            finished,
            empty,
            watcher: Watcher::new(start),
        }
    }

    /// Writes down a request, which still stands among those that are `waiting`. It counts in the second in which it was
    /// done, and belongs to the segment in which it was scheduled; `ends` is where its stream's measured window ends, if
    /// the clock ends it.
    #[inline]
    pub fn request(&mut self, slot: usize, times: Times, reply: Reply, waiting: &Waiting) {
        let Times { scheduled, started, ends } = times;
        self.turn(reply.done, waiting);
        let in_window = self.in_window(reply.done, ends);
        record(&mut self.interval.watch.lateness, started.saturating_duration_since(scheduled));
        let cell = self.cell(slot, scheduled);
        cell.exchanged(&reply, in_window);
        let counts = &mut cell.counts;
        counts.requests += 1;
        counts.completed += u64::from(in_window && reply.outcome.is_ok());
        if let Some(recall) = reply.recall {
            counts.relevant += recall.relevant;
            counts.relevant_found += recall.found;
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
                self.keep(slot, failure);
            }
        }
        for part in &reply.parts {
            self.part(slot + 1 + part.name, times, part);
        }
    }

    /// Writes down an attempt that failed and is made again. Its bytes, its host, its words and the documents that it got
    /// through count; the request itself counts when its last attempt has ended.
    pub fn attempt(&mut self, slot: usize, times: Times, reply: Reply, waiting: &Waiting) {
        self.turn(reply.done, waiting);
        let in_window = self.in_window(reply.done, times.ends);
        let cell = self.cell(slot, times.scheduled);
        cell.counts.retries += 1;
        cell.exchanged(&reply, in_window);
        if let Err(failure) = reply.outcome {
            self.keep(slot, failure);
        }
    }

    /// Keeps a failure's words, if there are not enough of the like in this second.
    fn keep(&mut self, slot: usize, failure: Failure) {
        let messages = &mut self.interval.messages;
        if messages.iter().filter(|m| m.slot == slot && m.class == failure.class).count() < MESSAGES {
            messages.push(Message { slot, class: failure.class, text: failure.message });
        }
    }

    /// Whether an instant lies in the measured window of a stream that ends then, if the clock ends it.
    fn in_window(&self, done: Instant, ends: Option<Instant>) -> bool {
        done >= self.measured_from && ends.is_none_or(|ends| done < ends)
    }

    /// Writes down a part of the request that was just written down, in the same second and segment. Its slot is behind
    /// that of its operation.
    fn part(&mut self, slot: usize, Times { scheduled, ends, .. }: Times, part: &Part) {
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

    /// Writes down a request that was due and not sent.
    pub fn dropped(&mut self, slot: usize, scheduled: Instant, now: Instant, waiting: &Waiting) {
        self.turn(now, waiting);
        self.cell(slot, scheduled).counts.dropped += 1;
    }

    /// Writes down the looks at itself that were due by `now`, of which only this one happened, and turns to the next
    /// second where nothing else does. Returns when the next look is due.
    pub fn look(&mut self, now: Instant, waiting: &Waiting) -> Instant {
        self.turn(now, waiting);
        self.watcher.look(now, &mut self.interval.watch)
    }

    /// Hands over what there is of the last second; the collector waits for more until the recorder is dropped.
    pub fn finish(&mut self, now: Instant, waiting: &Waiting) {
        self.turn(now, waiting);
        self.hand_over(now, now, waiting);
    }

    #[inline]
    fn cell(&mut self, slot: usize, scheduled: Instant) -> &mut Cell {
        let index = 2 * slot + usize::from(scheduled >= self.measured_from);
        self.interval.used[index] = true;
        self.interval.cells[index].get_or_insert_with(|| Box::new(Cell::new()))
    }

    /// Hands over each second that has ended by `now`.
    #[inline]
    fn turn(&mut self, now: Instant, waiting: &Waiting) {
        while now >= self.second_ends {
            let ended = self.second_ends;
            self.hand_over(ended, now, waiting);
            self.second_ends = ended + Duration::from_secs(1);
        }
    }

    /// Hands over the second that `ended`, as it is seen `now`.
    fn hand_over(&mut self, ended: Instant, now: Instant, waiting: &Waiting) {
        let mut in_flight = 0;
        for &(slot, scheduled) in waiting.iter().flatten().filter(|(_, scheduled)| *scheduled < ended) {
            in_flight += 1;
            let cell = self.cell(slot, scheduled);
            cell.unanswered += 1;
            cell.oldest_unanswered = cell.oldest_unanswered.max(ended - scheduled);
        }
        self.interval.watch.in_flight = in_flight;
        self.watcher.second(ended, now, &mut self.interval.watch);
        let (worker, second) = (self.interval.worker, self.interval.second);
        let mut next = self.empty.try_recv().unwrap_or_else(|_| Interval::new(worker, self.interval.cells.len() / 2));
        next.second = second + 1;
        let full = std::mem::replace(&mut self.interval, next);
        // The collector is gone only when its files failed, which it reports itself.
        let _ = self.finished.send(full);
    }
}

/// Empties a histogram; one that is empty already is not touched, which spares 180 kB of memory traffic.
pub(crate) fn clear(histogram: &mut Histogram<u64>) {
    if !histogram.is_empty() {
        histogram.reset();
    }
}

fn grow(counts: &mut Vec<u64>, len: usize) {
    if counts.len() < len {
        counts.resize(len, 0);
    }
}

#[cfg(test)]
mod tests;
