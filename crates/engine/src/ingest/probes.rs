//! Events that are looked for in the store, and how far that has come. Which ones these are says [`super::sampler`].

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

/// An event that the store has acknowledged, and that is looked for.
#[derive(Debug)]
struct Probe {
    arrived: Instant,
    id: Vec<u8>,
    kind: usize,
    time: i64,
    arrival: i64,
    /// How many events came before it.
    before: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Probes {
    /// How they are looked for.
    pub sampling: Sampling,
    /// The names of their kinds.
    kinds: Arc<[String]>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    probes: Vec<Probe>,
    counts: Looked,
    /// When the newest event that was seen had arrived.
    newest: Option<Instant>,
    finished: bool,
}

/// What came of the events that were looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Looked {
    /// Events that the store had acknowledged, and that were looked for.
    pub sampled: u64,
    /// Of these, those that a query has seen.
    pub seen: u64,
    /// Those that none has seen in time.
    pub unseen: u64,
    /// The newest event that was seen, and all that were sent before it.
    pub up_to: u64,
}

impl Looked {
    /// Adds another rank's.
    pub fn add(&mut self, other: Self) {
        self.sampled += other.sampled;
        self.seen += other.seen;
        self.unseen += other.unseen;
        self.up_to += other.up_to;
    }
}

/// What is there to look for.
#[derive(Debug)]
pub enum Sought {
    /// These events, of which only the ids, kinds and instants are there.
    Events(Batch),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come.
    Ended,
}

/// What came of an event that was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When it had arrived.
    pub arrived: Instant,
    /// Why it was not seen, if it was not.
    pub failed: Option<ErrorClass>,
}

impl Probes {
    /// None yet.
    pub fn new(sampling: Sampling, kinds: Arc<[String]>) -> Self {
        Self { sampling, kinds, state: Mutex::default(), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Those of a batch that the store has taken are looked for from now on.
    pub fn acknowledged(&self, taken: &InFlightBatch, dispositions: &[(u32, Disposition)]) {
        let of = |&(place, before): &(u32, u64)| {
            dispositions.contains(&(place, Disposition::Taken)).then(|| {
                let event = &taken.batch.events[place as usize];
                let Event { arrived, kind, time, arrival, .. } = *event;
                Probe { arrived, id: taken.batch.id(event).to_vec(), kind, time, arrival, before }
            })
        };
        let probes: Vec<Probe> = taken.sampled.iter().filter_map(of).collect();
        if !probes.is_empty() {
            let mut state = self.state();
            state.counts.sampled += probes.len() as u64;
            state.probes.extend(probes);
            drop(state);
            self.changed.notify_one();
        }
    }

    /// No more events are acknowledged.
    pub fn finish(&self) {
        self.state().finished = true;
        self.changed.notify_one();
    }

    /// Becomes ready when [`Probes::sought`] may find something else than before.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// All events that are looked for now.
    pub fn sought(&self) -> Sought {
        let state = self.state();
        if state.probes.is_empty() {
            return if state.finished { Sought::Ended } else { Sought::Nothing };
        }
        let mut batch = Batch { kinds: self.kinds.clone(), ..Batch::default() };
        for Probe { arrived, id, kind, time, arrival, .. } in &state.probes {
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
        Sought::Events(batch)
    }

    /// A query for the first `sought` events was answered at `done`, and saw those that `seen` says. Returns what came of
    /// the events that are not looked for any more. `failed`: the query was not answered well.
    pub fn looked(&self, seen: &[bool], sought: usize, done: Instant, failed: Option<ErrorClass>) -> Vec<Outcome> {
        let mut state = self.state();
        let State { probes, counts, newest, .. } = &mut *state;
        let (mut over, mut place) = (Vec::new(), 0);
        probes.retain(|Probe { arrived, before, .. }| {
            let is_seen = seen.get(place).copied().unwrap_or(false);
            place += 1;
            if is_seen {
                counts.seen += 1;
                counts.up_to = counts.up_to.max(before + 1);
                *newest = (*newest).max(Some(*arrived));
                over.push(Outcome { arrived: *arrived, failed: None });
                return false;
            }
            // One that came while the query was under way is looked for by the next one.
            let is_late = place <= sought && done.saturating_duration_since(*arrived) >= self.sampling.within;
            if is_late {
                counts.unseen += 1;
                over.push(Outcome { arrived: *arrived, failed: Some(failed.unwrap_or(ErrorClass::Unseen)) });
            }
            !is_late
        });
        over
    }

    /// When the newest event that a query has seen had arrived.
    pub fn newest(&self) -> Option<Instant> {
        self.state().newest
    }

    /// What came of them so far.
    pub fn counts(&self) -> Looked {
        self.state().counts
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn probes(within: u64) -> Probes {
        let seconds = Duration::from_secs;
        let sampling = Sampling { every: seconds(1), within: seconds(within), sample: seconds(1) };
        Probes::new(sampling, ["bid".to_owned()].into())
    }

    fn probe(arrived: Instant, before: u64) -> Probe {
        Probe { arrived, id: b"a".to_vec(), kind: 0, time: 0, arrival: 0, before }
    }

    #[test]
    fn what_is_not_seen_in_time_fails_and_what_is_seen_tells_how_far_the_store_is() {
        let (probes, start) = (probes(10), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        probes.state().probes.extend([probe(start, 4), probe(at(5), 9), probe(at(6), 20)]);
        assert_eq!(probes.looked(&[false, true], 2, at(7), None), [Outcome { arrived: at(5), failed: None }]);
        assert_eq!(probes.counts(), Looked { seen: 1, up_to: 10, ..Looked::default() });
        assert_eq!(probes.newest(), Some(at(5)));
        let unseen = Outcome { arrived: start, failed: Some(ErrorClass::Unseen) };
        assert_eq!(probes.looked(&[false, false], 2, at(10), None), [unseen]);
        let unanswered = Outcome { arrived: at(6), failed: Some(ErrorClass::Connect) };
        assert_eq!(probes.looked(&[], 1, at(16), Some(ErrorClass::Connect)), [unanswered]);
        assert_eq!(probes.counts(), Looked { seen: 1, unseen: 2, up_to: 10, ..Looked::default() });
        assert!(matches!(probes.sought(), Sought::Nothing));
        probes.finish();
        assert!(matches!(probes.sought(), Sought::Ended));
    }

    #[test]
    fn an_event_that_comes_while_a_query_is_under_way_is_not_given_up_by_it() {
        let (probes, start) = (probes(1), Instant::now());
        probes.state().probes.extend([probe(start, 0), probe(start, 1)]);
        let late = start + Duration::from_secs(2);
        assert_eq!(probes.looked(&[true], 1, late, None), [Outcome { arrived: start, failed: None }]);
        assert_eq!(probes.state().probes.len(), 1);
    }
}
