//! End of a phase: wakes sleeping clients and waits for requests in flight.

use std::time::{Duration, Instant};

use super::{Stream, Worker};
use crate::driver::Driver;

impl<D: Driver> Worker<D> {
    /// Sleeps until `due`, or until the stream or the phase ends if the phase may end early.
    pub(super) async fn sleep_until(&self, stream: &Stream, due: Instant) {
        if !self.phase.may_end_early() {
            return self.timer.sleep_until(due).await;
        }
        loop {
            let wake = self.ends(stream).map_or(due, |ends| ends.min(due));
            tokio::select! {
                () = self.timer.sleep_until(wake) => return,
                // The end of the phase may have moved.
                () = self.over.notified() => {}
            }
        }
    }

    /// Returns the end of a stream's measured window or of the phase, whichever is earlier; `None` if not known yet.
    pub(super) fn ends(&self, stream: &Stream) -> Option<Instant> {
        self.end_after(stream.lasts)
    }

    /// Returns the end of a measured window of length `lasts`, or of the phase if that is earlier; `None` if not
    /// known yet.
    pub(super) fn end_after(&self, lasts: Option<Duration>) -> Option<Instant> {
        let planned = lasts.map(|lasts| self.measured_from() + lasts);
        [planned, self.phase.ended.get().copied()].into_iter().flatten().min()
    }

    /// Returns the end of the warm-up: the planned one, unless the caller has chosen another.
    pub(super) fn measured_from(&self) -> Instant {
        self.start + self.phase.warmup()
    }

    /// Returns whether a request due at `now` is too late for the stream: its window or the phase has ended by then.
    pub(super) fn is_over(&self, stream: &Stream, now: Instant) -> bool {
        self.ends(stream).is_some_and(|ends| now >= ends)
    }

    /// Waits until `rest` after the end of the stream's measured window or, if earlier, of the phase.
    /// The window begins after the warm-up and has the length `lasts` (`None`: no end of its own).
    pub(super) async fn until_over(&self, lasts: Option<Duration>, rest: Duration) {
        loop {
            let Some(ends) = self.end_after(lasts) else {
                self.over.notified().await;
                continue;
            };
            tokio::select! {
                () = self.timer.sleep_until(ends + rest) => return,
                () = self.over.notified() => {}
            }
        }
    }

    /// Waits for the end of a pause of open streams, which is the end of the warm-up; also returns when the stream is
    /// over. `after`: planned start of the pause, after the phase's start. Returns the length of the pause, by which
    /// later requests are delayed.
    pub(super) async fn pause(&self, stream: &Stream, after: Duration) -> Duration {
        loop {
            let resumes = self.measured_from();
            if self.phase.measured_from.get().is_some()
                || Instant::now() >= resumes
                || self.is_over(stream, Instant::now())
            {
                return self.phase.warmup().saturating_sub(after);
            }
            tokio::select! {
                () = self.timer.sleep_until(resumes) => {}
                () = self.over.notified() => {}
            }
        }
    }

    /// Returns when the next iteration starts after an iteration from `begun` to `done`: `pacing` after `begun`, or at
    /// `done` if that is later. Counts iterations and overruns in the measured window, unless `pacing` is 0.
    pub(super) fn paced(&self, stream: &Stream, begun: Instant, done: Instant, pacing: Duration) -> Instant {
        if pacing.is_zero() {
            return done;
        }
        let due = begun + pacing;
        // Count neither iterations of the warm-up nor those cut short by the end of the stream.
        if begun >= self.measured_from() && !self.is_over(stream, due.min(done)) {
            let end = &self.ends[stream.index];
            let (iterations, overruns) = (end.get().iterations + 1, end.get().overruns + u64::from(done > due));
            end.set(super::StreamEnd { iterations, overruns, ..end.get() });
        }
        due.max(done)
    }
}
