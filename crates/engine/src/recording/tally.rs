//! Running totals of a phase, progress for display, and the conditions that end the phase early.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ingest::SourceStats;
use crate::pacing::profile::Profile;
use crate::plan::{Condition, Metric, Pacing, Plan, Stop};
use crate::recording::durations::{clear, histogram};
use crate::recording::recorder::{Counts, Interval, MESSAGES, Message};
use crate::recording::slot::Slot;

/// Progress of a phase, for display.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Seconds recorded so far.
    pub seconds: u64,
    /// Requests of the phase so far, warm-up included.
    pub requests: u64,
    /// Failed requests.
    pub errors: u64,
    /// Documents stored or returned.
    pub documents: u64,
    /// Successes in the last second.
    pub throughput: u64,
    /// Documents in the last second.
    pub documents_throughput: u64,
    /// 50th and 99th percentile of the last second's response times, nanoseconds.
    pub response: (u64, u64),
    /// Statistics of the sources, by name.
    pub sources: BTreeMap<String, SourceStats>,
}

/// Progress shared with its readers.
pub type Shown = Arc<Mutex<Progress>>;

/// Returns a copy of the progress.
pub fn shown(progress: &Shown) -> Progress {
    progress.lock().expect("no thread panics while it holds the lock").clone()
}

/// Totals of a phase when all workers have ended.
#[derive(Debug)]
pub struct Totals {
    /// Counts of the warm-up and of the measured segment, by slot.
    pub counts: Vec<[Counts; 2]>,
    /// Messages of failures by operation, segment and error class.
    pub messages: Vec<Message>,
    /// The condition that ended the phase, if one did.
    pub stopped_by: Option<Condition>,
}

/// Totals of a phase, updated every second.
pub struct Tally {
    slots: Vec<Slot>,
    /// Conditions, each with the number of consecutive seconds in which it was met.
    conditions: Vec<(Condition, u64)>,
    offered: Vec<OpenLoad>,
    /// Offered and successful requests of the open streams in the last seconds, for conditions on them.
    rates: VecDeque<(f64, u64)>,
    /// End of the warm-up, and of the phase if it ends before its planned end; after the phase's start.
    pub window: (Duration, Option<Duration>),
    progress: Shown,
    response: hdrhistogram::Histogram<u64>,
    /// The totals so far.
    pub totals: Totals,
}

impl Tally {
    /// Creates empty totals, with the conditions of `plan`.
    pub fn new(plan: &Plan, slots: Vec<Slot>, progress: Shown) -> Self {
        Self {
            totals: Totals { counts: vec![Default::default(); slots.len()], messages: Vec::new(), stopped_by: None },
            slots,
            conditions: plan.stop_when.iter().map(|condition| (condition.clone(), 0)).collect(),
            offered: offered(plan),
            rates: VecDeque::new(),
            window: (plan.warmup, None),
            progress,
            response: histogram(),
        }
    }

    /// Creates empty totals without conditions, for a rank that sees only its share.
    pub fn of_a_share(plan: &Plan, slots: Vec<Slot>, progress: Shown) -> Self {
        Self { conditions: Vec::new(), ..Self::new(plan, slots, progress) }
    }

    /// Returns the phase's slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Adds the next second.
    pub fn second(&mut self, sum: &Interval) {
        let mut shown = Progress { seconds: sum.second + 1, ..shown(&self.progress) };
        (shown.throughput, shown.documents_throughput) = (0, 0);
        clear(&mut self.response);
        let (mut dropped, mut oldest, mut successes) = (0, 0.0_f64, 0);
        let before = (shown.requests, shown.errors);
        for (slot, measured, cell) in sum.used_cells() {
            self.totals.counts[slot][usize::from(measured)].add(&cell.counts);
            if !self.slots[slot].counts() {
                // Count each request once: skip parts and timed groups.
                continue;
            }
            shown.requests += cell.counts.requests;
            shown.errors += cell.counts.requests - cell.counts.successes;
            shown.documents += cell.counts.documents;
            dropped += cell.counts.dropped;
            if self.offered.iter().any(|load| load.stream == self.slots[slot].stream) {
                successes += cell.counts.successes;
            }
            oldest = oldest.max(cell.oldest_unanswered.as_secs_f64());
            shown.throughput += cell.counts.successes;
            shown.documents_throughput += cell.counts.documents;
            self.response.add(&cell.response).expect("layouts are equal");
        }
        for message in &sum.messages {
            message.clone().add_to(&mut self.totals.messages, MESSAGES);
        }
        let requests = shown.requests - before.0;
        let errors = if requests > 0 { (shown.errors - before.1) as f64 / requests as f64 } else { 0.0 };
        self.add_rates(sum.second, successes);
        for (condition, seconds) in &mut self.conditions {
            let figure = match condition.metric {
                Metric::ErrorShare => errors,
                // In a second without an answer, the age of the oldest request is a lower bound of its
                // response time.
                Metric::ResponseP99 if self.response.is_empty() => oldest,
                Metric::ResponseP99 => self.response.value_at_quantile(0.99) as f64 / 1e9,
                Metric::Dropped => dropped as f64,
                Metric::MissedShare => {
                    let last = self.rates.iter().rev().take(condition.seconds as usize);
                    let (due, done) = last.fold((0.0, 0), |(due, done), rate| (due + rate.0, done + rate.1));
                    let enough = self.rates.len() as u64 >= condition.seconds && due > 0.0;
                    // All of these seconds count together.
                    *seconds = condition.seconds;
                    if enough { 1.0 - done as f64 / due } else { 0.0 }
                }
            };
            *seconds = if figure > condition.above { *seconds + 1 } else { 0 };
            if *seconds >= condition.seconds {
                self.totals.stopped_by.get_or_insert_with(|| condition.clone());
            }
        }
        shown.response = (self.response.value_at_quantile(0.5), self.response.value_at_quantile(0.99));
        *self.progress.lock().expect("no thread panics while it holds the lock") = shown;
    }

    /// Adds the offered and successful requests of a second of the measured window.
    fn add_rates(&mut self, second: u64, successes: u64) {
        let metrics = self.conditions.iter().filter(|(condition, _)| matches!(condition.metric, Metric::MissedShare));
        let Some(longest) = metrics.map(|(condition, _)| condition.seconds as usize).max() else { return };
        let (warmup, ended) = self.window;
        if Duration::from_secs(second) >= warmup {
            let ends = ended.unwrap_or(Duration::MAX);
            self.rates.push_back((self.offered.iter().map(|load| load.due(second, warmup, ends)).sum(), successes));
        }
        while self.rates.len() > longest {
            self.rates.pop_front();
        }
    }
}

/// Offered load of an open stream.
struct OpenLoad {
    stream: String,
    /// Iterations per second.
    profile: Profile,
    /// Requests of an iteration.
    steps: u64,
    /// Length of its window, if the clock ends it.
    lasts: Option<Duration>,
    /// Maximum number of its requests.
    most: f64,
}

impl OpenLoad {
    /// Returns the requests due in a second; 0 unless its window covers the whole second.
    fn due(&self, second: u64, warmup: Duration, ends: Duration) -> f64 {
        let planned = self.lasts.map_or(Duration::MAX, |lasts| warmup + lasts);
        if Duration::from_secs(second + 1) > planned.min(ends) {
            return 0.0;
        }
        let until = |time: u64| (self.profile.integral(time as f64) * self.steps as f64).min(self.most);
        until(second + 1) - until(second)
    }
}

/// Returns the offered load of the open streams whose end is known.
fn offered(plan: &Plan) -> Vec<OpenLoad> {
    let open = plan.streams.iter().enumerate().filter_map(|(index, stream)| {
        let Pacing::Open { rate, .. } = &stream.pacing else { return None };
        let most = match stream.stop {
            Stop::Exhausted => return None,
            Stop::Requests(requests) => requests as f64,
            _ => f64::INFINITY,
        };
        let (profile, steps) = (Profile::new(rate).ok()?, stream.journey.len().max(1) as u64);
        Some(OpenLoad { stream: stream.name.clone(), profile, steps, lasts: plan.clock(index), most })
    });
    open.collect()
}
