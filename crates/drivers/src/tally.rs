//! What became of the documents of a bulk request, counted one by one.

use loadframe_engine::driver::{ErrorClass, Failure};

/// See the module.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many went well.
    pub documents: u64,
    failed: u64,
    /// Those that failed because of what they are.
    wrong: u64,
    first: Option<Failure>,
    /// The places of those that may get through when they are sent again.
    rejected: Vec<u32>,
}

impl Tally {
    /// Counts documents that went well.
    pub fn succeed(&mut self, documents: u64) {
        self.documents += documents;
    }

    /// Counts a failure, for as many documents as it says.
    pub fn fail(&mut self, failure: Failure) {
        self.failed += failure.items;
        self.wrong += if failure.class == ErrorClass::Client { failure.items } else { 0 };
        self.first.get_or_insert(failure);
    }

    /// Counts what became of the document at a place among those that were sent.
    pub fn count(&mut self, place: usize, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => self.succeed(1),
            Err(failure) => self.fail_at(&[place as u32], failure),
        }
    }

    /// Counts a failure of the documents at those places.
    pub fn fail_at(&mut self, places: &[u32], failure: Failure) {
        if failure.class.may_pass() {
            self.rejected.extend_from_slice(places);
        }
        self.fail(Failure { items: places.len() as u64, ..failure });
    }

    /// How many documents went well, the judgement of the request, and the places of the documents that may get through
    /// when they are sent again; these are none where the request has failed as a whole, since then all of them may.
    pub fn settle(mut self) -> (u64, Result<(), Failure>, Vec<u32>) {
        let mut rejected = std::mem::take(&mut self.rejected);
        rejected.sort_unstable();
        let documents = self.documents;
        let outcome = self.outcome();
        if outcome.as_ref().is_err_and(|failure| failure.class.may_pass()) {
            rejected.clear();
        }
        (documents, outcome, rejected)
    }

    /// The judgement of the request. One of which nothing got through, and not for what it carried, has failed as a whole.
    fn outcome(self) -> Result<(), Failure> {
        let whole = self.documents == 0 && self.wrong == 0;
        let items = self.failed;
        match self.first {
            None => Ok(()),
            Some(first) => Err(Failure { class: if whole { first.class } else { ErrorClass::Item }, items, ..first }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(documents: u64, failures: &[(ErrorClass, u64)]) -> (ErrorClass, u64) {
        let mut tally = Tally::default();
        tally.succeed(documents);
        for (class, items) in failures {
            tally.fail(Failure { class: *class, message: "no".to_owned(), items: *items });
        }
        let failure = tally.settle().1.unwrap_err();
        (failure.class, failure.items)
    }

    #[test]
    fn some_documents_that_fail_are_items_and_all_of_them_are_the_request() {
        assert_eq!(failed(2, &[(ErrorClass::Timeout, 1)]), (ErrorClass::Item, 1));
        assert_eq!(failed(0, &[(ErrorClass::Connect, 1), (ErrorClass::Connect, 1)]), (ErrorClass::Connect, 2));
        assert_eq!(failed(0, &[(ErrorClass::Connect, 3)]), (ErrorClass::Connect, 3));
        assert!(Tally::default().settle().1.is_ok());
    }

    #[test]
    fn documents_that_are_wrong_are_items_even_if_they_are_all_there_is() {
        assert_eq!(failed(0, &[(ErrorClass::Client, 1)]), (ErrorClass::Item, 1));
        assert_eq!(failed(0, &[(ErrorClass::Connect, 1), (ErrorClass::Client, 1)]), (ErrorClass::Item, 2));
    }

    #[test]
    fn documents_that_may_pass_are_named_unless_all_of_them_may() {
        let failure = |class| Failure { class, message: "no".to_owned(), items: 1 };
        let mut tally = Tally::default();
        tally.fail_at(&[5, 6], failure(ErrorClass::Connect));
        tally.count(0, Ok(()));
        tally.count(1, Err(failure(ErrorClass::Rejected)));
        tally.count(2, Err(failure(ErrorClass::Client)));
        let (documents, outcome, rejected) = tally.settle();
        assert_eq!((documents, outcome.unwrap_err().items, rejected), (1, 4, vec![1, 5, 6]));
        let mut tally = Tally::default();
        tally.count(0, Err(failure(ErrorClass::Rejected)));
        let (_, outcome, rejected) = tally.settle();
        assert!(outcome.is_err_and(|failure| failure.class == ErrorClass::Rejected) && rejected.is_empty());
    }
}
