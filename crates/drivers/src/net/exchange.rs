//! One request and its answer on a connection: how to find the end of the answer, and when bytes were sent and
//! received.
//!
//! Drivers take `sent` and `done` from an [`Exchanged`]. It has three sources:
//!
//! - `Client::speak`, for connections of this crate
//! - `Marks`, for a library that gets its connection from this crate
//! - [`Exchanged::around`], for a library that hides its connection

use std::fmt::Display;
use std::time::Instant;

use loadframe_engine::driver::{Failure, Overhead, Reply};

/// A reader of answers that finds the end of an answer.
pub trait Frame {
    /// The error of a malformed answer; users see its text.
    type Error: Display;
    /// Returns the buffer for the next bytes; never empty. Fails if the answer is too long.
    fn space(&mut self) -> Result<&mut [u8], Self::Error>;
    /// Adds the `count` bytes that were written to `space`. Returns whether the answer is complete; fails if it is
    /// malformed.
    fn advance(&mut self, count: usize) -> Result<bool, Self::Error>;
    /// Handles the end of the connection by the peer. Returns whether this completes the answer.
    fn end(&mut self) -> bool;
    /// Returns the bytes received.
    fn received(&self) -> u64;
    /// Returns whether the connection can serve another exchange after this answer.
    fn reusable(&self) -> bool;
}

/// A request that was sent, completely or in part.
#[derive(Clone, Copy, Debug)]
pub struct Exchanged {
    /// Right before the first byte was written. Of several exchanges in turn, later by the time between them, so that
    /// `done - sent` is their sum.
    pub sent: Instant,
    /// Right after the last byte was read, or when the client gave the request up.
    pub done: Instant,
    /// Bytes that the kernel accepted.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// The generator's part of `sent..done`, if the kernel's timestamps are on.
    pub overhead: Overhead,
}

impl Exchanged {
    /// Returns the exchange of a request that was not sent.
    pub fn never() -> Self {
        let now = Instant::now();
        Self::between(now, now)
    }

    /// Returns an exchange without bytes that was sent and done at these times.
    pub fn between(sent: Instant, done: Instant) -> Self {
        Self { sent, done, bytes_sent: 0, bytes_received: 0, overhead: Overhead::default() }
    }

    /// Returns the exchange of a request that is given up now. It has the duration and bytes of `before`, or none.
    pub fn given_up(before: Option<Self>) -> Self {
        Self::never().after(before)
    }

    /// Returns the exchange of a request without a server: it lasts two readings of the clock.
    pub fn at_once() -> Self {
        let sent = Instant::now();
        Self::between(sent, Instant::now())
    }

    /// Returns the reply of the whole request, which `node` served, with this number of documents and outcome.
    pub fn reply(self, node: u16, documents: u64, outcome: Result<(), Failure>) -> Reply {
        let Self { sent, done, bytes_sent, bytes_received, overhead } = self;
        Reply { bytes_sent, bytes_received, documents, node, overhead, ..Reply::new(sent, done, outcome) }
    }

    /// Returns the reply of the whole request, which `node` served. `judged` is the number of documents or the failure
    /// of its judged answer.
    pub fn judged(self, node: u16, judged: Result<u64, Failure>) -> Reply {
        let documents = judged.as_ref().map_or(0, |documents| *documents);
        self.reply(node, documents, judged.map(drop))
    }

    /// Awaits `request`, for a library that hides its connection. Returns its times, with zero bytes, and its result.
    /// The time includes the library's encoding and queues.
    pub async fn around<T>(request: impl Future<Output = T>) -> (Self, T) {
        let sent = Instant::now();
        let outcome = request.await;
        (Self::between(sent, Instant::now()), outcome)
    }

    /// Combines this exchange with a concurrent one of the same request, if any: from the first start to the last end,
    /// with the bytes of both.
    pub fn beside(self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        let times = |exchanged: &Self| (exchanged.overhead, (exchanged.sent, exchanged.done));
        Self {
            sent: self.sent.min(other.sent),
            done: self.done.max(other.done),
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_received: self.bytes_received + other.bytes_received,
            overhead: Overhead::beside(times(&self), times(&other)),
        }
    }

    /// Returns the times and bytes of a reply.
    pub fn of(reply: &Reply) -> Self {
        let &Reply { sent, done, bytes_sent, bytes_received, overhead, .. } = reply;
        Self { sent, done, bytes_sent, bytes_received, overhead }
    }

    /// Returns `later`, the reply to a later exchange of the same operation, with the times and bytes of both; see
    /// [`Self::then`].
    pub fn followed_by(self, later: Reply) -> Reply {
        let Self { sent, done, bytes_sent, bytes_received, overhead } = self.then(&Self::of(&later));
        Reply { sent, done, bytes_sent, bytes_received, overhead, ..later }
    }

    /// Combines this exchange with an earlier one of the same request, if any; see [`Self::then`].
    pub fn after(self, before: Option<Self>) -> Self {
        before.map_or(self, |before| before.then(&self))
    }

    /// Combines this exchange with a later one of the same request. The time between the two, in which the driver
    /// connects, looks up a name or waits, is not service time: `sent` moves later by it. Bytes add up.
    pub fn then(&self, later: &Self) -> Self {
        Self {
            sent: self.sent + later.sent.saturating_duration_since(self.done),
            done: later.done,
            bytes_sent: self.bytes_sent + later.bytes_sent,
            bytes_received: self.bytes_received + later.bytes_received,
            overhead: self.overhead.then(later.overhead),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns a function that makes an exchange of two instants, in ms after a common one.
    fn exchanges() -> impl Fn(u64, u64) -> Exchanged {
        let start = Instant::now();
        move |from, to| Exchanged {
            sent: start + Duration::from_millis(from),
            done: start + Duration::from_millis(to),
            bytes_sent: 1,
            bytes_received: 2,
            overhead: Overhead::new(Some(Duration::from_millis(1)), Duration::ZERO),
        }
    }

    #[test]
    fn a_request_given_up_after_an_answer_ends_when_it_is_given_up() {
        let sent = Instant::now();
        let before = Exchanged { bytes_sent: 3, bytes_received: 4, ..Exchanged::between(sent, sent) };
        std::thread::sleep(Duration::from_millis(2));
        let whole = Exchanged::given_up(Some(before));
        assert_eq!((whole.bytes_sent, whole.bytes_received), (3, 4));
        assert!(whole.done > before.done);
        assert_eq!(whole.done - whole.sent, before.done - before.sent);
    }

    #[test]
    fn service_time_excludes_the_time_between_exchanges() {
        let at = exchanges();
        let whole = at(0, 3).then(&at(50, 54)).then(&at(54, 60));
        assert_eq!(whole.done, at(0, 60).done);
        assert_eq!(whole.done - whole.sent, Duration::from_millis(3 + 4 + 6));
        assert_eq!((whole.bytes_sent, whole.bytes_received), (3, 6));
        assert_eq!(whole.overhead.total(), Some(Duration::from_millis(3)));
    }

    #[test]
    fn concurrent_exchanges_of_one_request_span_from_the_first_byte_to_the_last() {
        let at = exchanges();
        for (one, other) in [(at(1, 5), at(2, 9)), (at(2, 9), at(1, 5))] {
            let whole = one.beside(Some(other));
            assert_eq!((whole.sent, whole.done), (at(1, 9).sent, at(1, 9).done));
            assert_eq!((whole.bytes_sent, whole.bytes_received), (2, 4));
            assert_eq!(whole.overhead.total(), Some(Duration::from_millis(1)));
        }
        assert_eq!(at(3, 4).beside(None).done, at(3, 4).done);
    }
}
