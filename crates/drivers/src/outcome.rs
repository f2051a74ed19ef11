//! The outcome of one exchange. The driver owns its answer.

use loadframe_engine::driver::{Failure, Reply};

use crate::net::exchange::Exchanged;

/// An answer that returns or acknowledges documents.
pub trait Documents {
    /// Returns the number of documents.
    fn documents(&self) -> u64;
}

/// Outcome of one exchange.
pub struct Outcome<A> {
    /// Times and bytes.
    pub exchanged: Exchanged,
    /// The node that served the request, or [`NO_NODE`](loadframe_engine::driver::NO_NODE).
    pub node: u16,
    /// The judged answer, or the reason for its absence.
    pub answer: Result<A, Failure>,
}

impl<A> Outcome<A> {
    /// Creates the outcome of a request that failed before it was sent to `node`.
    pub fn unsent(node: u16, failure: Failure) -> Self {
        Self { exchanged: Exchanged::never(), node, answer: Err(failure) }
    }

    /// Replaces a successful answer by the result of `judge`, which may be a failure.
    pub fn then(self, judge: impl FnOnce(A) -> Result<A, Failure>) -> Self {
        Self { answer: self.answer.and_then(judge), ..self }
    }

    /// Returns times and bytes of the exchange as a successful reply without documents.
    pub fn exchange(&self) -> Reply {
        self.exchanged.reply(self.node, 0, Ok(()))
    }
}

impl<A: Documents> Outcome<A> {
    /// Returns the reply of an operation with this single exchange; a failure has 0 documents.
    pub fn reply(self) -> Reply {
        self.parted().0
    }

    /// Returns the reply, and the answer if it is a success. The reply to a failure has 0 documents.
    pub fn parted(self) -> (Reply, Option<A>) {
        let documents = self.answer.as_ref().map_or(0, A::documents);
        let (outcome, answer) = match self.answer {
            Ok(answer) => (Ok(()), Some(answer)),
            Err(failure) => (Err(failure), None),
        };
        (self.exchanged.reply(self.node, documents, outcome), answer)
    }
}
