//! Cell: the smallest recorded unit. It has counts and histograms of one stream's operation in one second and
//! segment.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::driver::{ErrorClass, NO_NODE, Overhead, Reply};
use crate::recording::durations::{clear, histogram, record};
use crate::recording::reconnects;

/// Counts of one stream's operation in one second.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Finished requests, successful or not.
    pub requests: u64,
    /// Successful requests.
    pub successes: u64,
    /// Documents stored or returned, also by bulk requests that failed in part.
    pub documents: u64,
    /// Bytes written, all attempts of all requests.
    pub bytes_sent: u64,
    /// Bytes read, all attempts of all requests.
    pub bytes_received: u64,
    /// Successes that ended inside the measured window, whenever they were scheduled. Throughput is based on
    /// these.
    pub completed: u64,
    /// Documents of the attempts that ended inside the measured window.
    pub completed_documents: u64,
    /// Requests dropped because too many were in flight.
    pub dropped: u64,
    /// Retries of failed attempts.
    pub retries: u64,
    /// Lost connections that were reopened.
    pub reconnects: u64,
    /// Relevant documents, if recall is asserted.
    pub relevant: u64,
    /// Relevant documents found in the answers.
    pub relevant_found: u64,
    /// Successes without the kernel's timestamp of their answer, in a phase that asks for timestamps.
    pub unstamped: u64,
    /// Successes with the kernel's timestamp of their answer, but not of their sending.
    pub receive_only: u64,
    /// Failed requests by class. A bulk request with failed items counts once.
    pub errors: [u64; ErrorClass::ALL.len()],
}

impl Counts {
    /// Adds the counts of another cell to these.
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
        self.unstamped += other.unstamped;
        self.receive_only += other.receive_only;
        for (mine, theirs) in self.errors.iter_mut().zip(other.errors) {
            *mine += theirs;
        }
    }
}

/// Attempts and documents of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Attempts, successful or not.
    pub requests: u64,
    /// Documents stored or returned.
    pub documents: u64,
}

impl Served {
    /// Adds the counts of another cell's node to these.
    pub fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.documents += other.documents;
    }
}

/// Requests by whether they succeeded before a deadline. Each request counts once: at its answer, or at the
/// end of the second in which its deadline passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadlineCounts {
    /// Requests that succeeded before it.
    pub met: u64,
    /// Requests that failed before it, or had no answer by then.
    pub missed: u64,
}

impl DeadlineCounts {
    /// Adds the counts of other requests to `sums`, deadline by deadline.
    pub fn add_all(sums: &mut Vec<Self>, others: &[Self]) {
        grow(sums, others.len());
        for (sum, other) in sums.iter_mut().zip(others) {
            sum.met += other.met;
            sum.missed += other.missed;
        }
    }
}

/// Counts and histograms of one stream's operation in one second and segment.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The counts.
    pub counts: Counts,
    /// Counts by deadline, in the order of [`Plan::deadlines`](crate::plan::Plan::deadlines).
    pub deadlines: Vec<DeadlineCounts>,
    /// done - scheduled of the successes.
    pub response: Histogram<u64>,
    /// done - sent of the successes.
    pub service: Histogram<u64>,
    /// done - scheduled of the failures. Allocated at the first failure, since most operations do not fail.
    pub failure: Option<Histogram<u64>>,
    /// Durations of connection setups. Allocated at the first one, since most seconds do not have any.
    pub setup: Option<Histogram<u64>>,
    /// Waits, since they were scheduled, of the requests without an answer at the end of the phase. Allocated
    /// there.
    pub abandoned: Option<Histogram<u64>>,
    /// The generator's overhead in the service time of the successes with kernel timestamps. Allocated at the first
    /// one.
    pub overhead: Option<Histogram<u64>>,
    /// The service time of these successes without the overhead.
    pub corrected: Option<Histogram<u64>>,
    /// Attempts and documents by host.
    pub nodes: Vec<Served>,
    /// Requests in flight at the end of the second.
    pub unanswered: u64,
    /// Age of the oldest of these requests, since it was scheduled.
    pub oldest_unanswered: Duration,
}

impl Cell {
    /// Creates an empty cell.
    pub(super) fn new() -> Self {
        Self {
            counts: Counts::default(),
            deadlines: Vec::new(),
            response: histogram(),
            service: histogram(),
            failure: None,
            setup: None,
            abandoned: None,
            overhead: None,
            corrected: None,
            nodes: Vec::new(),
            unanswered: 0,
            oldest_unanswered: Duration::ZERO,
        }
    }

    /// Clears it for reuse. Frees the rare histograms unless this second used them.
    pub(super) fn clear(&mut self) {
        self.counts = Counts::default();
        self.deadlines.fill(DeadlineCounts::default());
        clear(&mut self.response);
        clear(&mut self.service);
        // Free the rare histograms, since the next second usually does not need them.
        let times = [&mut self.failure, &mut self.setup, &mut self.abandoned, &mut self.overhead, &mut self.corrected];
        for rare in times {
            *rare = rare.take().filter(|durations| !durations.is_empty());
            if let Some(durations) = rare {
                durations.reset();
            }
        }
        self.nodes.fill(Served::default());
        self.unanswered = 0;
        self.oldest_unanswered = Duration::ZERO;
    }

    /// Counts one attempt: its bytes, its host if it has one, its documents, and the thread's new reconnections and
    /// connection setups. Stored documents count even if the bulk request failed. `in_window`: it ended in the measured
    /// window.
    #[inline]
    pub(super) fn exchanged(&mut self, reply: &Reply, in_window: bool) {
        let counts = &mut self.counts;
        counts.reconnects += reconnects::take();
        reconnects::take_setups(|duration| record(self.setup.get_or_insert_with(histogram), duration));
        counts.bytes_sent += reply.bytes_sent;
        counts.bytes_received += reply.bytes_received;
        counts.documents += reply.documents;
        counts.completed_documents += if in_window { reply.documents } else { 0 };
        if reply.node == NO_NODE {
            return;
        }
        let node = usize::from(reply.node);
        grow(&mut self.nodes, node + 1);
        self.nodes[node].add(Served { requests: 1, documents: reply.documents });
    }

    /// Counts the response time of a failure.
    pub(super) fn fail(&mut self, duration: Duration) {
        record(self.failure.get_or_insert_with(histogram), duration);
    }

    /// Counts the generator's overhead in a success with the service time `service`; as unstamped if the overhead is
    /// unknown.
    #[cold]
    pub(super) fn stamp(&mut self, overhead: Overhead, service: Duration) {
        let Some(share) = overhead.total() else {
            self.counts.unstamped += 1;
            return;
        };
        self.counts.receive_only += u64::from(overhead.is_receive_only());
        // Two readings of clocks may disagree by less than a microsecond.
        let share = share.min(service);
        record(self.overhead.get_or_insert_with(histogram), share);
        record(self.corrected.get_or_insert_with(histogram), service - share);
    }

    /// Counts the wait of a request without an answer at the end of the phase.
    pub(super) fn abandon(&mut self, wait: Duration) {
        record(self.abandoned.get_or_insert_with(histogram), wait);
    }

    /// Returns the four histograms of the rows and the log, with their names; `None` for a rare one that was not used.
    pub fn measures(&self) -> [(&'static str, Option<&Histogram<u64>>); 4] {
        [
            ("response", Some(&self.response)),
            ("service", Some(&self.service)),
            ("failure", self.failure.as_ref()),
            ("setup", self.setup.as_ref()),
        ]
    }

    /// Returns the histograms that only the log has, with their names there; `None` for one that was not used.
    pub fn further_measures(&self) -> [(&'static str, Option<&Histogram<u64>>); 3] {
        [
            ("abandoned", self.abandoned.as_ref()),
            ("overhead", self.overhead.as_ref()),
            ("corrected", self.corrected.as_ref()),
        ]
    }

    /// Adds another cell, exactly, since the layouts are equal.
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        DeadlineCounts::add_all(&mut self.deadlines, &other.deadlines);
        self.response.add(&other.response).expect("layouts are equal");
        self.service.add(&other.service).expect("layouts are equal");
        let rare = [
            (&mut self.failure, &other.failure),
            (&mut self.setup, &other.setup),
            (&mut self.abandoned, &other.abandoned),
            (&mut self.overhead, &other.overhead),
            (&mut self.corrected, &other.corrected),
        ];
        for (mine, theirs) in rare {
            if let Some(theirs) = theirs {
                mine.get_or_insert_with(histogram).add(theirs).expect("layouts are equal");
            }
        }
        self.unanswered += other.unanswered;
        self.oldest_unanswered = self.oldest_unanswered.max(other.oldest_unanswered);
        grow(&mut self.nodes, other.nodes.len());
        for (mine, theirs) in self.nodes.iter_mut().zip(&other.nodes) {
            mine.add(*theirs);
        }
    }
}

/// Appends default values until `counts` has the length `len`; does nothing if it is that long or longer.
pub(super) fn grow<T: Clone + Default>(counts: &mut Vec<T>, len: usize) {
    if counts.len() < len {
        counts.resize(len, T::default());
    }
}
