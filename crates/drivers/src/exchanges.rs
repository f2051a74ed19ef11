//! Operations with several exchanges: their combined outcome, including requests that use an earlier answer. The time
//! between exchanges, which the client spends, is not service time.

use loadframe_engine::driver::{ErrorClass, Failure, Reply, ReplyPart};

use crate::net::exchange::Exchanged;

/// Executes a read_modify_write: `write` sends the write if `read` succeeded. The reply has both as parts, counts the
/// written document, and has the sum of their service times. After a failed read, it is the reply of the read.
pub async fn read_modify_write(read: Reply, write: impl AsyncFnOnce() -> Reply) -> Reply {
    let mut parts = vec![read.part(0)];
    if read.outcome.is_err() {
        return Reply { parts, ..read };
    }
    let written = write().await;
    parts.push(written.part(1));
    Reply { parts, ..followed_by(&read, written) }
}

/// Returns `later` with the times and bytes of both; see [`Exchanged::then`]. It has the node of the last exchange that
/// was sent.
fn followed_by(before: &Reply, later: Reply) -> Reply {
    let node = later.node_or(before.node);
    Reply { node, ..Exchanged::of(before).followed_by(later) }
}

/// Appends `line` on a new line of `text`, the request or the answer to display.
pub fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Start of a part with several exchanges; see [`Exchanges::begin`].
#[derive(Clone, Copy, Debug)]
pub struct PartStart(usize);

/// Outcomes of the exchanges so far.
#[derive(Default)]
pub struct Exchanges {
    whole: Option<Reply>,
    /// Times and bytes of each exchange.
    times: Vec<Exchanged>,
    parts: Vec<ReplyPart>,
    /// Error class of the last exchange; `None` if it succeeded.
    last: Option<ErrorClass>,
}

impl Exchanges {
    /// Adds an exchange as the part with the index `name` in the operation's parts; returns whether it succeeded.
    pub fn add(&mut self, name: usize, reply: Reply) -> bool {
        self.parts.push(reply.part(name));
        self.join(reply)
    }

    /// Starts a part that covers all exchanges from here on.
    pub fn begin(&self) -> PartStart {
        PartStart(self.times.len())
    }

    /// Adds the part with the index `name`: from sending its first exchange since `begun` to the end of its last, with
    /// the time in between. `failed` is its error class. Without an exchange, it starts and ends now.
    pub fn end(&mut self, name: usize, begun: PartStart, failed: Option<ErrorClass>) {
        let times = &self.times[begun.0..];
        let never = Exchanged::never();
        let sent = times.first().map_or(never.sent, |first| first.sent);
        let done = times.last().map_or(never.done, |last| last.done);
        self.parts.push(ReplyPart { name, sent, done, documents: 0, failed });
    }

    /// Returns the sum of all exchanges and of `before`, earlier ones of the same operation; `None` if there was none.
    pub fn sum(&self, before: Option<Exchanged>) -> Option<Exchanged> {
        before.into_iter().chain(self.times.iter().copied()).reduce(|before, later| before.then(&later))
    }

    /// Adds an exchange that could not start, and returns `failure`.
    pub fn unsent(&mut self, failure: Failure) -> Failure {
        self.join(Reply::unsent(failure.clone()));
        failure
    }

    /// Adds an exchange to the combined outcome without a part; returns whether it succeeded.
    pub fn join(&mut self, reply: Reply) -> bool {
        self.times.push(Exchanged::of(&reply));
        self.last = reply.outcome.as_ref().err().map(|failure| failure.class);
        self.whole = Some(match self.whole.take() {
            None => reply,
            Some(before) => {
                let both = followed_by(&before, reply);
                let documents = before.documents + both.documents;
                Reply { documents, outcome: before.outcome.and(both.outcome), ..both }
            }
        });
        self.last.is_none()
    }

    /// Returns the error class of the last exchange; `None` if it succeeded, or if there was none.
    pub fn last(&self) -> Option<ErrorClass> {
        self.last
    }

    /// Returns the error class of the first failed exchange; `None` if all succeeded.
    pub fn failed(&self) -> Option<ErrorClass> {
        self.whole.as_ref()?.outcome.as_ref().err().map(|failure| failure.class)
    }

    /// Returns the number of parts added with the index `name`.
    pub fn count(&self, name: usize) -> u64 {
        self.parts.iter().filter(|part| part.name == name).count() as u64
    }

    /// Combines all exchanges into one reply: the first failure, and the sums of service times, bytes and documents.
    /// Panics without an exchange.
    pub fn finish(self) -> Reply {
        let whole = self.whole.expect("an operation has an exchange");
        Reply { parts: self.parts, ..whole }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[tokio::test]
    async fn exchanges_count_for_the_last_node_that_one_was_sent_to() {
        let now = Instant::now();
        let sent = |node| Reply { node, ..Reply::new(now, now, Ok(())) };
        let unsent = || Reply::unsent(Failure::new(ErrorClass::Rejected, "no primary"));
        assert_eq!(read_modify_write(sent(2), async || unsent()).await.node, 2);
        for (replies, node) in [([sent(2), unsent()], 2), ([unsent(), sent(2)], 2), ([sent(1), sent(2)], 2)] {
            let mut exchanges = Exchanges::default();
            for reply in replies {
                exchanges.join(reply);
            }
            assert_eq!(exchanges.finish().node, node);
        }
    }

    #[tokio::test]
    async fn a_read_modify_write_has_two_parts_and_stops_after_a_failed_read() {
        let start = Instant::now();
        let reply = |from: u64, outcome| {
            let [sent, done] = [from, from + 5].map(|millis| start + Duration::from_millis(millis));
            Reply { bytes_sent: 1, bytes_received: 2, documents: 1, ..Reply::new(sent, done, outcome) }
        };
        let whole = read_modify_write(reply(0, Ok(())), async || Reply { node: 3, ..reply(7, Ok(())) }).await;
        assert_eq!(whole.done, start + Duration::from_millis(12));
        assert_eq!(whole.done - whole.sent, Duration::from_millis(10), "without the time between the two");
        assert_eq!((whole.bytes_sent, whole.bytes_received, whole.documents, whole.node), (2, 4, 1, 3));
        let parts: Vec<_> = whole.parts.iter().map(|part| (part.name, part.documents, part.failed)).collect();
        assert_eq!(parts, [(0, 1, None), (1, 1, None)]);
        let missing = Err(Failure::new(ErrorClass::Client, "not found"));
        let whole = read_modify_write(reply(0, missing), async || unreachable!("nothing was read")).await;
        assert_eq!(whole.parts.len(), 1);
        assert!(whole.outcome.is_err());
    }

    #[test]
    fn the_service_time_of_several_exchanges_is_their_sum() {
        let start = Instant::now();
        let reply = |from: u64, to: u64| {
            let [sent, done] = [from, to].map(|millis| start + Duration::from_millis(millis));
            Reply { bytes_sent: 1, bytes_received: 2, documents: 1, ..Reply::new(sent, done, Ok(())) }
        };
        let mut exchanges = Exchanges::default();
        assert!(exchanges.sum(None).is_none());
        exchanges.add(0, reply(0, 3));
        let begun = exchanges.begin();
        exchanges.join(reply(50, 54));
        exchanges.join(reply(60, 61));
        exchanges.end(1, begun, None);
        let sum = exchanges.sum(Some(Exchanged::of(&reply(0, 0)))).unwrap();
        let whole = exchanges.finish();
        for (sent, done) in [(whole.sent, whole.done), (sum.sent, sum.done)] {
            assert_eq!((done - sent, done), (Duration::from_millis(3 + 4 + 1), start + Duration::from_millis(61)));
        }
        assert_eq!((whole.bytes_sent, whole.bytes_received, whole.documents), (3, 6, 3));
        let of = |part: &ReplyPart| (part.done - part.sent).as_millis();
        assert_eq!(whole.parts.iter().map(of).collect::<Vec<_>>(), [3, 11], "a part spans its exchanges");
    }
}
