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
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn reply(sent: Instant, done: Instant, outcome: Result<(), Failure>) -> Reply {
        Reply {
            sent,
            done,
            outcome,
            bytes_sent: 10,
            bytes_received: 20,
            documents: 3,
            node: 1,
            parts: Vec::new(),
            rejected: Vec::new(),
        }
    }

    #[test]
    fn a_request_counts_in_its_second_and_in_the_segment_it_was_scheduled_in() {
        let (finished, intervals) = channel();
        let (_, empty) = channel();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut recorder = Recorder::new(0, 1, start, Duration::from_secs(1), finished, empty);
        let times = |ms| Times { scheduled: at(ms), started: at(ms), ends: Some(at(1250)) };
        recorder.request(0, times(100), reply(at(110), at(200), Ok(())), &[]);
        recorder.request(0, times(900), reply(at(900), at(1100), Ok(())), &[]);
        let failure = Failure { class: ErrorClass::Rejected, message: "busy".into(), items: 1 };
        recorder.request(0, times(1100), reply(at(1100), at(1200), Err(failure)), &[]);
        recorder.request(0, times(1200), reply(at(1200), at(1260), Ok(())), &[]);
        recorder.finish(at(1300), &[]);
        drop(recorder);
        let seconds: Vec<_> = intervals.iter().collect();
        assert_eq!(seconds.len(), 2);
        let warm = seconds[0].cells[0].as_ref().unwrap();
        assert_eq!(warm.counts.successes, 1);
        assert_eq!(warm.response.max() / 100, 1000, "response time runs from the scheduled instant");
        assert_eq!(warm.service.max() / 100, 900, "service time runs from the sent instant");
        assert_eq!(warm.nodes, [0, 1]);
        assert!(seconds[0].cells[1].is_none());
        let late_warm = seconds[1].cells[0].as_ref().unwrap();
        assert_eq!(late_warm.counts.successes, 1, "done after the warm-up, scheduled in it");
        let measured = seconds[1].cells[1].as_ref().unwrap();
        assert_eq!((measured.counts.requests, measured.counts.successes), (2, 1));
        assert_eq!((late_warm.counts.completed, measured.counts.completed), (1, 0), "by the instant they were done");
        assert_eq!(late_warm.counts.completed_documents, 3);
        assert_eq!(measured.counts.errors[ErrorClass::Rejected as usize], 1);
        assert_eq!(measured.response.len(), 1, "a failed request has no response time");
        assert_eq!(seconds[1].messages[0].text, "busy");
    }

    #[test]
    fn a_part_is_written_down_behind_its_operation_with_the_time_between_its_own_instants() {
        let (finished, intervals) = channel();
        let (_, empty) = channel();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut recorder = Recorder::new(0, 3, start, Duration::ZERO, finished, empty);
        let times = Times { scheduled: at(0), started: at(0), ends: Some(at(850)) };
        let part = |name, sent, done, failed| Part { name, sent: at(sent), done: at(done), documents: 4, failed };
        let failure = Failure { class: ErrorClass::Server, message: "lost".into(), items: 1 };
        let parts = vec![
            part(0, 100, 300, None),
            part(1, 300, 800, None),
            part(1, 800, 900, None),
            part(1, 900, 950, Some(ErrorClass::Server)),
        ];
        recorder.request(0, times, Reply { parts, ..reply(at(100), at(950), Err(failure)) }, &[]);
        recorder.finish(at(990), &[]);
        drop(recorder);
        let second = intervals.recv().unwrap();
        let cell = |slot: usize| second.cells[2 * slot + 1].as_ref().unwrap();
        assert_eq!((cell(0).counts.requests, cell(0).counts.successes), (1, 0));
        assert_eq!((cell(1).counts.requests, cell(1).service.max() / 100), (1, 2000));
        assert_eq!(cell(1).response, cell(1).service, "a part has no schedule of its own");
        let pages = &cell(2).counts;
        assert_eq!((pages.requests, pages.successes, pages.documents, pages.completed), (3, 2, 12, 1));
        assert_eq!(pages.errors[ErrorClass::Server as usize], 1);
        assert_eq!(cell(2).service.len(), 2, "a failed part has no service time");
    }

    #[test]
    fn seconds_without_requests_are_handed_over_too() {
        let (finished, intervals) = channel();
        let (_, empty) = channel();
        let start = Instant::now();
        let mut recorder = Recorder::new(0, 1, start, Duration::ZERO, finished, empty);
        recorder.look(start + Duration::from_millis(3500), &[]);
        recorder.finish(start + Duration::from_millis(3600), &[]);
        drop(recorder);
        assert_eq!(intervals.iter().map(|i| i.second).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_failure_has_a_time_too_and_an_attempt_that_is_made_again_leaves_what_it_cost() {
        let (finished, intervals) = channel();
        let (_, empty) = channel();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut recorder = Recorder::new(0, 1, start, Duration::ZERO, finished, empty);
        let times = Times { scheduled: at(100), started: at(100), ends: None };
        let failed = |message: &str| Err(Failure { class: ErrorClass::Rejected, message: message.into(), items: 1 });
        recorder.attempt(0, times, reply(at(100), at(200), failed("first")), &[]);
        recorder.request(0, times, Reply { node: 0, ..reply(at(200), at(600), failed("second")) }, &[]);
        recorder.finish(at(700), &[]);
        let second = intervals.recv().unwrap();
        let cell = second.cells[1].as_ref().unwrap();
        assert_eq!((cell.counts.requests, cell.counts.retries, cell.counts.errors[2]), (1, 1, 1));
        assert_eq!((cell.counts.bytes_sent, cell.counts.bytes_received, cell.counts.documents), (20, 40, 6));
        assert_eq!(cell.nodes, [1, 1], "each attempt at the host that served it");
        assert_eq!(second.messages.iter().map(|m| m.text.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        let failure = cell.failure.as_ref().unwrap();
        assert_eq!((failure.len(), failure.max() / 1000), (1, 500), "done - scheduled of the request, retries inside");
        assert!(cell.response.is_empty());
    }

    #[test]
    fn what_waits_belongs_to_each_second_that_ends_meanwhile_even_if_nothing_was_done_in_it() {
        let (finished, intervals) = channel();
        let (_, empty) = channel();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut recorder = Recorder::new(0, 2, start, Duration::from_secs(1), finished, empty);
        // One of the warm-up, two of the measurement, one that is free, one of the other operation.
        let waiting = [Some((0, at(400))), Some((0, at(1200))), Some((0, at(1500))), None, Some((1, at(2300)))];
        recorder.look(at(3100), &waiting);
        recorder.finish(at(3500), &waiting[..1]);
        drop(recorder);
        let seconds: Vec<_> = intervals.iter().collect();
        let of = |second: usize, index: usize| {
            let (cell, used) = (&seconds[second].cells[index], seconds[second].used[index]);
            cell.as_ref().filter(|_| used).map(|cell| (cell.unanswered, cell.oldest_unanswered.as_millis()))
        };
        assert_eq!(
            (0..4).map(|second| of(second, 0)).collect::<Vec<_>>(),
            [Some((1, 600)), Some((1, 1600)), Some((1, 2600)), Some((1, 3100)),]
        );
        assert_eq!(
            (0..4).map(|second| of(second, 1)).collect::<Vec<_>>(),
            [None, Some((2, 800)), Some((2, 1800)), None,]
        );
        assert_eq!(of(2, 3), Some((1, 700)));
        assert_eq!(seconds.iter().map(|second| second.watch.in_flight).collect::<Vec<_>>(), [1, 3, 4, 1]);
        let mut sum = seconds[1].cells[1].clone().unwrap();
        sum.add(seconds[2].cells[1].as_ref().unwrap());
        assert_eq!((sum.unanswered, sum.oldest_unanswered), (4, Duration::from_millis(1800)), "sum and greatest");
    }

    #[test]
    fn the_request_that_shows_that_a_second_has_ended_was_in_flight_at_its_end() {
        let (finished, intervals) = channel();
        let (_, empty) = channel();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut recorder = Recorder::new(0, 1, start, Duration::ZERO, finished, empty);
        let times = Times { scheduled: at(900), started: at(900), ends: None };
        recorder.request(0, times, reply(at(900), at(1100), Ok(())), &[Some((0, at(900))), Some((0, at(1050)))]);
        let second = intervals.recv().unwrap();
        let cell = second.cells[1].as_ref().unwrap();
        assert_eq!((cell.counts.requests, cell.unanswered), (0, 1));
        assert_eq!(cell.oldest_unanswered, Duration::from_millis(100));
    }

    #[test]
    fn a_second_is_cleared_before_it_is_filled_again() {
        let start = Instant::now();
        let mut interval = Interval::new(0, 1);
        let mut cell = Cell::new();
        cell.fail(Duration::from_secs(1));
        cell.exchanged(&reply(start, start, Ok(())), true);
        (cell.unanswered, cell.oldest_unanswered) = (3, Duration::from_secs(2));
        record(&mut cell.response, Duration::from_secs(1));
        interval.cells[1] = Some(Box::new(cell));
        interval.used[1] = true;
        record(&mut interval.watch.lag, Duration::from_secs(1));
        interval.clear();
        let cell = interval.cells[1].as_ref().unwrap();
        assert_eq!((&cell.counts, cell.nodes.as_slice()), (&Counts::default(), &[0, 0][..]));
        assert!(cell.measures().iter().all(|(_, histogram)| histogram.is_none_or(|histogram| histogram.is_empty())));
        assert_eq!((cell.unanswered, cell.oldest_unanswered), (0, Duration::ZERO));
        assert!(interval.watch.lag.is_empty() && !interval.used[1]);
        interval.clear();
        assert!(interval.cells[1].is_none(), "what was not used for a second gives its room back");
    }

    #[test]
    fn the_merge_of_eight_generators_records_equals_the_record_of_all_they_saw() {
        let mut parts = vec![Cell::new(); 8];
        let mut whole = Cell::new();
        for k in 0..10_000 {
            let draw = crate::draw::Draw::new(3, 1, k);
            let (response, service) = (draw.bits(1) % 4_000_000_000, draw.bits(2) % 50_000);
            for cell in [&mut parts[k as usize % 8], &mut whole] {
                cell.counts.requests += 1;
                cell.counts.errors[(k % 7) as usize] += k % 2;
                record(&mut cell.response, Duration::from_micros(response));
                record(&mut cell.service, Duration::from_micros(service));
            }
        }
        let mut merged = Cell::new();
        for part in &parts {
            merged.add(part);
        }
        assert_eq!(merged.counts, whole.counts);
        assert_eq!((merged.response, merged.service), (whole.response, whole.service));
    }
}
