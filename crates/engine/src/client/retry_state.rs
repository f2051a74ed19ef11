//! Retry state of a request: all of it, or the documents of a bulk request that the store rejected. Stored
//! documents are not sent again: a store that generates ids would store them twice.

use std::cell::Cell;
use std::time::Duration;

use crate::driver::{ErrorClass, Failure, Reply};
use crate::plan::BackOff;
use crate::util::math;

/// Maximum pause that a store can request.
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// Retries that a worker may still send, at most this many at once.
const MAX_TOKENS: f64 = 10.0;

/// Budget of retries of one stream on one worker: each request adds to it, each retry takes 1 from it.
#[derive(Debug, Default)]
pub struct RetryBudget(Cell<f64>);

impl RetryBudget {
    /// Adds one request's share of retries (`back_off.budget`). Keeps at most ten retries, or one share if that is
    /// larger. Does nothing if retries are unlimited.
    pub fn earn(&self, back_off: &BackOff) {
        if let Some(budget) = back_off.budget {
            self.0.set((self.0.get() + budget).min(MAX_TOKENS.max(budget)));
        }
    }

    /// Takes one retry. Returns false if the budget is used up; always true if retries are unlimited.
    pub fn take(&self, back_off: &BackOff) -> bool {
        if back_off.budget.is_none() {
            return true;
        }
        let left = self.0.get() - 1.0;
        // Sums of shares such as 0.1 are not exact.
        let enough = left >= -1e-9;
        if enough {
            self.0.set(left);
        }
        enough
    }
}

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
    /// Creates the state of a request that carries the documents with these indices; `None` for all.
    pub fn of(documents: Option<Vec<u32>>) -> Self {
        Self { documents, ..Self::default() }
    }

    /// Returns the indices of the documents for the next attempt, in the whole request; `None` for all.
    pub fn documents(&self) -> Option<&[u32]> {
        self.documents.as_deref()
    }

    /// Returns whether this attempt failed with a class that `back_off` retries. Rejected documents count as a failure
    /// of the class `Rejected`.
    pub fn is_retryable(back_off: &BackOff, reply: &Reply) -> bool {
        let whole = reply.outcome.as_ref().is_err_and(|failure| back_off.on.contains(&failure.class));
        whole || (!reply.rejected.is_empty() && back_off.on.contains(&ErrorClass::Rejected))
    }

    /// Returns the pause before the next attempt, after `retries` retries: `base * factor^retries`, at most `cap`,
    /// plus up to the share `jitter` of it. `chance`, in [0, 1), scales the jitter. A longer pause requested by the
    /// store counts, up to 60 s, unless the plan ignores it.
    pub fn pause(back_off: &BackOff, reply: &Reply, retries: u32, chance: f64) -> Duration {
        let grown = back_off.base.as_secs_f64() * math::powf(back_off.factor, f64::from(retries.min(100)));
        let pause = grown.min(back_off.cap.as_secs_f64()) * (1.0 + back_off.jitter * chance);
        let requested = reply.retry_after.filter(|_| back_off.respect_retry_after).unwrap_or_default();
        Duration::from_secs_f64(pause.max(0.0)).max(requested.min(LONGEST_ASKED))
    }

    /// Records an attempt that will be retried: its stored documents, and its failure if documents failed permanently.
    /// The next attempt carries the rejected documents. If none were rejected, it repeats this attempt, whose
    /// `reply.documents` becomes 0.
    pub fn after(&mut self, reply: &mut Reply) {
        if reply.rejected.is_empty() {
            reply.documents = 0;
            return;
        }
        self.passed += reply.documents;
        if let (true, Err(failure), None) = (reply.lost, &reply.outcome, &self.lost) {
            self.lost = Some(failure.clone());
        }
        let place = |of: &u32| match &self.documents {
            None => Some(*of),
            Some(before) => before.get(*of as usize).copied(),
        };
        self.documents = Some(reply.rejected.iter().filter_map(place).collect());
    }

    /// Records an attempt that will be retried with the documents `left`, which are indices in the whole request.
    /// Adds its stored documents, and keeps its failure if it refused documents. `left` may contain documents that the
    /// answer does not name.
    pub fn after_leaving(&mut self, reply: &Reply, left: Vec<u32>) {
        self.passed += reply.documents;
        if let (false, Err(failure), None) = (reply.refused.is_empty(), &reply.outcome, &self.lost) {
            self.lost = Some(failure.clone());
        }
        self.documents = Some(left);
    }

    /// Returns the reply of the last attempt, combined with the earlier ones; `earlier` counts their stored documents.
    /// A success fails if an earlier attempt lost documents. A failure gets class `Item` if an earlier attempt lost
    /// documents, or stored some and the class is not `Rejected`.
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

    /// Creates a reply with this number of stored documents, a failure of the class `failed`, and rejected documents.
    fn reply(documents: u64, failed: Option<ErrorClass>, rejected: &[u32]) -> Reply {
        let now = Instant::now();
        let outcome = failed.map_or(Ok(()), |class| Err(Failure::new(class, "no")));
        Reply { documents, rejected: rejected.to_vec(), ..Reply::new(now, now, outcome) }
    }

    /// Returns the class of a reply's failure, if it failed.
    fn outcome(reply: Reply) -> Option<ErrorClass> {
        reply.outcome.err().map(|failure| failure.class)
    }

    /// A retry carries the rejected documents, by their indices in the whole request.
    #[test]
    fn only_the_documents_that_were_rejected_are_left_by_their_places_in_the_whole() {
        let mut state = RetryState::default();
        let mut first = reply(7, Some(ErrorClass::Rejected), &[1, 4, 9]);
        assert!(RetryState::is_retryable(&BackOff::default(), &first) && state.documents().is_none());
        state.after(&mut first);
        assert_eq!(state.documents(), Some(&[1, 4, 9][..]));
        state.after(&mut reply(1, Some(ErrorClass::Rejected), &[0, 2]));
        assert_eq!(state.documents(), Some(&[1, 9][..]));
        // After a failure of the whole attempt all of its documents remain.
        state.after(&mut reply(0, Some(ErrorClass::Connect), &[]));
        assert_eq!(state.documents(), Some(&[1, 9][..]));
        assert_eq!(outcome(state.settle(reply(2, None, &[]))), None);
    }

    #[test]
    fn a_request_rejected_until_the_end_counts_its_rejected_documents() {
        let mut state = RetryState::default();
        state.after(&mut reply(7, Some(ErrorClass::Rejected), &[1, 4, 9]));
        assert_eq!(outcome(state.settle(reply(2, Some(ErrorClass::Rejected), &[2]))), Some(ErrorClass::Rejected));
        let mut state = RetryState::default();
        state.after(&mut reply(7, Some(ErrorClass::Rejected), &[1, 4, 9]));
        let gone = reply(0, Some(ErrorClass::Timeout), &[]);
        assert_eq!(outcome(state.settle(gone)), Some(ErrorClass::Item), "seven got through");
    }

    #[test]
    fn documents_with_invalid_contents_stay_failed() {
        let mut state = RetryState::default();
        let mut mixed = Reply { lost: true, ..reply(5, Some(ErrorClass::Item), &[0, 1]) };
        assert!(RetryState::is_retryable(&BackOff::default(), &mixed), "two of five were rejected");
        state.after(&mut mixed);
        assert_eq!(outcome(state.settle(reply(2, None, &[]))), Some(ErrorClass::Item));
        let mut state = RetryState::default();
        state.after(&mut Reply { lost: false, ..mixed });
        assert_eq!(outcome(state.settle(reply(2, None, &[]))), None, "only rejected documents failed");
        assert!(!RetryState::is_retryable(&BackOff::default(), &reply(5, Some(ErrorClass::Item), &[])));
        assert!(!RetryState::is_retryable(&BackOff::default(), &reply(5, None, &[])));
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_are_as_long_as_the_store_asks() {
        let usual = BackOff::default();
        let pause = |back_off: &BackOff, retries, chance, asked: Option<u64>| {
            let retry_after = asked.map(Duration::from_secs);
            let reply = Reply { retry_after, ..reply(0, Some(ErrorClass::Rejected), &[]) };
            RetryState::pause(back_off, &reply, retries, chance).as_millis()
        };
        let all: Vec<u128> = (0..7).map(|retries| pause(&usual, retries, 0.0, None)).collect();
        assert_eq!(all, [50, 100, 200, 400, 800, 1600, 2000]);
        assert_eq!(pause(&usual, u32::MAX, 0.0, None), 2000);
        assert_eq!(pause(&usual, 1, 0.5, None), 125);
        assert_eq!(pause(&usual, 0, 0.9, Some(3)), 3000);
        assert_eq!((pause(&usual, 3, 0.0, Some(0)), pause(&usual, 0, 0.0, Some(9999))), (400, 60_000));
        let constant = BackOff { factor: 1.0, jitter: 0.0, respect_retry_after: false, ..usual };
        assert_eq!([0, 1, 9].map(|retries| pause(&constant, retries, 0.9, Some(3))), [50; 3]);
    }

    #[test]
    fn only_the_listed_classes_are_retried() {
        let back_off = BackOff { on: vec![ErrorClass::Connect], ..BackOff::default() };
        assert!(RetryState::is_retryable(&back_off, &reply(0, Some(ErrorClass::Connect), &[])));
        assert!(!RetryState::is_retryable(&back_off, &reply(0, Some(ErrorClass::Timeout), &[])));
        assert!(!RetryState::is_retryable(&back_off, &reply(5, Some(ErrorClass::Item), &[0, 1])));
    }

    #[test]
    fn a_budget_limits_retries_to_its_share_of_the_requests() {
        let limited = BackOff { budget: Some(0.1), ..BackOff::default() };
        let budget = RetryBudget::default();
        let taken = (0..1000).filter(|_| {
            budget.earn(&limited);
            budget.take(&limited)
        });
        assert_eq!(taken.count(), 100);
        // Unused shares add up to ten retries at most.
        (0..1000).for_each(|_| budget.earn(&limited));
        assert_eq!((0..100).filter(|_| budget.take(&limited)).count(), 10);
        let free = RetryBudget::default();
        assert!(free.take(&BackOff::default()));
    }

    #[test]
    fn a_request_that_fails_as_a_whole_is_tried_again_as_a_whole() {
        let mut state = RetryState::default();
        let mut gone = reply(1, Some(ErrorClass::Connect), &[]);
        assert!(RetryState::is_retryable(&BackOff::default(), &gone));
        state.after(&mut gone);
        assert_eq!((state.documents(), gone.documents), (None, 0), "the next attempt stores it again");
        assert_eq!(outcome(state.settle(gone)), Some(ErrorClass::Connect));
    }

    #[test]
    fn refused_events_fail_the_request_although_the_retry_stores_the_events_that_the_answer_left_open() {
        let mut state = RetryState::default();
        state.after_leaving(&Reply { refused: vec![3], ..reply(0, Some(ErrorClass::Item), &[]) }, vec![0, 1, 2]);
        assert_eq!(state.documents(), Some(&[0, 1, 2][..]));
        assert_eq!(outcome(state.settle(reply(3, None, &[]))), Some(ErrorClass::Item));
    }
}
