//! An HTTP/1.1 client with one request in flight.

use super::answer::{Answer, Body};
use crate::net::client::Client;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::trouble::Trouble;
use crate::net::wire::Wire;

/// A client that reads HTTP/1.1 answers.
pub type HttpClient = Client<Answer>;

impl HttpClient {
    /// Creates a client without an answer.
    pub fn new() -> Self {
        Self::with(Answer::new())
    }

    /// Discards the last answer.
    pub fn forget(&mut self) {
        self.answer_mut().begin(Body::None);
    }

    /// Sends the request `parts`, one after the other, over the open connection `wire`, and reads the answer; see
    /// `speak`. `body` sets the handling of the answer's body.
    pub async fn exchange(
        &mut self,
        wire: &mut Option<Wire>,
        parts: [&[u8]; 2],
        body: Body,
        limit: Limit,
    ) -> (Exchanged, Result<(), Trouble>) {
        self.answer_mut().begin(body);
        self.speak(wire, parts, limit).await
    }
}
