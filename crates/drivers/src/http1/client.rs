//! One HTTP/1.1 request in flight on a connection.

use super::answer::{Answer, Body};
use crate::net::client::Client;
use crate::net::deadline::Limit;
use crate::net::exchange::Exchanged;
use crate::net::trouble::Trouble;
use crate::net::wire::Wire;

/// A client that reads HTTP/1.1 answers.
pub type HttpClient = Client<Answer>;

impl HttpClient {
    /// Without an answer yet.
    pub fn new() -> Self {
        Self::with(Answer::new())
    }

    /// Forgets the last answer.
    pub fn forget(&mut self) {
        self.answer_mut().begin(Body::None);
    }

    /// Sends a request that consists of `parts` and reads the answer; see `speak`. `body`: what is done with the
    /// answer's.
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
