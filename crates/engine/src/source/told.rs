//! What is told of a source, while it is read and in the end.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::Source;
use super::letters::Reason;

/// See the module. `lines` are `accepted` and the dead letters that were not refused by the store; `accepted` are
/// `indexed`, refused and `left_over`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
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
    /// What went wrong, in words.
    pub trouble: Vec<String>,
}

impl Told {
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
        self.trouble.extend(other.trouble);
    }

    /// All dead letters.
    pub fn dead(&self) -> u64 {
        self.dead_letters.values().sum()
    }
}

impl Source {
    /// As it stands now.
    pub fn told(&self) -> (String, Told) {
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        // What comes later is read first, so that no figure is greater than one that it is a part of.
        let (waiting, _, most_bytes) = self.queue.standing();
        let (indexed, refused) = (of(&self.counts.indexed), self.letters.of(Reason::Refused));
        let accepted = of(&self.counts.accepted);
        let told = Told {
            dead_letters: self.letters.counts(),
            lines: of(&self.counts.lines),
            accepted,
            indexed,
            left_over: accepted.saturating_sub(indexed + refused),
            connections: of(&self.counts.connections),
            address: self.address.get().cloned(),
            bytes: of(&self.counts.bytes),
            waiting: waiting as u64,
            most_bytes,
            trouble: self.trouble.lock().expect("no thread panics while it holds the lock").clone(),
        };
        (self.name.clone(), told)
    }
}
