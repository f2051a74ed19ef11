//! Throttles the discovery of nodes: one client at a time, with a pause in between.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Shortest pause between two refreshes, in milliseconds.
const PAUSE: u64 = 100;
/// Pause while a node is missing, in milliseconds.
const WATCH: u64 = 1000;
/// Pause for nodes that may change without notice, in milliseconds.
const REFRESH: u64 = 5000;
/// No refresh is due.
const NEVER: u64 = u64::MAX;

/// Decides which client refreshes the nodes, and when. No refresh is due until one is requested.
#[derive(Debug)]
pub struct RefreshThrottle {
    began: Instant,
    /// When the next refresh is due, in milliseconds since creation.
    due: AtomicU64,
    /// Whether a client is refreshing now.
    busy: AtomicBool,
}

impl Default for RefreshThrottle {
    /// Creates it without a requested refresh.
    fn default() -> Self {
        Self { began: Instant::now(), due: AtomicU64::new(NEVER), busy: AtomicBool::new(false) }
    }
}

impl RefreshThrottle {
    /// Makes a refresh due in 100 ms, unless it is due earlier, because the known nodes may be out of date.
    pub fn doubt(&self) {
        self.within(PAUSE);
    }

    /// Makes a refresh due in a second, unless it is due earlier, because a node is missing.
    pub fn watch(&self) {
        self.within(WATCH);
    }

    /// Makes a refresh due in 5 seconds, unless it is due earlier, because nodes may change without a failed request.
    pub fn refresh(&self) {
        self.within(REFRESH);
    }

    /// Returns true if a refresh is due and no other is running, and clears the request. The caller must then refresh,
    /// and call `over`.
    pub fn claim(&self) -> bool {
        let due = self.due.load(Ordering::Relaxed);
        if due == NEVER || self.now() < due || self.busy.swap(true, Ordering::Acquire) {
            return false;
        }
        self.due.store(NEVER, Ordering::Relaxed);
        true
    }

    /// Ends the refresh that `claim` started.
    pub fn over(&self) {
        self.busy.store(false, Ordering::Release);
    }

    /// Makes a refresh due in this many milliseconds, unless it is due earlier.
    fn within(&self, milliseconds: u64) {
        self.due.fetch_min(self.now() + milliseconds, Ordering::Relaxed);
    }

    /// Returns the time since creation, in milliseconds.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_asked_again_by_one_client_at_a_time_and_not_at_once() {
        let asking = RefreshThrottle::default();
        assert!(!asking.claim(), "nothing is doubted");
        asking.within(0);
        assert!(asking.claim());
        asking.within(0);
        assert!(!asking.claim(), "another client is asking");
        asking.over();
        assert!(asking.claim());
        asking.over();
        asking.doubt();
        assert!(!asking.claim(), "not at once");
    }
}
