//! Record of one worker for one second, passed to the collector.

use super::MESSAGES;
use super::cell::Cell;
use crate::driver::ErrorClass;
use crate::recording::sample::Sample;
use crate::recording::self_monitor::SelfMetrics;
use crate::recording::spans::Spans;

/// A failure message with its count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The operation's slot.
    pub slot: usize,
    /// The class of the failures.
    pub class: ErrorClass,
    /// Whether the requests belong to the measured segment.
    pub measured: bool,
    /// The status of the answers, if the protocol has one.
    pub status: Option<u16>,
    /// The text of the first failure. Texts that differ only in numbers count as one.
    pub text: String,
    /// Requests that failed with it; 0 if only retried attempts did.
    pub count: u64,
}

impl Message {
    /// Adds it to other messages: to the count of an equal one, or as a new one while there are fewer than
    /// `most` of its kind. Otherwise drops it.
    pub fn add_to(self, messages: &mut Vec<Self>, most: usize) {
        let (mut alike, mut kind) = (None, 0);
        for (place, other) in messages.iter().enumerate() {
            if (other.slot, other.class, other.measured) == (self.slot, self.class, self.measured) {
                kind += 1;
                if other.status == self.status && same_words(&other.text, &self.text) {
                    alike = Some(place);
                    break;
                }
            }
        }
        match alike {
            Some(place) => messages[place].count += self.count,
            None if kind < most => messages.push(self),
            None => {}
        }
    }
}

/// Returns whether two texts are equal or differ in numbers only.
pub fn same_words(one: &str, other: &str) -> bool {
    let words = |text| str::split(text, |c: char| c.is_ascii_digit()).filter(|word| !word.is_empty());
    words(one).eq(words(other))
}

/// Record of one worker for one second.
pub struct Interval {
    /// The worker's number in its process.
    pub worker: usize,
    /// Seconds since the phase began.
    pub second: u64,
    /// Two cells for each slot: warm-up and measurement. `None` before the first event.
    pub cells: Vec<Option<Box<Cell>>>,
    /// Which cells were used in this second.
    pub used: Vec<bool>,
    /// Metrics of the worker itself.
    pub watch: SelfMetrics,
    /// Messages of some errors.
    pub messages: Vec<Message>,
    /// Individual requests, if recorded.
    pub samples: Vec<Sample>,
    /// Spans of sampled requests.
    pub spans: Spans,
}

impl Interval {
    /// Creates an empty record for `slots` slots of worker number `worker`.
    pub fn new(worker: usize, slots: usize) -> Self {
        let cells = 2 * slots;
        Self {
            worker,
            second: 0,
            cells: (0..cells).map(|_| None).collect(),
            used: vec![false; cells],
            watch: SelfMetrics::new(),
            messages: Vec::new(),
            samples: Vec::new(),
            spans: Spans::default(),
        }
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.cells.len() / 2
    }

    /// Iterates over the used cells, by slot and then warm-up first: slot, whether in the measured segment, and cell.
    pub fn used_cells(&self) -> impl Iterator<Item = (usize, bool, &Cell)> {
        let used = self.cells.iter().zip(&self.used).enumerate().filter(|(_, (_, used))| **used);
        used.filter_map(|(index, (cell, _))| cell.as_deref().map(|cell| (index / 2, index % 2 == 1, cell)))
    }

    /// Returns the cell of a slot and segment, created if necessary, and marks it as used. `measured`: the segment is
    /// not the warm-up.
    #[inline]
    pub fn cell(&mut self, slot: usize, measured: bool) -> &mut Cell {
        let index = 2 * slot + usize::from(measured);
        self.used[index] = true;
        self.cells[index].get_or_insert_with(|| Box::new(Cell::new()))
    }

    /// Adds the same second of another worker. Of the worker's metrics, adds only lateness and lag; for the others, see
    /// [`crate::recording::worker_stats`].
    pub fn add(&mut self, other: &Self) {
        for (slot, measured, cell) in other.used_cells() {
            let index = 2 * slot + usize::from(measured);
            match (&mut self.cells[index], self.used[index]) {
                (Some(mine), true) => mine.add(cell),
                (mine, _) => *mine = Some(Box::new(cell.clone())),
            }
            self.used[index] = true;
        }
        self.watch.lateness.add(&other.watch.lateness).expect("layouts are equal");
        self.watch.lag.add(&other.watch.lag).expect("layouts are equal");
        for message in &other.messages {
            message.clone().add_to(&mut self.messages, MESSAGES);
        }
        self.samples.extend_from_slice(&other.samples);
        self.spans.add(&other.spans);
    }

    /// Clears it for reuse. This touches all recorded memory, so a sending thread must not do it.
    pub fn clear(&mut self) {
        for (cell, used) in self.cells.iter_mut().zip(&mut self.used) {
            match cell {
                Some(cell) if *used => cell.clear(),
                // Free cells unused for a second, such as those of a finished warm-up: 370 kB each.
                _ => *cell = None,
            }
            *used = false;
        }
        self.watch.clear();
        self.messages.clear();
        self.samples.clear();
        self.spans.clear();
    }
}
