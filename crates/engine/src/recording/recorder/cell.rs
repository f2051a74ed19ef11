//! The smallest thing that is recorded: the counts and histograms of one stream's operation in one second and segment.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::driver::{ErrorClass, Reply};
use crate::recording::durations::{clear, histogram, record};
use crate::recording::reconnects;

/// What was counted of one stream's operation in one second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Connections that were lost and opened again.
    pub reconnects: u64,
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
        self.reconnects += other.reconnects;
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
    /// Durations of connection setups; made at the first one, since most seconds have none.
    pub setup: Option<Histogram<u64>>,
    /// Attempts by the host that served them.
    pub nodes: Vec<u64>,
    /// Requests that were in flight when the second ended.
    pub unanswered: u64,
    /// How long ago the oldest of these had been scheduled then.
    pub oldest_unanswered: Duration,
}

impl Cell {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            counts: Counts::default(),
            response: histogram(),
            service: histogram(),
            failure: None,
            setup: None,
            nodes: Vec::new(),
            unanswered: 0,
            oldest_unanswered: Duration::ZERO,
        }
    }

    /// Empties it for another second.
    pub(super) fn clear(&mut self) {
        self.counts = Counts::default();
        clear(&mut self.response);
        clear(&mut self.service);
        // A second without failures or setups is followed by others as a rule, and gives its room back.
        for rare in [&mut self.failure, &mut self.setup] {
            *rare = rare.take().filter(|durations| !durations.is_empty());
            if let Some(durations) = rare {
                durations.reset();
            }
        }
        self.nodes.fill(0);
        self.unanswered = 0;
        self.oldest_unanswered = Duration::ZERO;
    }

    /// Counts what went to and fro in one attempt. Documents that a bulk request got through count, though it failed.
    #[inline]
    pub(super) fn exchanged(&mut self, reply: &Reply, in_window: bool) {
        let counts = &mut self.counts;
        counts.reconnects += reconnects::take();
        reconnects::take_setups(|duration| record(self.setup.get_or_insert_with(histogram), duration));
        counts.bytes_sent += reply.bytes_sent;
        counts.bytes_received += reply.bytes_received;
        counts.documents += reply.documents;
        counts.completed_documents += if in_window { reply.documents } else { 0 };
        let node = usize::from(reply.node);
        grow(&mut self.nodes, node + 1);
        self.nodes[node] += 1;
    }

    /// Counts the response time of a failure.
    pub(super) fn fail(&mut self, duration: Duration) {
        record(self.failure.get_or_insert_with(histogram), duration);
    }

    /// What was timed, by the name that it has in the records.
    pub fn measures(&self) -> [(&'static str, Option<&Histogram<u64>>); 4] {
        [
            ("response", Some(&self.response)),
            ("service", Some(&self.service)),
            ("failure", self.failure.as_ref()),
            ("setup", self.setup.as_ref()),
        ]
    }

    /// Adds another's; exact, since the layouts are equal.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.response.add(&other.response).expect("layouts are equal");
        self.service.add(&other.service).expect("layouts are equal");
        for (mine, theirs) in [(&mut self.failure, &other.failure), (&mut self.setup, &other.setup)] {
            if let Some(theirs) = theirs {
                mine.get_or_insert_with(histogram).add(theirs).expect("layouts are equal");
            }
        }
        self.unanswered += other.unanswered;
        self.oldest_unanswered = self.oldest_unanswered.max(other.oldest_unanswered);
        grow(&mut self.nodes, other.nodes.len());
        for (mine, theirs) in self.nodes.iter_mut().zip(&other.nodes) {
            *mine += theirs;
        }
    }
}

fn grow(counts: &mut Vec<u64>, len: usize) {
    if counts.len() < len {
        counts.resize(len, 0);
    }
}
