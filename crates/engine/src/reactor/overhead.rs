//! The load generator's overhead in the service time of a request.

use std::time::{Duration, Instant};

/// An unknown time.
const UNKNOWN: u64 = u64::MAX;

/// The generator's part of an exchange's service time, by the kernel's timestamps. The service time begins right before
/// the first byte is written and ends right after the last byte is read. Each time may be unknown; by default both are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// Time until the kernel sent the first write of the request, ns.
    send: u64,
    /// Time from when the kernel received the last byte of the answer, ns.
    receive: u64,
}

impl Default for Overhead {
    /// Returns unknown times.
    fn default() -> Self {
        Self { send: UNKNOWN, receive: UNKNOWN }
    }
}

impl Overhead {
    /// Creates the overhead of one exchange. `send`: until the kernel sent the request; `None` if unknown. `receive`:
    /// from when the kernel received the answer.
    pub fn new(send: Option<Duration>, receive: Duration) -> Self {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(UNKNOWN);
        Self { send: send.map_or(UNKNOWN, nanoseconds), receive: nanoseconds(receive) }
    }

    /// Returns the sum of both times, or the time of receiving alone if the sending is unknown. `None`: the receiving
    /// is unknown.
    pub fn total(self) -> Option<Duration> {
        let receive = known(self.receive)?;
        Some(receive + known(self.send).unwrap_or_default())
    }

    /// Returns whether only the time of receiving is known.
    pub fn is_receive_only(self) -> bool {
        self.send == UNKNOWN && self.receive != UNKNOWN
    }

    /// Returns the overhead of this exchange and a later one of the same request: the sums of their times.
    /// A time that is unknown in one exchange is unknown in the result.
    #[must_use]
    pub fn then(self, later: Self) -> Self {
        // An unknown time stays unknown, because it is the largest number.
        Self { send: self.send.saturating_add(later.send), receive: self.receive.saturating_add(later.receive) }
    }

    /// Returns the overhead of this exchange and a concurrent one of the same request, each with its `(sent, done)`.
    /// The request lasts from the first byte of either to the last byte of either. A time that is unknown in one
    /// exchange is unknown in the result; without the time of receiving, both are.
    pub fn beside((mine, times): (Self, (Instant, Instant)), (other, others): (Self, (Instant, Instant))) -> Self {
        let sent = |overhead: Self, at: Instant| known(overhead.send).map(|time| at + time);
        let received = |overhead: Self, at: Instant| known(overhead.receive).and_then(|time| at.checked_sub(time));
        let send = sent(mine, times.0).zip(sent(other, others.0));
        let receive = received(mine, times.1).zip(received(other, others.1));
        let send = send.map(|(one, two)| one.min(two).saturating_duration_since(times.0.min(others.0)));
        let receive = receive.map(|(one, two)| times.1.max(others.1).saturating_duration_since(one.max(two)));
        receive.map_or_else(Self::default, |receive| Self::new(send, receive))
    }

    /// Returns the times of sending and of receiving in ns, for [`Self::from_parts`].
    pub fn parts(self) -> (u64, u64) {
        (self.send, self.receive)
    }

    /// Creates the overhead from the times that [`Self::parts`] returns.
    pub fn from_parts((send, receive): (u64, u64)) -> Self {
        Self { send, receive }
    }
}

/// Converts a time in ns to a duration; `None` for the value that stands for an unknown time.
fn known(nanoseconds: u64) -> Option<Duration> {
    (nanoseconds != UNKNOWN).then(|| Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    #[test]
    fn exchanges_in_turn_add_up_and_an_unknown_time_stays_unknown() {
        let one = Overhead::new(Some(us(2)), us(30));
        let both = one.then(Overhead::new(Some(us(4)), us(50)));
        assert_eq!((both.total(), both.is_receive_only()), (Some(us(86)), false));
        let unsent = one.then(Overhead::new(None, us(50)));
        assert_eq!((unsent.total(), unsent.is_receive_only()), (Some(us(80)), true));
        for unknown in [one.then(Overhead::default()), Overhead::default().then(one), Overhead::default()] {
            assert_eq!((unknown.total(), unknown.is_receive_only()), (None, false));
        }
    }

    #[test]
    fn concurrent_exchanges_last_from_the_first_timestamp_to_the_last() {
        let start = Instant::now();
        let at = |from, to| (start + us(from), start + us(to));
        // Sent by the kernel at 3 and 12, received at 60 and 90.
        let (one, other) = (Overhead::new(Some(us(3)), us(40)), Overhead::new(Some(us(2)), us(5)));
        let (one, other) = ((one, at(0, 100)), (other, at(10, 95)));
        for both in [Overhead::beside(one, other), Overhead::beside(other, one)] {
            assert_eq!(both, Overhead::new(Some(us(3)), us(10)));
        }
        let unknown = (Overhead::default(), at(0, 100));
        assert_eq!(Overhead::beside(one, unknown), Overhead::default());
        let received = (Overhead::new(None, us(5)), at(0, 100));
        assert!(Overhead::beside(one, received).is_receive_only());
    }
}
