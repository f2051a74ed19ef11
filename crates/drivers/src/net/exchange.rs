//! One request and its answer on a connection: how the end of the answer is recognised, and when the bytes went and
//! came.
//!
//! Drivers take `sent` and `done` from an [`Exchanged`], which three places make: `Client::speak` for connections of our own,
//! `Marks` for a library that is given its connection, and [`Exchanged::around`] for one that hides it.

use std::fmt::Display;
use std::time::Instant;

use loadframe_engine::driver::{Failure, Reply, ReplyPart};

/// A reader of answers, which recognises the end of an answer.
pub trait Frame {
    /// What is wrong with an answer; its text is shown to users.
    type Error: Display;
    /// The buffer for the next bytes; never empty.
    fn space(&mut self) -> Result<&mut [u8], Self::Error>;
    /// Adds the `count` bytes that were written to `space`. Returns whether the answer is complete.
    fn advance(&mut self, count: usize) -> Result<bool, Self::Error>;
    /// The peer closed the connection. Returns whether that completes the answer.
    fn end(&mut self) -> bool;
    /// Bytes received.
    fn received(&self) -> u64;
    /// Whether the connection can serve another exchange after this answer.
    fn reusable(&self) -> bool;
}

/// A request that was sent completely or in part.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// Right before the first byte was written.
    pub sent: Instant,
    /// Right after the last byte was read, or when the request was given up.
    pub done: Instant,
    /// Bytes that the kernel accepted.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
}

impl Exchanged {
    /// A request that was not sent.
    pub fn never() -> Self {
        let now = Instant::now();
        Self { sent: now, done: now, bytes_sent: 0, bytes_received: 0 }
    }

    /// A request that needs no server: what reading the clock twice takes.
    pub fn at_once() -> Self {
        let sent = Instant::now();
        Self { sent, done: Instant::now(), bytes_sent: 0, bytes_received: 0 }
    }

    /// The reply of the whole request.
    pub fn reply(self, node: u16, documents: u64, outcome: Result<(), Failure>) -> Reply {
        let Self { sent, done, bytes_sent, bytes_received } = self;
        Reply { bytes_sent, bytes_received, documents, node, ..Reply::new(sent, done, outcome) }
    }

    /// The reply of one part of a request; `name` is the part's place among the operation's parts.
    pub fn part(&self, name: usize, outcome: Result<(), &Failure>) -> ReplyPart {
        let Self { sent, done, .. } = *self;
        let failed = outcome.err().map(|failure| failure.class);
        ReplyPart { name, sent, done, documents: u64::from(failed.is_none()), failed }
    }

    /// Times a request of a library that hides its connection: the library's encoding and its queues are inside.
    pub async fn around<T>(request: impl Future<Output = T>) -> (Self, T) {
        let sent = Instant::now();
        let outcome = request.await;
        (Self { sent, done: Instant::now(), bytes_sent: 0, bytes_received: 0 }, outcome)
    }

    /// This exchange joined with one of the same request that was under way at the same time, if there was one.
    pub fn beside(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        Self {
            sent: self.sent.min(other.sent),
            done: self.done.max(other.done),
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_received: self.bytes_received + other.bytes_received,
        }
    }

    /// This exchange joined with a later one of the same request.
    pub fn then(&self, later: &Self) -> Self {
        Self {
            sent: self.sent,
            done: later.done,
            bytes_sent: self.bytes_sent + later.bytes_sent,
            bytes_received: self.bytes_received + later.bytes_received,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn exchanges_of_one_request_span_from_the_first_byte_to_the_last() {
        let start = Instant::now();
        let at = |from: u64, to: u64| Exchanged {
            sent: start + Duration::from_millis(from),
            done: start + Duration::from_millis(to),
            bytes_sent: 1,
            bytes_received: 2,
        };
        for (one, other) in [(at(1, 5), at(2, 9)), (at(2, 9), at(1, 5))] {
            let whole = one.beside(Some(other));
            assert_eq!((whole.sent, whole.done), (at(1, 9).sent, at(1, 9).done));
            assert_eq!((whole.bytes_sent, whole.bytes_received), (2, 4));
        }
        assert_eq!(at(3, 4).beside(None).done, at(3, 4).done);
    }
}
