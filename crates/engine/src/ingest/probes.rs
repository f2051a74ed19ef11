//! Visibility probes: acknowledged events that are polled until a query finds them. `sampler`
//! selects them.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::Disposition;
use super::chunk::InFlightBatch;
use crate::driver::ErrorClass;
use crate::plan::Sampling;
use crate::workload::event::{Batch, Event};

/// An acknowledged event that no query has found yet.
#[derive(Debug)]
struct Probe {
    arrived: Instant,
    id: Vec<u8>,
    kind: usize,
    time: i64,
    arrival: i64,
    /// Number of events sent before it.
    before: u64,
}

/// The visibility probes of a source.
#[derive(Debug)]
pub struct Probes {
    /// Sampling interval and time limit.
    pub sampling: Sampling,
    /// Names of the event kinds.
    kinds: Arc<[String]>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    probes: Vec<Probe>,
    counts: ProbeCounts,
    /// Arrival time of the newest event found by a query.
    newest: Option<Instant>,
    finished: bool,
}

/// Counts of visibility probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCounts {
    /// Acknowledged events selected as probes.
    pub sampled: u64,
    /// Probes found by a query.
    pub seen: u64,
    /// Probes not found within the time limit.
    pub unseen: u64,
    /// Number of events up to and including the newest one found.
    pub up_to: u64,
}

impl ProbeCounts {
    /// Adds the counts of another rank.
    pub fn add(&mut self, other: Self) {
        self.sampled += other.sampled;
        self.seen += other.seen;
        self.unseen += other.unseen;
        self.up_to += other.up_to;
    }
}

/// The next step of the polling client.
#[derive(Debug)]
pub enum NextProbes {
    /// Query these events. Their lines are left out; ids, kinds and times are included.
    Events(Batch),
    /// Wait: no probe is open.
    Nothing,
    /// Stop: no more probes will follow.
    Ended,
}

/// Result of a finished probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Arrival time of the event.
    pub arrived: Instant,
    /// The error class if the event was not found in time.
    pub failed: Option<ErrorClass>,
}

impl Probes {
    /// Creates an empty set of probes. `kinds`: names of the event kinds.
    pub fn new(sampling: Sampling, kinds: Arc<[String]>) -> Self {
        Self { sampling, kinds, state: Mutex::default(), changed: Notify::new() }
    }

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Opens probes for the sampled events of a batch that the store has acknowledged, and wakes the polling client.
    /// `dispositions`: index and result of each event that the request carried.
    pub fn acknowledged(&self, in_flight: &InFlightBatch, dispositions: &[(u32, Disposition)]) {
        let of = |&(place, before): &(u32, u64)| {
            dispositions.contains(&(place, Disposition::Taken)).then(|| {
                let event = &in_flight.batch.events[place as usize];
                let Event { arrived, kind, time, arrival, .. } = *event;
                Probe { arrived, id: in_flight.batch.id(event).to_vec(), kind, time, arrival, before }
            })
        };
        let probes: Vec<Probe> = in_flight.sampled.iter().filter_map(of).collect();
        if !probes.is_empty() {
            let mut state = self.state();
            state.counts.sampled += probes.len() as u64;
            state.probes.extend(probes);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// Declares that no more events will be acknowledged, so that the polling client ends after the open probes.
    pub fn finish(&self) {
        self.state().finished = true;
        self.changed.notify_one();
    }

    /// Becomes ready when the result of [`Probes::next_probes`] may have changed.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns all open probes of the kinds that `covers` accepts, as one batch.
    /// `Nothing` if no such probe is open; `Ended` if no probe at all is open and no more will follow.
    pub fn next_probes(&self, covers: impl Fn(usize) -> bool) -> NextProbes {
        let state = self.state();
        if state.probes.is_empty() {
            return if state.finished { NextProbes::Ended } else { NextProbes::Nothing };
        }
        let mut batch = Batch { kinds: self.kinds.clone(), ..Batch::default() };
        for Probe { arrived, id, kind, time, arrival, .. } in state.probes.iter().filter(|probe| covers(probe.kind)) {
            let start = batch.bytes.len();
            batch.bytes.extend_from_slice(id);
            let id = start..batch.bytes.len();
            batch.events.push(Event {
                arrived: *arrived,
                line: start..start,
                id,
                kind: *kind,
                time: *time,
                arrival: *arrival,
            });
        }
        if batch.events.is_empty() { NextProbes::Nothing } else { NextProbes::Events(batch) }
    }

    /// Records a query for the first `queried` open probes of the kinds that `covers` accepts, answered at `done`.
    /// `seen`: for each of these probes, whether it was found; may be empty. `failed`: error class of a failed query.
    /// Closes and returns the probes that were found, and those past their time limit: these fail by `failed`, or by
    /// `Unseen` without it.
    pub fn record_query(
        &self,
        covers: impl Fn(usize) -> bool,
        seen: &[bool],
        queried: usize,
        done: Instant,
        failed: Option<ErrorClass>,
    ) -> Vec<Outcome> {
        let mut state = self.state();
        let State { probes, counts, newest, .. } = &mut *state;
        let (mut over, mut place) = (Vec::new(), 0);
        probes.retain(|Probe { arrived, before, kind, .. }| {
            if !covers(*kind) {
                return true;
            }
            let is_seen = seen.get(place).copied().unwrap_or(false);
            place += 1;
            if is_seen {
                counts.seen += 1;
                counts.up_to = counts.up_to.max(before + 1);
                *newest = (*newest).max(Some(*arrived));
                over.push(Outcome { arrived: *arrived, failed: None });
                return false;
            }
            // The query did not cover probes opened after it started.
            let is_late = place <= queried && done.saturating_duration_since(*arrived) >= self.sampling.within;
            if is_late {
                counts.unseen += 1;
                over.push(Outcome { arrived: *arrived, failed: Some(failed.unwrap_or(ErrorClass::Unseen)) });
            }
            !is_late
        });
        over
    }

    /// Returns the arrival time of the newest event found by a query; `None` before the first.
    pub fn newest(&self) -> Option<Instant> {
        self.state().newest
    }

    /// Returns the counts of probes so far.
    pub fn counts(&self) -> ProbeCounts {
        self.state().counts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Creates an empty set of probes with a time limit of `within` seconds.
    fn probes(within: u64) -> Probes {
        let seconds = Duration::from_secs;
        let sampling = Sampling { every: seconds(1), within: seconds(within), sample: seconds(1) };
        Probes::new(sampling, ["bid".to_owned()].into())
    }

    /// Creates a probe for an event that `before` events precede.
    fn probe(arrived: Instant, before: u64) -> Probe {
        Probe { arrived, id: b"a".to_vec(), kind: 0, time: 0, arrival: 0, before }
    }

    #[test]
    fn probes_fail_after_the_limit_and_found_ones_advance_the_newest() {
        let (probes, start) = (probes(10), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        probes.state().probes.extend([probe(start, 4), probe(at(5), 9), probe(at(6), 20)]);
        assert_eq!(
            probes.record_query(|_| true, &[false, true], 2, at(7), None),
            [Outcome { arrived: at(5), failed: None }]
        );
        assert_eq!(probes.counts(), ProbeCounts { seen: 1, up_to: 10, ..ProbeCounts::default() });
        assert_eq!(probes.newest(), Some(at(5)));
        let unseen = Outcome { arrived: start, failed: Some(ErrorClass::Unseen) };
        assert_eq!(probes.record_query(|_| true, &[false, false], 2, at(10), None), [unseen]);
        let unanswered = Outcome { arrived: at(6), failed: Some(ErrorClass::Connect) };
        assert_eq!(probes.record_query(|_| true, &[], 1, at(16), Some(ErrorClass::Connect)), [unanswered]);
        assert_eq!(probes.counts(), ProbeCounts { seen: 1, unseen: 2, up_to: 10, ..ProbeCounts::default() });
        assert!(matches!(probes.next_probes(|_| true), NextProbes::Nothing));
        probes.finish();
        assert!(matches!(probes.next_probes(|_| true), NextProbes::Ended));
    }

    #[test]
    fn a_query_does_not_time_out_events_that_arrive_during_it() {
        let (probes, start) = (probes(1), Instant::now());
        probes.state().probes.extend([probe(start, 0), probe(start, 1)]);
        let late = start + Duration::from_secs(2);
        assert_eq!(probes.record_query(|_| true, &[true], 1, late, None), [Outcome { arrived: start, failed: None }]);
        assert_eq!(probes.state().probes.len(), 1);
    }
}
