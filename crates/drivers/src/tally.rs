//! Per-document outcomes of a bulk request.

use std::time::Instant;

use loadframe_engine::driver::{ErrorClass, Failure, Reply};

use crate::net::exchange::Exchanged;

/// Counted outcomes of a bulk request's documents.
#[derive(Debug, Default)]
pub struct Tally {
    /// Number of documents that succeeded.
    succeeded: u64,
    /// Whether some documents failed because of their content.
    wrong: bool,
    /// Whether a retry cannot help some failed documents.
    lost: bool,
    first: Option<Failure>,
    /// Positions of the documents that may succeed on a retry.
    rejected: Vec<u32>,
    /// Positions of lost documents, where known.
    refused: Vec<u32>,
}

impl Tally {
    /// Counts successful documents.
    pub fn succeed(&mut self, documents: u64) {
        self.succeeded += documents;
    }

    /// Records a failure of documents at unknown positions, which cannot be retried. The first failure determines the
    /// outcome.
    pub fn fail(&mut self, failure: Failure) {
        self.lost = true;
        self.wrong |= failure.class == ErrorClass::Client && !failure.denied;
        self.first.get_or_insert(failure);
    }

    /// Returns the first failure; `None` if all documents so far succeeded.
    pub fn first(&self) -> Option<&Failure> {
        self.first.as_ref()
    }

    /// Records the outcome of the document at a position in the request.
    pub fn count(&mut self, place: usize, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => self.succeed(1),
            Err(failure) => self.fail_at(&[place as u32], failure),
        }
    }

    /// Records a failure of the documents at these positions in the request.
    /// They may be retried unless their contents are the cause. The first failure determines the outcome.
    pub fn fail_at(&mut self, places: &[u32], failure: Failure) {
        if !failure.is_of_contents() {
            self.rejected.extend_from_slice(places);
            self.first.get_or_insert(failure);
        } else {
            self.refused.extend_from_slice(places);
            self.fail(failure);
        }
    }

    /// Adds the outcome of `reply`, the reply to a part of the request. `places` are the positions of the part's
    /// documents in the request. Without known positions, a failure counts for all of them.
    pub fn include(&mut self, reply: &Reply, places: &[u32]) {
        self.succeed(reply.documents);
        let Err(failure) = &reply.outcome else { return };
        if reply.rejected.is_empty() && reply.refused.is_empty() {
            return self.fail_at(places, failure.clone());
        }
        for (some, class) in [(&reply.rejected, ErrorClass::Rejected), (&reply.refused, ErrorClass::Client)] {
            let some: Vec<u32> = some.iter().filter_map(|place| places.get(*place as usize).copied()).collect();
            if !some.is_empty() {
                self.fail_at(&some, Failure::new(class, failure.message.clone()));
            }
        }
    }

    /// Returns the reply of a request with the exchanges `whole`, if any, to several nodes. `node`: the first of them.
    pub fn reply(self, whole: Option<Exchanged>, node: u16) -> Reply {
        let whole = whole.unwrap_or_else(Exchanged::never);
        let Exchanged { sent, done, bytes_sent, bytes_received, overhead } = whole;
        Reply { bytes_sent, bytes_received, node, overhead, ..self.settle(sent, done) }
    }

    /// Returns the reply to the request, sent at `sent` and completed at `done`, without bytes and node. If no document
    /// succeeded, and none failed because of its content, the whole request failed with the class of the first failure.
    /// This class decides on a retry; if it permits one, `rejected` is empty. Otherwise failures have the class
    /// [`ErrorClass::Item`]; `rejected` and `refused` hold the known positions of failed documents.
    pub fn settle(self, sent: Instant, done: Instant) -> Reply {
        let Self { succeeded, wrong, lost, first, mut rejected, mut refused } = self;
        let whole = succeeded == 0 && !wrong;
        let outcome = match first {
            None => Ok(()),
            Some(first) if whole => Err(first),
            Some(first) => Err(Failure { class: ErrorClass::Item, ..first }),
        };
        rejected.sort_unstable();
        refused.sort_unstable();
        if outcome.as_ref().is_err_and(|failure| failure.class.may_pass()) {
            rejected.clear();
        }
        Reply { documents: succeeded, rejected, lost, refused, ..Reply::new(sent, done, outcome) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the reply of a tally, for a request that took no time.
    fn settle(tally: Tally) -> Reply {
        let now = Instant::now();
        tally.settle(now, now)
    }

    /// Returns the error class of a request with this number of successful documents and these failures.
    fn class_of(documents: u64, failures: &[ErrorClass]) -> ErrorClass {
        let mut tally = Tally::default();
        tally.succeed(documents);
        for (place, class) in failures.iter().enumerate() {
            tally.count(place, Err(Failure::new(*class, "no")));
        }
        settle(tally).outcome.unwrap_err().class
    }

    /// Checks that a request has the class Item if some documents fail, and the class of the first failure if all do.
    #[test]
    fn some_documents_that_fail_are_items_and_all_of_them_are_the_request() {
        assert_eq!(class_of(2, &[ErrorClass::Timeout]), ErrorClass::Item);
        assert_eq!(class_of(0, &[ErrorClass::Connect, ErrorClass::Connect]), ErrorClass::Connect);
        assert!(settle(Tally::default()).outcome.is_ok());
    }

    /// Checks that a request has the class Item if a document fails because of its content, even if none succeeds.
    #[test]
    fn documents_that_are_wrong_are_items_even_if_they_are_all_there_is() {
        assert_eq!(class_of(0, &[ErrorClass::Client]), ErrorClass::Item);
        assert_eq!(class_of(0, &[ErrorClass::Connect, ErrorClass::Client]), ErrorClass::Item);
    }

    #[test]
    fn documents_that_may_pass_are_named_unless_all_of_them_may() {
        let failure = |class| Failure::new(class, "no");
        let mut tally = Tally::default();
        tally.fail_at(&[5, 6], failure(ErrorClass::Connect));
        tally.count(0, Ok(()));
        tally.count(1, Err(failure(ErrorClass::Rejected)));
        let mut wrong = Tally { rejected: tally.rejected.clone(), first: tally.first.clone(), ..Tally::default() };
        let reply = settle(tally);
        assert_eq!((reply.documents, reply.rejected, reply.lost), (1, vec![1, 5, 6], false));
        assert!(reply.refused.is_empty());
        wrong.count(2, Err(failure(ErrorClass::Client)));
        let reply = settle(wrong);
        assert_eq!((reply.documents, reply.rejected, reply.lost), (0, vec![1, 5, 6], true));
        assert_eq!(reply.refused, [2]);
        let mut tally = Tally::default();
        tally.count(0, Err(failure(ErrorClass::Rejected)));
        let reply = settle(tally);
        assert!(reply.outcome.is_err_and(|failure| failure.class == ErrorClass::Rejected) && reply.rejected.is_empty());
    }

    #[test]
    fn outcomes_of_a_partial_request_keep_document_indices() {
        let now = Instant::now();
        let mut sent = Tally::default();
        sent.succeed(1);
        sent.fail_at(&[0], Failure::new(ErrorClass::Rejected, "busy"));
        sent.fail_at(&[2], Failure::new(ErrorClass::Client, "wrong"));
        let mut tally = Tally::default();
        tally.include(&sent.settle(now, now), &[4, 6, 8]);
        tally.include(&Reply::new(now, now, Err(Failure::new(ErrorClass::Connect, "gone"))), &[1, 2]);
        let reply = settle(tally);
        assert_eq!((reply.documents, reply.rejected, reply.refused), (1, vec![1, 2, 4], vec![8]));
    }
}
