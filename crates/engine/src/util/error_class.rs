//! The classes that errors are counted by.

/// The classes that errors are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(usize)]
pub enum ErrorClass {
    /// No connection, or it broke.
    Connect,
    /// No answer in time, or an answer that says that it ran out of time.
    Timeout,
    /// The store pushes back: 429, overloaded.
    Rejected,
    /// The request is wrong: 4xx.
    Client,
    /// The store is: 5xx, failed shards.
    Server,
    /// The request succeeded, some of its items did not.
    Item,
    /// The answer is not what the workload asserts.
    Assertion,
    /// What was written did not become visible in time.
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

    /// Whether the same request may succeed when it is tried again.
    pub fn may_pass(self) -> bool {
        matches!(self, Self::Connect | Self::Timeout | Self::Rejected | Self::Server)
    }

    /// The name in records.
    pub fn name(self) -> &'static str {
        ["connect", "timeout", "rejected", "client", "server", "item", "assertion", "unseen"][self as usize]
    }
}
