//! Operations of several exchanges: the sum of their outcomes, and where one uses the answer to another.

use loadframe_engine::driver::{Part, Reply};

/// The outcomes of the exchanges so far.
#[derive(Default)]
pub struct Exchanges {
    whole: Option<Reply>,
    parts: Vec<Part>,
}

impl Exchanges {
    /// Adds an exchange, which is the part number `name`; says whether it was a success.
    pub fn add(&mut self, name: usize, reply: Reply) -> bool {
        let failed = reply.outcome.as_ref().err().map(|failure| failure.class);
        self.parts.push(Part { name, sent: reply.sent, done: reply.done, documents: reply.documents, failed });
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
        failed.is_none()
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
