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

    /// The judgement of the request. One of which nothing got through, and not for what it carried, has failed as a whole.
    pub fn outcome(self) -> Result<(), Failure> {
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
        let failure = tally.outcome().unwrap_err();
        (failure.class, failure.items)
    }

    #[test]
    fn some_documents_that_fail_are_items_and_all_of_them_are_the_request() {
        assert_eq!(failed(2, &[(ErrorClass::Timeout, 1)]), (ErrorClass::Item, 1));
        assert_eq!(failed(0, &[(ErrorClass::Connect, 1), (ErrorClass::Connect, 1)]), (ErrorClass::Connect, 2));
        assert_eq!(failed(0, &[(ErrorClass::Connect, 3)]), (ErrorClass::Connect, 3));
        assert!(Tally::default().outcome().is_ok());
    }

    #[test]
    fn documents_that_are_wrong_are_items_even_if_they_are_all_there_is() {
        assert_eq!(failed(0, &[(ErrorClass::Client, 1)]), (ErrorClass::Item, 1));
        assert_eq!(failed(0, &[(ErrorClass::Connect, 1), (ErrorClass::Client, 1)]), (ErrorClass::Item, 2));
    }
}
