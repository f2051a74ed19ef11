//! Running totals of a phase, progress for display, and the conditions that end the phase early.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::ingest::SourceStats;
use crate::plan::{Condition, Metric, Plan};
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
        let (mut dropped, mut oldest) = (0, 0.0_f64);
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
        for (condition, seconds) in &mut self.conditions {
            let figure = match condition.metric {
                Metric::ErrorShare => errors,
                // In a second without an answer, the age of the oldest request is a lower bound of its
                // response time.
                Metric::ResponseP99 if self.response.is_empty() => oldest,
                Metric::ResponseP99 => self.response.value_at_quantile(0.99) as f64 / 1e9,
                Metric::Dropped => dropped as f64,
            };
            *seconds = if figure > condition.above { *seconds + 1 } else { 0 };
            if *seconds >= condition.seconds {
                self.totals.stopped_by.get_or_insert_with(|| condition.clone());
            }
        }
        shown.response = (self.response.value_at_quantile(0.5), self.response.value_at_quantile(0.99));
        *self.progress.lock().expect("no thread panics while it holds the lock") = shown;
    }
}
