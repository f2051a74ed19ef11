//! Operations of several exchanges: the sum of their outcomes, and where one uses the answer to another.

use std::time::Instant;

use loadframe_engine::driver::{ErrorClass, Failure, Reply, ReplyPart};

use crate::net::exchange::Exchanged;

/// Where a part of several exchanges begins; see [`Exchanges::begin`].
#[derive(Clone, Copy, Debug)]
pub struct Begun(usize);

/// The outcomes of the exchanges so far.
#[derive(Default)]
pub struct Exchanges {
    whole: Option<Reply>,
    /// When each exchange was sent and done.
    times: Vec<(Instant, Instant)>,
    parts: Vec<ReplyPart>,
    /// How the last one failed, if it did.
    last: Option<ErrorClass>,
}

impl Exchanges {
    /// Adds an exchange, which is the part number `name`; says whether it was a success.
    pub fn add(&mut self, name: usize, reply: Reply) -> bool {
        let failed = reply.outcome.as_ref().err().map(|failure| failure.class);
        self.parts.push(ReplyPart { name, sent: reply.sent, done: reply.done, documents: reply.documents, failed });
        self.join(reply)
    }

    /// Begins a part that consists of the exchanges from here on.
    pub fn begin(&self) -> Begun {
        Begun(self.times.len())
    }

    /// Adds a part that is over: from when the first of its exchanges was sent until the last was done.
    pub fn end(&mut self, name: usize, begun: Begun, failed: Option<ErrorClass>) {
        let times = &self.times[begun.0..];
        let never = Exchanged::never();
        let sent = times.first().map_or(never.sent, |(sent, _)| *sent);
        let done = times.last().map_or(never.done, |(_, done)| *done);
        self.parts.push(ReplyPart { name, sent, done, documents: 0, failed });
    }

    /// Returns when the first exchange was sent; `None` if there was none.
    pub fn sent(&self) -> Option<Instant> {
        self.times.first().map(|(sent, _)| *sent)
    }

    /// Adds an exchange that could not begin, and returns the reason.
    pub fn unsent(&mut self, failure: Failure) -> Failure {
        self.join(Reply::unsent(failure.clone()));
        failure
    }

    /// Adds an exchange, but not as a part; says whether it was a success.
    pub fn join(&mut self, reply: Reply) -> bool {
        self.times.push((reply.sent, reply.done));
        self.last = reply.outcome.as_ref().err().map(|failure| failure.class);
        self.whole = Some(match self.whole.take() {
            None => reply,
            Some(before) => Reply {
                sent: before.sent,
                bytes_sent: before.bytes_sent + reply.bytes_sent,
                bytes_received: before.bytes_received + reply.bytes_received,
                documents: before.documents + reply.documents,
                outcome: before.outcome.and(reply.outcome),
                ..reply
            },
        });
        self.last.is_none()
    }

    /// How the last exchange failed; `None` if it was a success.
    pub fn last(&self) -> Option<ErrorClass> {
        self.last
    }

    /// How the first exchange failed of those that did.
    pub fn failed(&self) -> Option<ErrorClass> {
        self.whole.as_ref()?.outcome.as_ref().err().map(|failure| failure.class)
    }

    /// How many parts with that number there were.
    pub fn count(&self, name: usize) -> u64 {
        self.parts.iter().filter(|part| part.name == name).count() as u64
    }

    /// All of it together: its first failure, from when its first exchange was sent until its last was done.
    pub fn finish(self) -> Reply {
        let whole = self.whole.expect("an operation has an exchange");
        Reply { parts: self.parts, ..whole }
    }
}
