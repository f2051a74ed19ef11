//! Latest answers to selected operations, for live display. They are copies of answers to the load's own
//! requests, taken after the last byte, at most once a second.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Minimum time between two stored answers, ms.
const EVERY: u64 = 1000;

/// Maximum size of a stored answer, bytes.
pub const LONGEST: usize = 1 << 20;

/// Latest answer to one operation.
#[derive(Debug)]
pub struct Kept {
    since: Instant,
    /// Time of the next copy, ms after `since`.
    due: AtomicU64,
    newest: Mutex<Option<Vec<u8>>>,
}

impl Default for Kept {
    /// Creates a store without an answer; the first one is due at once.
    fn default() -> Self {
        Self { since: Instant::now(), due: AtomicU64::new(0), newest: Mutex::default() }
    }
}

impl Kept {
    /// Returns whether to store an answer that arrived at `now`. After a call that returned true, it returns false for
    /// a second, also to other threads.
    pub fn is_due(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.since).as_millis() as u64;
        let due = self.due.load(Ordering::Relaxed);
        now >= due && self.due.compare_exchange(due, now + EVERY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Stores `answer`, JSON, instead of the previous answer. Ignores an answer longer than 1 MiB.
    pub fn keep(&self, answer: Vec<u8>) {
        if answer.len() <= LONGEST {
            *self.newest.lock().expect("no thread panics while it holds the lock") = Some(answer);
        }
    }

    /// Removes and returns the stored answer; `None` if nothing was stored since the last call.
    pub fn take(&self) -> Option<Vec<u8>> {
        self.newest.lock().expect("no thread panics while it holds the lock").take()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn one_answer_a_second_is_due_and_each_is_taken_once() {
        let kept = Kept::default();
        let now = Instant::now();
        assert_eq!(kept.take(), None);
        assert!(kept.is_due(now));
        assert!(!kept.is_due(now), "another client has this second's");
        assert!(!kept.is_due(now + Duration::from_millis(EVERY / 2)));
        kept.keep(b"first".to_vec());
        kept.keep(b"second".to_vec());
        assert_eq!((kept.take(), kept.take()), (Some(b"second".to_vec()), None));
        assert!(kept.is_due(now + Duration::from_millis(EVERY + 1)));
    }

    #[test]
    fn an_answer_that_is_too_long_is_not_kept() {
        let kept = Kept::default();
        kept.keep(vec![b' '; LONGEST + 1]);
        assert_eq!(kept.take(), None);
    }
}
