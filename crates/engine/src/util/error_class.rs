//! Error classes.

use serde::Deserialize;

/// Class of an error, by which errors are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(usize)]
pub enum ErrorClass {
    /// The connection failed or broke.
    Connect,
    /// No answer in time, or the answer reports a time-out.
    Timeout,
    /// The store is overloaded: 429.
    Rejected,
    /// The request is wrong: 4xx.
    Client,
    /// The store failed: 5xx, failed shards.
    Server,
    /// The request succeeded, but some of its items failed.
    Item,
    /// The answer violates an assertion of the workload.
    Assertion,
    /// A write did not become visible in time.
    Unseen,
}

impl ErrorClass {
    /// All classes, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Connect,
        Self::Timeout,
        Self::Rejected,
        Self::Client,
        Self::Server,
        Self::Item,
        Self::Assertion,
        Self::Unseen,
    ];

    /// Returns whether a retry of the same request may succeed.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Connect | Self::Timeout | Self::Rejected | Self::Server)
    }

    /// Returns the class's name in plans and records.
    pub fn name(self) -> &'static str {
        ["connect", "timeout", "rejected", "client", "server", "item", "assertion", "unseen"][self as usize]
    }
}
