//! How a stream ended.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How a stream, or a worker's part of one, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamEnd {
    /// When its last request was done, after the phase's start.
    pub last_done: Duration,
    /// Whether it had nothing left to send, rather than being ended by the clock or by an order to stop.
    pub ran_out: bool,
}

impl StreamEnd {
    /// The end of a part that had nothing to do.
    pub const NOTHING: Self = Self { last_done: Duration::ZERO, ran_out: true };

    /// The end of two parts together.
    pub fn and(self, other: Self) -> Self {
        Self { last_done: self.last_done.max(other.last_done), ran_out: self.ran_out && other.ran_out }
    }
}
