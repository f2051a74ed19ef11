//! One request and its answer on a connection: how the end of the answer is recognised, and when the bytes went and came.

use std::fmt::Display;
use std::time::Instant;

use loadframe_engine::driver::{Failure, Part, Reply};

/// What takes the bytes of an answer as they come, and knows where it ends.
pub trait Frame {
    /// Says in words what is wrong with an answer.
    type Error: Display;
    /// Where the next bytes are to be put; never empty.
    fn space(&mut self) -> Result<&mut [u8], Self::Error>;
    /// Takes note of `count` bytes that were put into `space`. Says whether the answer is complete.
    fn advance(&mut self, count: usize) -> Result<bool, Self::Error>;
    /// The peer has closed the connection. Says whether that completes the answer.
    fn end(&mut self) -> bool;
    /// Bytes that came.
    fn received(&self) -> u64;
    /// Whether the connection can serve another exchange after this answer.
    fn reusable(&self) -> bool;
}

/// A request that was sent, or begun to be.
#[derive(Debug)]
pub struct Exchanged {
    /// Right before the first byte was written.
    pub sent: Instant,
    /// Right after the last byte was read, or when the request was given up.
    pub done: Instant,
    /// Bytes that the kernel took.
    pub bytes_sent: u64,
    /// Bytes that came.
    pub bytes_received: u64,
}

impl Exchanged {
    /// One that never began.
    pub fn never() -> Self {
        let now = Instant::now();
        Self { sent: now, done: now, bytes_sent: 0, bytes_received: 0 }
    }

    /// What became of the request that it was.
    pub fn reply(self, node: u16, documents: u64, outcome: Result<(), Failure>) -> Reply {
        let Self { sent, done, bytes_sent, bytes_received } = self;
        Reply { bytes_sent, bytes_received, documents, node, ..Reply::new(sent, done, outcome) }
    }

    /// What became of the part of a request that it was; `name` is its place among the operation's parts.
    pub fn part(&self, name: usize, outcome: Result<(), &Failure>) -> Part {
        let Self { sent, done, .. } = *self;
        let failed = outcome.err().map(|failure| failure.class);
        Part { name, sent, done, documents: u64::from(failed.is_none()), failed }
    }

    /// This one and a later one of the same request.
    pub fn then(&self, later: &Self) -> Self {
        Self {
            sent: self.sent,
            done: later.done,
            bytes_sent: self.bytes_sent + later.bytes_sent,
            bytes_received: self.bytes_received + later.bytes_received,
        }
    }
}
