//! Giving up on an answer that does not come.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use loadframe_engine::driver::{ErrorClass, Failure};
use tokio::time::Sleep;

/// How long one request may take in all: to wait for a connection, to connect, to be let in and to be answered.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// When its time is up.
    pub due: Instant,
    /// How much time it had, for messages.
    pub timeout: Duration,
}

impl Limit {
    /// That of a request which begins now.
    pub fn starting_now(timeout: Duration) -> Self {
        Self { due: Instant::now() + timeout, timeout }
    }

    /// The same, or an earlier one: no more than `patience` from now.
    pub fn at_most(self, patience: Duration) -> Self {
        let due = Instant::now() + patience;
        if due < self.due { Self { due, timeout: patience } } else { self }
    }

    /// How much time is left.
    pub fn left(self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Whether there is no time left.
    pub fn has_passed(self) -> bool {
        Instant::now() >= self.due
    }

    /// A request that was not answered within it.
    pub fn missed(self) -> Failure {
        Failure::new(ErrorClass::Timeout, format!("no answer within {} s", self.timeout.as_secs_f64()))
    }

    /// What comes of `part` of the request, or `None` if nothing has come when its time is up. For what happens
    /// seldom: it arms a timer of its own.
    pub async fn within<F: Future>(self, part: F) -> Option<F::Output> {
        tokio::time::timeout_at(tokio::time::Instant::from_std(self.due), part).await.ok()
    }
}

/// A timer that follows the deadlines of one request after another. It is armed for some deadline and left so; only
/// when it fires does it look whether the deadline has moved on meanwhile, which it has unless the server is silent.
#[derive(Debug, Default)]
pub struct Deadline(Option<Pin<Box<Sleep>>>);

impl Deadline {
    /// What comes of `request`, or `None` if nothing has come at `due`.
    pub async fn within<F: Future>(&mut self, due: Instant, request: F) -> Option<F::Output> {
        let mut request = pin!(request);
        self.arm(due);
        poll_fn(|cx| match request.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.poll(due, cx).map(|()| None),
        })
        .await
    }

    /// Sees to it that the timer fires at `due` or before.
    pub fn arm(&mut self, due: Instant) {
        let due = tokio::time::Instant::from_std(due);
        match &mut self.0 {
            None => self.0 = Some(Box::pin(tokio::time::sleep_until(due))),
            Some(sleep) if sleep.deadline() > due => sleep.as_mut().reset(due),
            Some(_) => {}
        }
    }

    /// Ready when `due`, for which it is armed, has passed.
    pub fn poll(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Some(sleep) = &mut self.0 else { return Poll::Ready(()) };
        loop {
            ready!(sleep.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(tokio::time::Instant::from_std(due));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_limit_is_shared_by_all_that_a_request_waits_for() {
        let limit = Limit::starting_now(Duration::from_millis(30));
        assert_eq!(limit.within(async { 7 }).await, Some(7));
        let silence = std::future::pending::<()>;
        assert_eq!(limit.within(silence()).await, None);
        assert!(limit.has_passed());
        let again = Instant::now();
        assert_eq!(limit.within(silence()).await, None);
        assert!(again.elapsed() < Duration::from_millis(20), "the second wait had a time-out of its own");
        assert_eq!(limit.at_most(Duration::from_secs(9)).due, limit.due);
        assert_eq!(limit.missed().message, "no answer within 0.03 s");
    }

    #[tokio::test]
    async fn one_deadline_after_another_is_kept_whether_it_comes_before_or_after_the_last() {
        let mut deadline = Deadline::default();
        let silence = std::future::pending::<()>;
        for milliseconds in [2_000, 20, 60, 5] {
            let start = Instant::now();
            let due = start + Duration::from_millis(milliseconds);
            assert_eq!(deadline.within(due, async { 7 }).await, Some(7));
            if milliseconds < 1_000 {
                assert_eq!(deadline.within(due, silence()).await, None);
                let waited = start.elapsed();
                assert!(due <= Instant::now(), "{waited:?} is before {milliseconds} ms");
                assert!(waited < Duration::from_millis(1_500), "the first deadline was waited for");
            }
        }
    }
}
