//! What one worker records in one second, as it is handed to the collector.

use super::MESSAGES;
use super::cell::Cell;
use crate::driver::ErrorClass;
use crate::recording::sample::Sample;
use crate::recording::self_monitor::SelfMetrics;

/// A message of failures, with their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The operation's slot.
    pub slot: usize,
    /// The class of the failures.
    pub class: ErrorClass,
    /// Whether the requests belong to the measured segment.
    pub measured: bool,
    /// The status of the answers, where the protocol has one.
    pub status: Option<u16>,
    /// The text of the first failure. Texts that differ only in numbers count as one.
    pub text: String,
    /// Requests that failed with it; 0 if only attempts did that were made again.
    pub count: u64,
}

impl Message {
    /// Adds it to others: to the count of an equal one, or as another while there are fewer than `most` of its kind.
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

/// Whether two texts differ in numbers only.
pub fn same_words(one: &str, other: &str) -> bool {
    let words = |text| str::split(text, |c: char| c.is_ascii_digit()).filter(|word| !word.is_empty());
    words(one).eq(words(other))
}

/// What one worker recorded in one second.
pub struct Interval {
    /// The worker's number in its process.
    pub worker: usize,
    /// Seconds since the phase began.
    pub second: u64,
    /// Two cells for each stream's operation: warm-up, measurement. `None` where nothing ever happened.
    pub cells: Vec<Option<Box<Cell>>>,
    /// Which cells hold anything in this second.
    pub used: Vec<bool>,
    /// The worker itself.
    pub watch: SelfMetrics,
    /// Messages of some errors.
    pub messages: Vec<Message>,
    /// Its requests one by one, where that is asked for.
    pub samples: Vec<Sample>,
}

impl Interval {
    /// One for `slots` operations of worker number `worker`, in which nothing has happened.
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
        }
    }

    /// How many operations and parts there are room for.
    pub fn slots(&self) -> usize {
        self.cells.len() / 2
    }

    /// The cells that hold anything: their slot, whether they are of the measured segment, and themselves.
    pub fn used_cells(&self) -> impl Iterator<Item = (usize, bool, &Cell)> {
        let used = self.cells.iter().zip(&self.used).enumerate().filter(|(_, (_, used))| **used);
        used.filter_map(|(index, (cell, _))| cell.as_deref().map(|cell| (index / 2, index % 2 == 1, cell)))
    }

    /// The cell of a slot and segment, which holds something from now on.
    #[inline]
    pub fn cell(&mut self, slot: usize, measured: bool) -> &mut Cell {
        let index = 2 * slot + usize::from(measured);
        self.used[index] = true;
        self.cells[index].get_or_insert_with(|| Box::new(Cell::new()))
    }

    /// Adds the same second of another worker. What one worker measures of itself in figures is not added: see
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
    }

    /// Empties it for another second. This touches all that was recorded, so a thread that sends must not do it.
    pub fn clear(&mut self) {
        for (cell, used) in self.cells.iter_mut().zip(&mut self.used) {
            match cell {
                Some(cell) if *used => cell.clear(),
                // Nothing happened there for a second, as with the warm-up's cells when it is over: 370 kB given back.
                _ => *cell = None,
            }
            *used = false;
        }
        self.watch.clear();
        self.messages.clear();
        self.samples.clear();
    }
}
