//! What one worker records in one second, as it is handed to the collector.

use super::cell::Cell;
use crate::driver::ErrorClass;
use crate::sample::Sample;
use crate::watch::Watch;

/// The message of an error; the first few are kept.
#[derive(Clone, Debug)]
pub struct Message {
    /// Index of the stream's operation.
    pub slot: usize,
    /// The class it was counted under.
    pub class: ErrorClass,
    /// The store's message, or the system's.
    pub text: String,
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
    pub watch: Watch,
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
            watch: Watch::new(),
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
    /// [`crate::worst`].
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
        self.messages.extend_from_slice(&other.messages);
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
