//! What one worker records in one second, as it is handed to the collector.

use super::cell::Cell;
use crate::driver::ErrorClass;
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
        }
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
    }
}
