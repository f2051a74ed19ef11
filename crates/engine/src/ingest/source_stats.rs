//! What is told of a source, while it is read and in the end.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::Source;
use super::dead_letters::Reason;
use super::probes::{Looked, Probes};
use super::queue::QueueState;

/// See the module. `lines` are `accepted` and the dead letters that were not refused by the store; `accepted` are
/// `indexed`, refused and `left_over`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceStats {
    /// Lines that came, but for empty ones.
    pub lines: u64,
    /// Those that are events.
    pub accepted: u64,
    /// Events that the store took.
    pub indexed: u64,
    /// Lines that are not events, and events that the store refused for good, by the reason.
    pub dead_letters: BTreeMap<String, u64>,
    /// Events that are neither indexed nor refused (yet).
    pub left_over: u64,
    /// Connections that were accepted.
    pub connections: u64,
    /// Where it listens.
    pub address: Option<String>,
    /// Bytes that came.
    pub bytes: u64,
    /// Events that no request carries yet.
    pub waiting: u64,
    /// The most bytes of events that were neither indexed nor refused at a time, in memory.
    pub most_bytes: u64,
    /// Events that are on disk, since memory has no room for them.
    pub spilled: u64,
    /// Events that ever were.
    pub spilled_events: u64,
    /// Bytes that they took up there.
    pub spilled_bytes: u64,
    /// The most of these at a time.
    pub most_spilled_bytes: u64,
    /// Events that the store took, by their kind.
    pub kinds: BTreeMap<String, u64>,
    /// Of events that have instants of their own, how far they came; `None` before the end.
    pub offered: Option<Offered>,
    /// CPU time of each thread that reads it, seconds.
    pub reader_cpu: Vec<f64>,
    /// What came of the events that were looked for, if some were.
    pub looked_for: Option<Looked>,
    /// What went wrong, in words.
    pub trouble: Vec<String>,
}

/// How far a generator or a replayed log came by the end; seconds after the phase's start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offered {
    /// Until then events were due: until the last of them, or until no more were wanted.
    pub until: f64,
    /// All that were due until then were accepted. Less than `until` if the source fell behind.
    pub made: f64,
    /// An event waits at most so long for its request to fill.
    pub flush: f64,
}

impl Offered {
    /// That of the two which fell behind more.
    fn worse(self, other: Self) -> Self {
        let behind = |one: Self| (one.until - one.made) / one.until.max(f64::MIN_POSITIVE);
        if (behind(other), other.until) > (behind(self), self.until) { other } else { self }
    }
}

impl SourceStats {
    /// Adds another rank's.
    pub fn add(&mut self, other: Self) {
        self.lines += other.lines;
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
    }

    /// All dead letters.
    pub fn dead(&self) -> u64 {
        self.dead_letters.values().sum()
    }
}

impl Source {
    /// As it stands now.
    pub fn stats(&self) -> (String, SourceStats) {
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        // What comes later is read first, so that no figure is greater than one that it is a part of.
        let QueueState { waiting, most_bytes, spilled, written } = self.queue.standing();
        let (indexed, refused) = (of(&self.counts.indexed), self.dead_letters.of(Reason::Refused));
        let accepted = of(&self.counts.accepted);
        let stats = SourceStats {
            dead_letters: self.dead_letters.counts(),
            lines: of(&self.counts.lines),
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
        };
        (self.name.clone(), stats)
    }
}
