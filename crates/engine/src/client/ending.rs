//! How the end of one stream ends the others: who sleeps is woken, and who waits for an answer is waited for.

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

    /// Where the measured window of a stream ends, as far as that is known.
    pub(super) fn ends(&self, stream: &Stream) -> Option<Instant> {
        let ended = self.phase.ended.get().copied();
        [stream.ends, ended].into_iter().flatten().min()
    }

    /// Whether a stream sends nothing more that is due at `now`.
    pub(super) fn is_over(&self, stream: &Stream, now: Instant) -> bool {
        self.ends(stream).is_some_and(|ends| now >= ends)
    }

    /// Returns when a stream has ended the phase and the requests in flight then have been waited for long enough.
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
