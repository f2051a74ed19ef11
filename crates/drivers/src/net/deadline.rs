//! Time limits of requests.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use loadframe_engine::driver::{ErrorClass, Failure};
use loadframe_engine::reactor::timer::Alarm;
use tokio::time::Sleep;

/// Time limit of one request in total: waiting for a connection, connecting, authenticating and waiting for the answer.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// When the time is up.
    pub due: Instant,
    /// The full timeout, for messages.
    pub timeout: Duration,
}

impl Limit {
    /// Returns the limit of a request that starts now.
    pub fn starting_now(timeout: Duration) -> Self {
        Self { due: Instant::now() + timeout, timeout }
    }

    /// Returns this limit or `patience` from now, whichever is earlier.
    pub fn at_most(self, patience: Duration) -> Self {
        let due = Instant::now() + patience;
        if due < self.due { Self { due, timeout: patience } } else { self }
    }

    /// Returns the remaining time; 0 once the time is up.
    pub fn left(self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Returns the time since the limit started, at most its `timeout`.
    pub fn spent(self) -> Duration {
        self.timeout.saturating_sub(self.left())
    }

    /// Returns whether the time is up.
    pub fn has_passed(self) -> bool {
        Instant::now() >= self.due
    }

    /// Returns the failure of a request without an answer in time: a timeout.
    pub fn missed(self) -> Failure {
        Failure::new(ErrorClass::Timeout, format!("no answer within {} s", self.timeout.as_secs_f64()))
    }

    /// Returns the result of `part` of the request, or `None` if the time is up first. Allocates a box and a timer, so
    /// use it only for rare operations. The box keeps the futures of requests, which contain this one, small.
    pub fn within<F: Future>(self, part: F) -> impl Future<Output = Option<F::Output>> {
        let (mut part, mut deadline) = (Box::pin(part), Deadline::default());
        poll_fn(move |cx| match part.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => {
                deadline.arm(self.due);
                deadline.poll(self.due, cx).map(|()| None)
            }
        })
    }
}

/// Waits for `pause`.
pub async fn sleep(pause: Duration) {
    Limit::starting_now(pause).within(pending::<()>()).await;
}

/// A timer for the deadlines of successive requests.
///
/// It is armed for one deadline and stays so for later ones. When it fires, it checks whether the deadline has moved;
/// it has, unless the server is silent.
#[derive(Default)]
pub struct Deadline(Option<Clock>);

/// The timer of the thread's reactor, or of Tokio on a thread without one.
enum Clock {
    Reactor(Alarm),
    Tokio(Pin<Box<Sleep>>),
}

impl Clock {
    /// Creates a timer that fires at `due`.
    fn armed(due: Instant) -> Self {
        match Alarm::at(due) {
            Some(alarm) => Self::Reactor(alarm),
            None => Self::Tokio(Box::pin(tokio::time::sleep_until(due.into()))),
        }
    }

    /// Returns when it fires.
    fn due(&self) -> Instant {
        match self {
            Self::Reactor(alarm) => alarm.due(),
            Self::Tokio(sleep) => sleep.deadline().into(),
        }
    }

    /// Returns `Ready` once it has fired; until then keeps the task's waker.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Reactor(alarm) => alarm.poll(cx),
            Self::Tokio(sleep) => sleep.as_mut().poll(cx),
        }
    }

    /// Sets the time at which it fires.
    fn reset(&mut self, due: Instant) {
        match self {
            Self::Reactor(_) => *self = Self::armed(due),
            Self::Tokio(sleep) => sleep.as_mut().reset(due.into()),
        }
    }
}

impl fmt::Debug for Deadline {
    /// Writes when the timer fires.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Deadline").field(&self.0.as_ref().map(Clock::due)).finish()
    }
}

impl Deadline {
    /// Returns the result of `request`, or `None` if `due` comes first.
    pub async fn within<F: Future>(&mut self, due: Instant, request: F) -> Option<F::Output> {
        let mut request = pin!(request);
        self.arm(due);
        poll_fn(|cx| match request.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => self.poll(due, cx).map(|()| None),
        })
        .await
    }

    /// Ensures that the timer fires at `due` or earlier.
    pub fn arm(&mut self, due: Instant) {
        match &mut self.0 {
            None => self.0 = Some(Clock::armed(due)),
            Some(clock) if clock.due() > due => clock.reset(due),
            Some(_) => {}
        }
    }

    /// Returns `Ready` once `due` has passed, for which the timer must be armed; at once if no timer was ever armed.
    pub fn poll(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let Some(clock) = &mut self.0 else { return Poll::Ready(()) };
        loop {
            ready!(clock.poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            clock.reset(due);
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
