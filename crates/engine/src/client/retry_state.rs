//! Retry state of a request: all of it, or the documents of a bulk request that the store rejected. Stored
//! documents are not sent again: a store that generates ids would store them twice.

use std::time::Duration;

use crate::driver::{ErrorClass, Failure, Reply};

/// Pause before the first retry. It doubles with each further retry.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Maximum pause, unless the store requests a longer one.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Maximum pause that a store can request.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Remaining work and results of the attempts so far.
#[derive(Debug, Default)]
pub struct RetryState {
    /// Indices of the documents that the next attempt carries, in the whole request; `None` for all.
    documents: Option<Vec<u32>>,
    /// The first failure that made documents fail permanently.
    lost: Option<Failure>,
    /// Documents stored by earlier attempts.
    passed: u64,
}

impl RetryState {
    /// Creates the state of a request with these documents, or all.
    pub fn of(documents: Option<Vec<u32>>) -> Self {
        Self { documents, ..Self::default() }
    }

    /// Returns the indices of the documents for the next attempt, in the whole request; `None` for all.
    pub fn documents(&self) -> Option<&[u32]> {
        self.documents.as_deref()
    }

    /// Returns whether a retry may succeed after this attempt.
    pub fn may_pass(reply: &Reply) -> bool {
        let whole = reply.outcome.as_ref().is_err_and(|failure| failure.class.may_pass());
        whole || !reply.rejected.is_empty()
    }

    /// Returns the back-off before the next attempt, after `retries` retries. `spread` in [0, 1) lengthens it
    /// by up to half, so that clients that failed together do not retry together.
    pub fn pause(reply: &Reply, retries: u32, spread: f64) -> Duration {
        let doubled = FIRST_PAUSE.saturating_mul(1 << retries.min(10)).min(LONGEST_PAUSE).mul_f64(1.0 + spread / 2.0);
        doubled.max(reply.retry_after.unwrap_or_default().min(LONGEST_ASKED))
    }

    /// Records an attempt that will be retried.
    pub fn after(&mut self, reply: &Reply) {
        self.passed += reply.documents;
        if reply.rejected.is_empty() {
            return;
        }
        if let (true, Err(failure), None) = (reply.lost, &reply.outcome, &self.lost) {
            self.lost = Some(failure.clone());
        }
        let place = |of: &u32| match &self.documents {
            None => Some(*of),
            Some(before) => before.get(*of as usize).copied(),
        };
        self.documents = Some(reply.rejected.iter().filter_map(place).collect());
    }

    /// Returns the reply of the last attempt, with earlier permanent failures and stored documents included.
    pub fn settle(self, reply: Reply) -> Reply {
        let Self { lost, passed, .. } = self;
        let outcome = match (lost, reply.outcome) {
            (None, Err(failure)) if passed > 0 && failure.class != ErrorClass::Rejected => {
                Err(Failure { class: ErrorClass::Item, ..failure })
            }
            (Some(_), Err(failure)) => Err(Failure { class: ErrorClass::Item, ..failure }),
            (Some(lost), Ok(())) => Err(Failure { class: ErrorClass::Item, ..lost }),
            (None, outcome) => outcome,
        };
        Reply { outcome, earlier: passed, ..reply }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn reply(documents: u64, failed: Option<ErrorClass>, rejected: &[u32]) -> Reply {
        let now = Instant::now();
        let outcome = failed.map_or(Ok(()), |class| Err(Failure::new(class, "no")));
        Reply { documents, rejected: rejected.to_vec(), ..Reply::new(now, now, outcome) }
    }

    fn outcome(reply: Reply) -> Option<ErrorClass> {
        reply.outcome.err().map(|failure| failure.class)
    }

    #[test]
    fn only_the_documents_that_were_rejected_are_left_by_their_places_in_the_whole() {
        let mut state = RetryState::default();
        let first = reply(7, Some(ErrorClass::Rejected), &[1, 4, 9]);
        assert!(RetryState::may_pass(&first) && state.documents().is_none());
        state.after(&first);
        assert_eq!(state.documents(), Some(&[1, 4, 9][..]));
        state.after(&reply(1, Some(ErrorClass::Rejected), &[0, 2]));
        assert_eq!(state.documents(), Some(&[1, 9][..]));
        // After a failure of the whole attempt all of its documents remain.
        state.after(&reply(0, Some(ErrorClass::Connect), &[]));
        assert_eq!(state.documents(), Some(&[1, 9][..]));
        assert_eq!(outcome(state.settle(reply(2, None, &[]))), None);
    }

    #[test]
    fn a_request_that_was_rejected_until_the_end_counts_what_is_still_rejected() {
        let mut state = RetryState::default();
        state.after(&reply(7, Some(ErrorClass::Rejected), &[1, 4, 9]));
        assert_eq!(outcome(state.settle(reply(2, Some(ErrorClass::Rejected), &[2]))), Some(ErrorClass::Rejected));
        let mut state = RetryState::default();
        state.after(&reply(7, Some(ErrorClass::Rejected), &[1, 4, 9]));
        let gone = reply(0, Some(ErrorClass::Timeout), &[]);
        assert_eq!(outcome(state.settle(gone)), Some(ErrorClass::Item), "seven got through");
    }

    #[test]
    fn documents_that_failed_for_what_they_are_stay_failed() {
        let mut state = RetryState::default();
        let mixed = Reply { lost: true, ..reply(5, Some(ErrorClass::Item), &[0, 1]) };
        assert!(RetryState::may_pass(&mixed), "two of five were rejected");
        state.after(&mixed);
        assert_eq!(outcome(state.settle(reply(2, None, &[]))), Some(ErrorClass::Item));
        let mut state = RetryState::default();
        state.after(&Reply { lost: false, ..mixed });
        assert_eq!(outcome(state.settle(reply(2, None, &[]))), None, "only rejected documents failed");
        assert!(!RetryState::may_pass(&reply(5, Some(ErrorClass::Item), &[])));
        assert!(!RetryState::may_pass(&reply(5, None, &[])));
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_are_as_long_as_the_store_asks() {
        let pause = |retries, spread, asked: Option<u64>| {
            let retry_after = asked.map(Duration::from_secs);
            RetryState::pause(&Reply { retry_after, ..reply(0, Some(ErrorClass::Rejected), &[]) }, retries, spread)
        };
        let all: Vec<u128> = (0..7).map(|retries| pause(retries, 0.0, None).as_millis()).collect();
        assert_eq!(all, [50, 100, 200, 400, 800, 1600, 2000]);
        assert_eq!(pause(u32::MAX, 0.0, None), LONGEST_PAUSE);
        assert_eq!(pause(1, 0.5, None).as_millis(), 125);
        assert_eq!(pause(0, 0.9, Some(3)).as_secs(), 3);
        assert!(pause(3, 0.0, Some(0)).as_millis() == 400 && pause(0, 0.0, Some(9999)) == LONGEST_ASKED);
    }

    #[test]
    fn a_request_that_fails_as_a_whole_is_tried_again_as_a_whole() {
        let mut state = RetryState::default();
        let gone = reply(0, Some(ErrorClass::Connect), &[]);
        assert!(RetryState::may_pass(&gone));
        state.after(&gone);
        assert_eq!(state.documents(), None);
        assert_eq!(outcome(state.settle(gone)), Some(ErrorClass::Connect));
    }
}
