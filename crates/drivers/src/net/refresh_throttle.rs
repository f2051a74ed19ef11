//! Throttles the discovery of nodes: one client at a time, with a pause in between.

use std::sync::Arc;
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
pub struct RefreshThrottle(Arc<Schedule>);

#[derive(Debug)]
struct Schedule {
    began: Instant,
    /// When the next refresh is due, in milliseconds since creation.
    due: AtomicU64,
    /// Whether a client is refreshing now.
    busy: AtomicBool,
}

/// A running refresh. If it is dropped before its end, as when its worker ends the phase, another is due in 100 ms.
#[derive(Debug)]
pub struct Refresh {
    schedule: Arc<Schedule>,
    ended: bool,
}

impl Default for RefreshThrottle {
    /// Creates it without a requested refresh.
    fn default() -> Self {
        Self(Arc::new(Schedule { began: Instant::now(), due: AtomicU64::new(NEVER), busy: AtomicBool::new(false) }))
    }
}

impl RefreshThrottle {
    /// Makes a refresh due in 100 ms, unless it is due earlier, because the known nodes may be out of date.
    pub fn doubt(&self) {
        self.0.within(PAUSE);
    }

    /// Makes a refresh due in a second, unless it is due earlier, because a node is missing.
    pub fn watch(&self) {
        self.0.within(WATCH);
    }

    /// Makes a refresh due in 5 seconds, unless it is due earlier, because nodes may change without a failed request.
    pub fn refresh(&self) {
        self.0.within(REFRESH);
    }

    /// Starts a refresh if one is due and no other is running, and clears the request. The caller must then refresh, and
    /// end it.
    pub fn claim(&self) -> Option<Refresh> {
        let schedule = &self.0;
        let due = schedule.due.load(Ordering::Relaxed);
        if due == NEVER || schedule.now() < due || schedule.busy.swap(true, Ordering::Acquire) {
            return None;
        }
        schedule.due.store(NEVER, Ordering::Relaxed);
        Some(Refresh { schedule: schedule.clone(), ended: false })
    }
}

impl Refresh {
    /// Ends the refresh, whether or not it succeeded.
    pub fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Refresh {
    /// Permits the next refresh. If `end` was not called, makes one due in 100 ms.
    fn drop(&mut self) {
        if !self.ended {
            self.schedule.within(PAUSE);
        }
        self.schedule.busy.store(false, Ordering::Release);
    }
}

impl Schedule {
    /// Makes a refresh due in this many milliseconds, unless it is due earlier.
    fn within(&self, milliseconds: u64) {
        self.due.fetch_min(self.now() + milliseconds, Ordering::Relaxed);
    }

    /// Returns the time since creation, in milliseconds.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

/// Returns the refresh of `claim` once it is due. Panics after 10 s.
#[cfg(test)]
pub fn once_due(claim: impl Fn() -> Option<Refresh>) -> Refresh {
    let pause = || std::thread::sleep(std::time::Duration::from_millis(5));
    (0..2000)
        .find_map(|_| {
            claim().or_else(|| {
                pause();
                None
            })
        })
        .expect("a refresh is due")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_asked_again_by_one_client_at_a_time_and_not_at_once() {
        let asking = RefreshThrottle::default();
        assert!(asking.claim().is_none(), "nothing is doubted");
        asking.0.within(0);
        let refresh = asking.claim().unwrap();
        asking.0.within(0);
        assert!(asking.claim().is_none(), "another client is asking");
        refresh.end();
        asking.claim().unwrap().end();
        asking.doubt();
        assert!(asking.claim().is_none(), "not at once");
    }

    #[test]
    fn an_abandoned_refresh_is_followed_by_another() {
        let asking = RefreshThrottle::default();
        asking.0.within(0);
        drop(asking.claim().unwrap());
        assert_ne!(asking.0.due.load(Ordering::Relaxed), NEVER);
        asking.0.within(0);
        assert!(asking.claim().is_some());
    }
}
