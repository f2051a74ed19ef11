//! End of a stream.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// End of a stream, or of a worker's part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEnd {
    /// End of its last request, after the phase's start.
    pub last_done: Duration,
    /// Whether all of its requests were sent. False if the clock or a stop ended it.
    pub ran_out: bool,
    /// Iterations with pacing that started in the measured window.
    pub iterations: u64,
    /// Those that took longer than the pacing.
    pub overruns: u64,
}

impl StreamEnd {
    /// The end of an empty part.
    pub const NOTHING: Self = Self { last_done: Duration::ZERO, ran_out: true, iterations: 0, overruns: 0 };

    /// Combines the ends of two parts: the latest end, sums of counts, and whether both ran out.
    pub fn and(self, other: Self) -> Self {
        Self {
            last_done: self.last_done.max(other.last_done),
            ran_out: self.ran_out && other.ran_out,
            iterations: self.iterations + other.iterations,
            overruns: self.overruns + other.overruns,
        }
    }
}
