//! Running totals of a phase, progress for display, and the conditions that end the phase early.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ingest::SourceStats;
use crate::plan::{Condition, Metric, Pacing, Plan};
use crate::recording::durations::{clear, histogram};
use crate::recording::measures::{PlannedLoad, SharedMeasures};
use crate::recording::recorder::{Counts, DeadlineCounts, Interval, MESSAGES, Message};
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
    /// Requests in flight at the end of the last second.
    pub in_flight: u64,
    /// Age of the oldest of these requests, since it was scheduled; 0 without any.
    pub oldest_in_flight: Duration,
    /// Requests of each operation so far, by name, over all streams.
    pub operations: BTreeMap<String, Requests>,
    /// Statistics of the sources, by name.
    pub sources: BTreeMap<String, SourceStats>,
}

/// Requests of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Finished or dropped requests.
    pub due: u64,
    /// Failed or dropped requests.
    pub failed: u64,
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
    conditions: Vec<Watched>,
    open: Vec<OpenLoad>,
    /// See [`Plan::deadlines`].
    deadlines: Vec<Duration>,
    /// End of the warm-up, and of the phase if it ends before its planned end; after the phase's start.
    pub window: (Duration, Option<Duration>),
    progress: Shown,
    /// Measures for monitoring systems.
    pub measures: SharedMeasures,
    loads: Vec<PlannedLoad>,
    response: hdrhistogram::Histogram<u64>,
    /// The totals so far.
    pub totals: Totals,
}

impl Tally {
    /// Creates empty totals, with the conditions of `plan`. `progress`: updated every second.
    pub fn new(plan: &Plan, slots: Vec<Slot>, progress: Shown) -> Self {
        let watched = |condition: &Condition| {
            let condition = condition.clone();
            Watched { condition, met: 0, recent: VecDeque::new() }
        };
        Self {
            totals: Totals { counts: vec![Default::default(); slots.len()], messages: Vec::new(), stopped_by: None },
            slots,
            conditions: plan.stop_when.iter().map(watched).collect(),
            open: open_loads(plan),
            deadlines: plan.deadlines(),
            window: (plan.warmup, None),
            progress,
            measures: SharedMeasures::default(),
            loads: PlannedLoad::of(plan),
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

    /// Adds the next second to the totals, the measures and the displayed progress. Sets `totals.stopped_by` if a
    /// condition of the plan is met now.
    pub fn second(&mut self, sum: &Interval) {
        let mut shown = Progress { seconds: sum.second + 1, ..shown(&self.progress) };
        (shown.throughput, shown.documents_throughput) = (0, 0);
        (shown.in_flight, shown.oldest_in_flight) = (0, Duration::ZERO);
        clear(&mut self.response);
        let mut dropped = 0;
        let before = (shown.requests, shown.errors);
        for (slot, measured, cell) in sum.used_cells() {
            self.totals.counts[slot][usize::from(measured)].add(&cell.counts);
            if !self.slots[slot].counts() {
                // Count each request once: skip parts and timed groups.
                continue;
            }
            let Counts { requests, successes, dropped: unsent, .. } = cell.counts;
            let of_operation = shown.operations.entry(self.slots[slot].operation.clone()).or_default();
            of_operation.due += requests + unsent;
            of_operation.failed += requests - successes + unsent;
            shown.requests += requests;
            shown.errors += requests - successes;
            shown.documents += cell.counts.documents;
            dropped += unsent;
            shown.in_flight += cell.unanswered;
            shown.oldest_in_flight = shown.oldest_in_flight.max(cell.oldest_unanswered);
            shown.throughput += cell.counts.successes;
            shown.documents_throughput += cell.counts.documents;
            self.response.add(&cell.response).expect("layouts are equal");
        }
        for message in &sum.messages {
            message.clone().add_to(&mut self.totals.messages, MESSAGES);
        }
        let requests = shown.requests - before.0;
        let errors = (requests > 0).then(|| (shown.errors - before.1) as f64 / requests as f64);
        let oldest = shown.oldest_in_flight.as_secs_f64();
        let decided = if self.deadlines.is_empty() { None } else { self.decided(sum) };
        for watched in &mut self.conditions {
            let (condition, mut needed) = (&watched.condition, watched.condition.seconds);
            // A second without a figure neither meets the condition nor resets it.
            let figure = match condition.metric {
                Metric::ErrorShare => errors,
                // In a second without an answer, the age of the oldest request is a lower bound of its response
                // time: a short one shows nothing.
                Metric::ResponseP99 if self.response.is_empty() => Some(oldest).filter(|age| *age > condition.above),
                Metric::ResponseP99 => Some(self.response.value_at_quantile(0.99) as f64 / 1e9),
                Metric::Dropped => (requests + dropped > 0).then_some(dropped as f64),
                Metric::MissedShare => {
                    // The share covers the last seconds together.
                    needed = 1;
                    let deadline = Duration::from_secs(condition.seconds);
                    let index = self.deadlines.iter().position(|other| *other == deadline);
                    let counts = decided.as_ref().zip(index).map(|(decided, index)| decided[index]);
                    Some(counts.map_or(0.0, |counts| watched.missed_share(counts)))
                }
            };
            if let Some(figure) = figure {
                watched.met = if figure > watched.condition.above { watched.met + 1 } else { 0 };
            }
            if watched.met >= needed {
                self.totals.stopped_by.get_or_insert_with(|| watched.condition.clone());
            }
        }
        shown.response = (self.response.value_at_quantile(0.5), self.response.value_at_quantile(0.99));
        *self.progress.lock().expect("no thread panics while it holds the lock") = shown;
        self.measures.second(&self.slots, &self.loads, sum);
    }

    /// Returns how many requests of the open streams met and missed each deadline in a second, in the deadlines' order.
    /// Counts streams whose measured window covers the second; `None` if there are none. A dropped request misses each
    /// deadline.
    fn decided(&self, sum: &Interval) -> Option<Vec<DeadlineCounts>> {
        let open = |stream: &str| {
            let load = self.open.iter().find(|load| load.stream == stream);
            load.filter(|load| load.covers(sum.second, self.window))
        };
        if !self.open.iter().any(|load| load.covers(sum.second, self.window)) {
            return None;
        }
        let mut decided = vec![DeadlineCounts::default(); self.deadlines.len()];
        for (slot, measured, cell) in sum.used_cells() {
            let slot = &self.slots[slot];
            let Some(load) = open(&slot.stream).filter(|_| measured && slot.counts()) else { continue };
            DeadlineCounts::add_all(&mut decided, &cell.deadlines);
            // A dropped journey is recorded once, and misses all of its requests.
            decided.iter_mut().for_each(|counts| counts.missed += cell.counts.dropped * load.steps);
        }
        Some(decided)
    }
}

/// A condition of the plan, and the seconds in which it was met.
struct Watched {
    condition: Condition,
    /// Consecutive seconds with a figure, up to the last.
    met: u64,
    /// Requests of the last seconds of the window, for a share of missed requests.
    recent: VecDeque<DeadlineCounts>,
}

impl Watched {
    /// Adds the requests of a second; returns the share, 0 to 1, that missed the deadline in the last seconds.
    /// The condition gives the number of these seconds. Returns 0 while there are fewer.
    fn missed_share(&mut self, counts: DeadlineCounts) -> f64 {
        self.recent.push_back(counts);
        if (self.recent.len() as u64) < self.condition.seconds {
            return 0.0;
        }
        while self.recent.len() as u64 > self.condition.seconds {
            self.recent.pop_front();
        }
        let (met, missed) = self.recent.iter().fold((0, 0), |sum, one| (sum.0 + one.met, sum.1 + one.missed));
        missed as f64 / (met + missed).max(1) as f64
    }
}

/// An open stream.
struct OpenLoad {
    stream: String,
    /// Requests of an iteration.
    steps: u64,
    /// Length of its window, if the clock ends it.
    lasts: Option<Duration>,
}

impl OpenLoad {
    /// Returns whether its measured window covers the whole second. `window`: end of the warm-up, and of the
    /// phase if known.
    fn covers(&self, second: u64, (warmup, ended): (Duration, Option<Duration>)) -> bool {
        let planned = self.lasts.map_or(Duration::MAX, |lasts| warmup + lasts);
        let ends = planned.min(ended.unwrap_or(Duration::MAX));
        Duration::from_secs(second) >= warmup && Duration::from_secs(second + 1) <= ends
    }
}

/// Returns the open-loop streams of a plan.
fn open_loads(plan: &Plan) -> Vec<OpenLoad> {
    let streams = plan.streams.iter().enumerate();
    let open = streams.filter(|(_, stream)| matches!(stream.pacing, Pacing::Open { .. }));
    open.map(|(index, stream)| OpenLoad {
        stream: stream.name.clone(),
        steps: stream.journey.len().max(1) as u64,
        lasts: plan.clock(index),
    })
    .collect()
}

#[cfg(test)]
mod tests;
