//! What one worker writes down: counts and histograms of the current second, per stream and operation.
//!
//! A worker owns its recorder: recording is two histogram increments and a few additions, with no lock, no channel
//! and no allocation. Once a second the finished [`Interval`] goes to the collector and an empty one comes back.

use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::driver::{ErrorClass, Part, Reply};

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
    /// Bytes written, all requests.
    pub bytes_sent: u64,
    /// Bytes read, all requests.
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
    /// Requests by the host that served them.
    pub nodes: Vec<u64>,
}

impl Cell {
    fn new() -> Self {
        Self { counts: Counts::default(), response: histogram(), service: histogram(), nodes: Vec::new() }
    }

    fn clear(&mut self) {
        self.counts = Counts::default();
        self.response.reset();
        self.service.reset();
        self.nodes.fill(0);
    }

    /// Adds another's; exact, since the layouts are equal.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.response.add(&other.response).expect("layouts are equal");
        self.service.add(&other.service).expect("layouts are equal");
        grow(&mut self.nodes, other.nodes.len());
        for (mine, theirs) in self.nodes.iter_mut().zip(&other.nodes) {
            *mine += theirs;
        }
    }
}

/// What a worker saw of itself in one second.
#[derive(Clone, Debug)]
pub struct Watch {
    /// CPU time of the worker's thread, seconds.
    pub cpu: f64,
    /// How long the thread was ready to run and did not, because others had the cores or its group's quota was used up.
    pub waited: f64,
    /// How long the second took, s: CPU share is `cpu / wall`.
    pub wall: f64,
    /// From the scheduled instant of a request to the instant at which its client turned to it.
    pub lateness: Histogram<u64>,
    /// How late the event loop woke a timer that is always there.
    pub lag: Histogram<u64>,
    /// Requests in flight at the second's end.
    pub in_flight: u64,
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
    fn new(worker: usize, cells: usize) -> Self {
        let watch = Watch { cpu: 0.0, waited: 0.0, wall: 0.0, lateness: histogram(), lag: histogram(), in_flight: 0 };
        Self {
            worker,
            second: 0,
            cells: (0..cells).map(|_| None).collect(),
            used: vec![false; cells],
            watch,
            messages: Vec::new(),
        }
    }

    fn clear(&mut self) {
        for (cell, used) in self.cells.iter_mut().zip(&mut self.used) {
            match cell {
                Some(cell) if *used => cell.clear(),
                // Nothing happened there for a second, as with the warm-up's cells when it is over: 370 kB given back.
                _ => *cell = None,
            }
            *used = false;
        }
        self.watch.lateness.reset();
        self.watch.lag.reset();
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
    /// Attempts beyond the first.
    pub retries: u64,
}

/// A worker's recorder.
pub struct Recorder {
    measured_from: Instant,
    /// Kept beside the interval, so that a recording is two comparisons away from its cell.
    second_ends: Instant,
    interval: Interval,
    finished: Sender<Interval>,
    empty: Receiver<Interval>,
    cpu: f64,
    waited: f64,
    turned: Instant,
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
            interval: Interval::new(worker, 2 * slots),
            finished,
            empty,
            cpu: thread_cpu(),
            waited: thread_waited(),
            turned: start,
        }
    }

    /// Writes down a request. It counts in the second in which it was done, and belongs to the segment in which it
    /// was scheduled; `ends` is where its stream's measured window ends, if the clock ends it.
    #[inline]
    pub fn request(&mut self, slot: usize, times: Times, reply: Reply, in_flight: u64) {
        let Times { scheduled, started, ends, retries } = times;
        self.turn(reply.done, in_flight);
        let in_window = reply.done >= self.measured_from && ends.is_none_or(|ends| reply.done < ends);
        record(&mut self.interval.watch.lateness, started.saturating_duration_since(scheduled));
        let cell = self.cell(slot, scheduled);
        let counts = &mut cell.counts;
        counts.requests += 1;
        counts.retries += retries;
        counts.completed += u64::from(in_window && reply.outcome.is_ok());
        counts.completed_documents += if in_window { reply.documents } else { 0 };
        counts.bytes_sent += reply.bytes_sent;
        counts.bytes_received += reply.bytes_received;
        let node = usize::from(reply.node);
        grow(&mut cell.nodes, node + 1);
        cell.nodes[node] += 1;
        match reply.outcome {
            Ok(()) => {
                counts.successes += 1;
                counts.documents += reply.documents;
                record(&mut cell.response, reply.done.saturating_duration_since(scheduled));
                record(&mut cell.service, reply.done.saturating_duration_since(reply.sent));
            }
            Err(failure) => {
                counts.errors[failure.class as usize] += 1;
                // Documents that a bulk request got through count, though the request failed.
                counts.documents += reply.documents;
                let messages = &mut self.interval.messages;
                let alike = messages.iter().filter(|m| m.slot == slot && m.class == failure.class).count();
                if alike < MESSAGES {
                    messages.push(Message { slot, class: failure.class, text: failure.message });
                }
            }
        }
        for part in &reply.parts {
            self.part(slot + 1 + part.name, times, part);
        }
    }

    /// Writes down a part of the request that was just written down, in the same second and segment. Its slot is behind
    /// that of its operation.
    fn part(&mut self, slot: usize, Times { scheduled, ends, .. }: Times, part: &Part) {
        let in_window = part.done >= self.measured_from && ends.is_none_or(|ends| part.done < ends);
        let cell = self.cell(slot, scheduled);
        let counts = &mut cell.counts;
        counts.requests += 1;
        counts.documents += part.documents;
        counts.completed += u64::from(in_window && part.failed.is_none());
        counts.completed_documents += if in_window { part.documents } else { 0 };
        match part.failed {
            None => {
                counts.successes += 1;
                let service = part.done.saturating_duration_since(part.sent);
                record(&mut cell.response, service);
                record(&mut cell.service, service);
            }
            Some(class) => counts.errors[class as usize] += 1,
        }
    }

    /// Writes down a request that was due and not sent.
    pub fn dropped(&mut self, slot: usize, scheduled: Instant, now: Instant, in_flight: u64) {
        self.turn(now, in_flight);
        self.cell(slot, scheduled).counts.dropped += 1;
    }

    /// Writes down how late the event loop woke its ticker; turns to the next second where nothing else does.
    pub fn lag(&mut self, lag: Duration, now: Instant, in_flight: u64) {
        self.turn(now, in_flight);
        record(&mut self.interval.watch.lag, lag);
    }

    /// Hands over what there is of the last second; the collector waits for more until the recorder is dropped.
    pub fn finish(&mut self, now: Instant, in_flight: u64) {
        self.turn(now, in_flight);
        self.hand_over(now, in_flight);
    }

    #[inline]
    fn cell(&mut self, slot: usize, scheduled: Instant) -> &mut Cell {
        let index = 2 * slot + usize::from(scheduled >= self.measured_from);
        self.interval.used[index] = true;
        self.interval.cells[index].get_or_insert_with(|| Box::new(Cell::new()))
    }

    /// Hands over each second that has ended by `now`.
    #[inline]
    fn turn(&mut self, now: Instant, in_flight: u64) {
        while now >= self.second_ends {
            let ended = self.second_ends;
            self.hand_over(ended, in_flight);
            self.second_ends = ended + Duration::from_secs(1);
        }
    }

    fn hand_over(&mut self, ended: Instant, in_flight: u64) {
        let (worker, second) = (self.interval.worker, self.interval.second);
        let mut next = self.empty.try_recv().unwrap_or_else(|_| Interval::new(worker, self.interval.cells.len()));
        next.clear();
        next.second = second + 1;
        let mut full = std::mem::replace(&mut self.interval, next);
        let cpu = thread_cpu();
        full.watch.cpu = cpu - std::mem::replace(&mut self.cpu, cpu);
        let waited = thread_waited();
        full.watch.waited = waited - std::mem::replace(&mut self.waited, waited);
        full.watch.wall = ended.saturating_duration_since(self.turned).as_secs_f64();
        self.turned = ended;
        full.watch.in_flight = in_flight;
        // The collector is gone only when its files failed, which it reports itself.
        let _ = self.finished.send(full);
    }
}

fn grow(counts: &mut Vec<u64>, len: usize) {
    if counts.len() < len {
        counts.resize(len, 0);
    }
}

/// CPU time of the calling thread, seconds.
fn thread_cpu() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live value; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// How long the calling thread has waited for a core since it began, seconds; 0 where the kernel does not count it.
fn thread_waited() -> f64 {
    // The second figure of schedstat is nanoseconds on a run queue (kernel documentation, sched-stats).
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|figure| figure.parse::<f64>().ok()).unwrap_or(0.0) * 1e-9
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::driver::Failure;

    fn reply(sent: Instant, done: Instant, outcome: Result<(), Failure>) -> Reply {
        Reply { sent, done, outcome, bytes_sent: 10, bytes_received: 20, documents: 3, node: 1, parts: Vec::new() }
    }

    #[test]
    fn a_request_counts_in_its_second_and_in_the_segment_it_was_scheduled_in() {
        let (finished, intervals) = channel();
        let (_, empty) = channel();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut recorder = Recorder::new(0, 1, start, Duration::from_secs(1), finished, empty);
        let times = |ms| Times { scheduled: at(ms), started: at(ms), ends: Some(at(1250)), retries: 0 };
        recorder.request(0, times(100), reply(at(110), at(200), Ok(())), 1);
        recorder.request(0, times(900), reply(at(900), at(1100), Ok(())), 1);
        let failure = Failure { class: ErrorClass::Rejected, message: "busy".into(), items: 1 };
        recorder.request(0, times(1100), reply(at(1100), at(1200), Err(failure)), 1);
        recorder.request(0, times(1200), reply(at(1200), at(1260), Ok(())), 1);
        recorder.finish(at(1300), 0);
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
        let times = Times { scheduled: at(0), started: at(0), ends: Some(at(850)), retries: 0 };
        let part = |name, sent, done, failed| Part { name, sent: at(sent), done: at(done), documents: 4, failed };
        let failure = Failure { class: ErrorClass::Server, message: "lost".into(), items: 1 };
        let parts = vec![
            part(0, 100, 300, None),
            part(1, 300, 800, None),
            part(1, 800, 900, None),
            part(1, 900, 950, Some(ErrorClass::Server)),
        ];
        recorder.request(0, times, Reply { parts, ..reply(at(100), at(950), Err(failure)) }, 0);
        recorder.finish(at(990), 0);
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
        recorder.lag(Duration::ZERO, start + Duration::from_millis(3500), 0);
        recorder.finish(start + Duration::from_millis(3600), 0);
        drop(recorder);
        assert_eq!(intervals.iter().map(|i| i.second).collect::<Vec<_>>(), [0, 1, 2, 3]);
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
