//! Source statistics, live and final.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::Source;
use super::dead_letters::Reason;
use super::probes::{ProbeCounts, Probes};
use super::queue::QueueState;

/// Statistics of a source. `lines` = `accepted` + `dropped` + dead letters other than those refused by the store.
/// `accepted` = `indexed` + refused + `left_over`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceStats {
    /// Non-empty lines received.
    pub lines: u64,
    /// Lines whose events the transformation drops.
    pub dropped: u64,
    /// Lines that are valid events.
    pub accepted: u64,
    /// Events that the store accepted.
    pub indexed: u64,
    /// Invalid lines, and events that the store refused permanently, by reason.
    pub dead_letters: BTreeMap<String, u64>,
    /// Events neither indexed nor refused (yet).
    pub left_over: u64,
    /// Accepted connections.
    pub connections: u64,
    /// Listening address.
    pub address: Option<String>,
    /// Bytes received.
    pub bytes: u64,
    /// Events not in a request yet.
    pub waiting: u64,
    /// Peak size of the unsettled events in memory, bytes.
    pub most_bytes: u64,
    /// Events on disk because memory is full.
    pub spilled: u64,
    /// Total events written to disk.
    pub spilled_events: u64,
    /// Total bytes written to disk.
    pub spilled_bytes: u64,
    /// Peak size on disk, bytes.
    pub most_spilled_bytes: u64,
    /// Events that the store accepted, by kind.
    pub kinds: BTreeMap<String, u64>,
    /// Progress of a paced source (generator or replay); `None` before the end.
    pub offered: Option<Offered>,
    /// CPU time of each reader thread, seconds.
    pub reader_cpu: Vec<f64>,
    /// Counts of visibility probes, if there were any.
    pub looked_for: Option<ProbeCounts>,
    /// Errors and warnings.
    pub trouble: Vec<String>,
    /// Those because of which a part of the input was not read.
    pub damage: Vec<String>,
}

/// Progress of a generator or replay at its end, in seconds after the phase's start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// When the last event was due, or when the source was closed.
    pub until: f64,
    /// All events due by this time were accepted. Less than `until` if the source fell behind.
    pub made: f64,
    /// Maximum time that an event waits for its batch to fill.
    pub flush: f64,
}

impl Offered {
    /// Returns the progress that fell further behind, relative to its duration.
    fn worse(self, other: Self) -> Self {
        let behind = |one: Self| (one.until - one.made) / one.until.max(f64::MIN_POSITIVE);
        if (behind(other), other.until) > (behind(self), self.until) { other } else { self }
    }
}

impl SourceStats {
    /// Adds the statistics of another rank: sums of counts, sums or maxima of sizes, and all warnings.
    pub fn add(&mut self, other: Self) {
        self.lines += other.lines;
        self.dropped += other.dropped;
        self.accepted += other.accepted;
        self.indexed += other.indexed;
        for (reason, count) in other.dead_letters {
            *self.dead_letters.entry(reason).or_default() += count;
        }
        self.left_over += other.left_over;
        self.connections += other.connections;
        self.address = self.address.take().or(other.address);
        self.bytes += other.bytes;
        self.waiting += other.waiting;
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        self.spilled += other.spilled;
        self.spilled_events += other.spilled_events;
        self.spilled_bytes += other.spilled_bytes;
        self.most_spilled_bytes = self.most_spilled_bytes.max(other.most_spilled_bytes);
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        self.offered = [self.offered, other.offered].into_iter().flatten().reduce(Offered::worse);
        self.reader_cpu.extend(other.reader_cpu);
        self.looked_for = match (self.looked_for, other.looked_for) {
            (Some(mut mine), Some(theirs)) => {
                mine.add(theirs);
                Some(mine)
            }
            (mine, theirs) => mine.or(theirs),
        };
        self.trouble.extend(other.trouble);
        // Ranks that share a file all read it.
        let known = self.damage.clone();
        self.damage.extend(other.damage.into_iter().filter(|words| !known.contains(words)));
    }

    /// Returns the number of dead letters of all reasons.
    pub fn dead(&self) -> u64 {
        self.dead_letters.values().sum()
    }
}

impl Source {
    /// Returns the source's name and its current statistics.
    pub fn stats(&self) -> (String, SourceStats) {
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        // Later stages are read first, so that no part exceeds its total.
        let QueueState { waiting, most_bytes, spilled, written } = self.queue.standing();
        let (indexed, refused) = (of(&self.counts.indexed), self.dead_letters.of(Reason::Refused));
        let (accepted, dropped) = (of(&self.counts.accepted), of(&self.counts.dropped));
        let stats = SourceStats {
            dead_letters: self.dead_letters.counts(),
            lines: of(&self.counts.lines),
            dropped,
            accepted,
            indexed,
            left_over: accepted.saturating_sub(indexed + refused),
            connections: of(&self.counts.connections),
            address: self.address.get().cloned(),
            bytes: of(&self.counts.bytes),
            waiting: waiting as u64,
            most_bytes,
            spilled: spilled as u64,
            spilled_events: written.events,
            spilled_bytes: written.bytes,
            most_spilled_bytes: written.most,
            kinds: self.reader.names.iter().cloned().zip(self.counts.kinds.iter().map(of)).collect(),
            offered: self.offered.get().copied(),
            reader_cpu: self.cpu.cpu(),
            looked_for: self.probes.as_ref().map(Probes::counts),
            trouble: self.trouble.lock().expect("no thread panics while it holds the lock").clone(),
            damage: self.damage.lock().expect("no thread panics while it holds the lock").clone(),
        };
        (self.name.clone(), stats)
    }
}
