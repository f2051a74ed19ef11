//! One request in flight on one connection, for any protocol; designed for many small requests per second on one
//! thread.
//!
//! A request costs one write and one read when both fit the socket's buffers. A partial read tells Tokio that the
//! socket is drained, so the next read waits until the kernel reports data. The timeout costs a comparison: its timer
//! is armed once per period, not per request. The caller decides on retries.

use std::fmt::Display;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use loadframe_engine::driver::{ErrorClass, Overhead};
use loadframe_engine::recording::reconnects;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::deadline::{Deadline, Limit};
use super::exchange::{Exchanged, Frame};
use super::marks::Timestamped;
use super::tls::refusal;
use super::trouble::Trouble;
use super::wire::Wire;

/// A client of one connection.
pub struct Client<F> {
    answer: F,
    deadline: Deadline,
}

impl<F: Frame> Client<F> {
    /// Creates a client that reads its answers into `answer`.
    pub fn with(answer: F) -> Self {
        Self { answer, deadline: Deadline::default() }
    }

    /// Returns the reader of answers, to set it up for the next answer.
    pub fn answer_mut(&mut self) -> &mut F {
        &mut self.answer
    }

    /// Sends a request over the open connection `wire` and reads the answer, which `answer` holds until the next call.
    /// `parts` are its bytes, such as head and body. Returns the times and bytes, also after a failure: a timeout at
    /// `limit.due`, or a missing, broken or malformed connection or answer. Sets `wire` to `None` and counts a lost
    /// connection if it cannot be used again. If the server answers before it has read the whole request, that answer
    /// counts.
    pub async fn speak(
        &mut self,
        wire: &mut Option<Wire>,
        parts: [&[u8]; 2],
        limit: Limit,
    ) -> (Exchanged, Result<(), Trouble>) {
        // The wire is put back only after a successful exchange; an aborted one makes it unusable.
        let taken = wire.take();
        let sent = Instant::now();
        let Some(mut stream) = taken else {
            return (Exchanged::between(sent, sent), Err(Trouble::broken("not connected")));
        };
        let due = limit.due;
        self.deadline.arm(due);
        stream.begin_request();

        let mut outgoing = Outgoing { parts, written: 0, flushed: false, trouble: None };
        let mut done = sent;
        let outcome = poll_fn(|cx| {
            outgoing.poll(&mut stream, cx);
            if let Poll::Ready(outcome) = poll_answer(&mut stream, &mut self.answer, limit, &mut done, cx) {
                return Poll::Ready(outcome);
            }
            ready!(self.deadline.poll(due, cx));
            done = Instant::now();
            Poll::Ready(Err(late(&self.answer, limit)))
        })
        .await;
        let (bytes_sent, bytes_received) = (outgoing.written as u64, self.answer.received());
        let overhead = if outcome.is_ok() { stream.overhead(sent, done) } else { Overhead::default() };
        let outcome = match (outcome, outgoing.trouble.take()) {
            (Err(trouble), Some(error)) if trouble.class == ErrorClass::Connect => {
                Err(Trouble::broken(format!("the connection broke while sending: {error}")))
            }
            (outcome, _) => outcome,
        };
        if outcome.is_ok() && self.answer.reusable() && outgoing.flushed {
            *wire = Some(stream);
        } else {
            reconnects::lost();
        }
        (Exchanged { sent, done, bytes_sent, bytes_received, overhead }, outcome)
    }

    /// Returns the answer of the last exchange; complete if the exchange succeeded.
    pub fn answer(&self) -> &F {
        &self.answer
    }
}

/// A request that is being written.
struct Outgoing<'a> {
    parts: [&'a [u8]; 2],
    written: usize,
    /// Whether the TLS buffers are empty.
    flushed: bool,
    /// The write error, if any. Writing stops, but the server may already have sent an answer.
    trouble: Option<io::Error>,
}

impl Outgoing<'_> {
    /// Returns whether all parts are written.
    fn is_written(&self) -> bool {
        self.written == self.parts[0].len() + self.parts[1].len()
    }

    /// Writes until the socket is full or the request is sent, then flushes. Keeps a write error in `trouble`.
    fn poll(&mut self, wire: &mut Wire, cx: &mut Context<'_>) {
        while !self.is_written() && self.trouble.is_none() {
            let [head, body] = self.parts;
            let wire = Pin::new(&mut *wire);
            let written = if self.written >= head.len() {
                wire.poll_write(cx, &body[self.written - head.len()..])
            } else if body.is_empty() {
                wire.poll_write(cx, &head[self.written..])
            } else {
                wire.poll_write_vectored(cx, &[io::IoSlice::new(&head[self.written..]), io::IoSlice::new(body)])
            };
            match written {
                Poll::Ready(Ok(count)) => self.written += count,
                Poll::Ready(Err(error)) => self.trouble = Some(error),
                Poll::Pending => return,
            }
        }
        if !self.flushed && self.trouble.is_none() {
            match Pin::new(wire).poll_flush(cx) {
                Poll::Ready(Ok(())) => self.flushed = true,
                Poll::Ready(Err(error)) => self.trouble = Some(error),
                Poll::Pending => {}
            }
        }
    }
}

/// Reads the available bytes. Ready when the answer is complete, can never be complete, or exceeds the limit. The limit
/// is checked here too, because the timer alone would miss an answer that never pauses. Sets `done` after each read.
/// The result is a failure if the answer is not complete.
fn poll_answer(
    wire: &mut Wire,
    answer: &mut impl Frame,
    limit: Limit,
    done: &mut Instant,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Trouble>> {
    loop {
        let mut space = ReadBuf::new(answer.space().map_err(malformed)?);
        let read = ready!(Pin::new(&mut *wire).poll_read(cx, &mut space));
        let count = space.filled().len();
        *done = Instant::now();
        let complete = match read {
            Ok(()) if count > 0 => answer.advance(count).map_err(malformed)?,
            Ok(()) if answer.end() => true,
            Ok(()) => return Poll::Ready(Err(closed(answer))),
            // TLS ended without close_notify, so the answer may be truncated.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Err(closed(answer))),
            Err(error) => {
                let words = refusal(&error).unwrap_or_else(|| error.to_string());
                return Poll::Ready(Err(Trouble::broken(format!("the connection broke: {words}"))));
            }
        };
        if complete {
            return Poll::Ready(Ok(()));
        }
        if *done >= limit.due {
            return Poll::Ready(Err(late(answer, limit)));
        }
    }
}

/// Returns the timeout of a request: without an answer, or with a part of one. Both the timer and a read use it.
fn late(answer: &impl Frame, limit: Limit) -> Trouble {
    Trouble::late(if answer.received() == 0 { "no answer" } else { "no complete answer" }, limit)
}

/// Returns the failure of a malformed answer.
fn malformed(error: impl Display) -> Trouble {
    Trouble::broken(error.to_string())
}

/// Returns the failure if the server closed the connection before the end of its answer.
fn closed(answer: &impl Frame) -> Trouble {
    let when = if answer.received() == 0 { "without an answer" } else { "in the middle of its answer" };
    Trouble::broken(format!("the server closed the connection {when}"))
}
