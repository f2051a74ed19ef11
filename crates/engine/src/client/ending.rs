//! End of a phase: wakes sleeping clients and waits for requests in flight.

use std::time::Instant;

use super::{Stream, Worker};
use crate::driver::Driver;

impl<D: Driver> Worker<D> {
    /// Sleeps until an instant, or until a stream ends the phase.
    pub(super) async fn sleep_until(&self, due: Instant) {
        if self.phase.plan.ends_with.is_empty() {
            return self.timer.sleep_until(due).await;
        }
        if self.phase.ended.get().is_none() {
            tokio::select! {
                () = self.timer.sleep_until(due) => {}
                () = self.over.notified() => {}
            }
        }
    }

    /// Returns the end of a stream's measured window, if known yet.
    pub(super) fn ends(&self, stream: &Stream) -> Option<Instant> {
        let ended = self.phase.ended.get().copied();
        [stream.ends, ended].into_iter().flatten().min()
    }

    /// Returns whether the stream sends no more requests due at `now`.
    pub(super) fn is_over(&self, stream: &Stream, now: Instant) -> bool {
        self.ends(stream).is_some_and(|ends| now >= ends)
    }

    /// Returns when a stream has ended the phase and the drain time for requests in flight is over.
    pub(super) async fn until_ended(&self) {
        let ended = loop {
            match self.phase.ended.get() {
                Some(ended) => break *ended,
                None => self.over.notified().await,
            }
        };
        self.timer.sleep_until(ended + self.phase.plan.drain).await;
    }
}
