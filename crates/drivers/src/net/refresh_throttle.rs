//! When the clients of a target ask its nodes again what they are: one client at a time, and not again at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Nodes are not asked again before this, in milliseconds.
const PAUSE: u64 = 100;
/// While one is missing they are asked again after this, in milliseconds.
const WATCH: u64 = 1000;
/// Nodes that may change by themselves are asked again after this, in milliseconds.
const REFRESH: u64 = 5000;
/// The nodes need not be asked.
const NEVER: u64 = u64::MAX;

/// Which client asks, and when. Nothing is asked until there is a doubt.
#[derive(Debug)]
pub struct RefreshThrottle {
    began: Instant,
    /// When the nodes have to be asked again, in milliseconds since it began.
    due: AtomicU64,
    /// A client is asking them now.
    busy: AtomicBool,
}

impl Default for RefreshThrottle {
    fn default() -> Self {
        Self { began: Instant::now(), due: AtomicU64::new(NEVER), busy: AtomicBool::new(false) }
    }
}

impl RefreshThrottle {
    /// Takes note that what is known of the nodes may be wrong by now.
    pub fn doubt(&self) {
        self.within(PAUSE);
    }

    /// Takes note that a node is missing, so that the others are asked once a second.
    pub fn watch(&self) {
        self.within(WATCH);
    }

    /// Takes note that nodes may change without a failed request, so that they are asked every few seconds.
    pub fn refresh(&self) {
        self.within(REFRESH);
    }

    /// Returns true to exactly one caller if the nodes have to be asked again; it says when it is `over`.
    pub fn claim(&self) -> bool {
        let due = self.due.load(Ordering::Relaxed);
        if due == NEVER || self.now() < due || self.busy.swap(true, Ordering::Acquire) {
            return false;
        }
        self.due.store(NEVER, Ordering::Relaxed);
        true
    }

    /// The nodes have been asked.
    pub fn over(&self) {
        self.busy.store(false, Ordering::Release);
    }

    fn within(&self, milliseconds: u64) {
        self.due.fetch_min(self.now() + milliseconds, Ordering::Relaxed);
    }

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
