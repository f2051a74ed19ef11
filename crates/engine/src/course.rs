//! What a stream does in one iteration: which operations, in which order, with which think times.

use crate::driver::Driver;
use crate::plan::Think;

/// A mapped operation of a stream.
pub struct Choice<D: Driver> {
    /// Ready to be executed.
    pub operation: D::Operation,
    /// Upper end of its range in the mix: it is picked when the draw is below this and not below the previous choice's.
    pub below: f64,
    /// Its place in the recorder.
    pub slot: usize,
    /// The counter that its requests use, as an index into [`Phase::counters`](crate::phase::Phase::counters): each takes the next number.
    pub uses: Option<usize>,
    /// The counter whose numbers its requests choose from, as an index into [`Phase::counters`](crate::phase::Phase::counters).
    pub reads: Option<usize>,
}

/// What a stream does in one iteration: a request picked from a mix, or a journey of several requests.
pub struct Course<D: Driver> {
    /// The mix's operations, or the journey's steps in order.
    pub choices: Vec<Choice<D>>,
    /// The think time after each step of a journey; empty for a mix.
    pub thinks: Vec<Think>,
}

impl<D: Driver> Course<D> {
    /// Requests of one iteration.
    pub fn steps(&self) -> u64 {
        self.thinks.len().max(1) as u64
    }

    /// The counters that its requests use.
    pub fn uses(&self) -> impl Iterator<Item = usize> {
        self.choices.iter().filter_map(|choice| choice.uses)
    }
}
