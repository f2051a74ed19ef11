//! Relates the monotonic clock, which measures durations, to the wall clock, which dates them.
//!
//! The clocks cannot be read simultaneously. The wall clock is read between two readings of the monotonic
//! clock; the error is at most half their distance. The best of several attempts counts. The wall clock's
//! offset from other machines remains unknown.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Number of attempts; an interruption of all of them is unlikely.
const TRIES: usize = 16;

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// By the monotonic clock.
    pub at: Instant,
    /// In seconds of CLOCK_MONOTONIC, as other programs on this machine read it.
    pub monotonic: f64,
    /// By the wall clock.
    pub wall: SystemTime,
    /// Maximum error of `wall`.
    pub uncertainty: Duration,
}

impl ClockReading {
    /// Reads both clocks at practically the same instant: the most exact of 16 attempts.
    pub fn take() -> Self {
        let once = || {
            let before = Instant::now();
            let (wall, monotonic) = (SystemTime::now(), monotonic());
            let uncertainty = before.elapsed() / 2;
            Self { at: before + uncertainty, monotonic, wall, uncertainty }
        };
        (1..TRIES)
            .map(|_| once())
            .fold(once(), |best, next| if next.uncertainty < best.uncertainty { next } else { best })
    }

    /// Returns by how much more the wall clock has advanced than the monotonic clock since an earlier reading, s;
    /// negative for less. The clocks diverge when the wall clock is set or its rate is adjusted.
    pub fn drift(&self, earlier: &Self) -> f64 {
        let wall = match self.wall.duration_since(earlier.wall) {
            Ok(forward) => forward.as_secs_f64(),
            Err(back) => -back.duration().as_secs_f64(),
        };
        wall - self.at.saturating_duration_since(earlier.at).as_secs_f64()
    }
}

/// Returns CLOCK_MONOTONIC, s. `Instant` uses it, but does not expose the value.
fn monotonic() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_tell_one_instant_to_the_microsecond() {
        let outer = (Instant::now(), SystemTime::now());
        let reading = ClockReading::take();
        assert!(reading.at >= outer.0 && reading.at <= Instant::now());
        assert!(reading.wall >= outer.1 && reading.wall <= SystemTime::now());
        assert!(reading.uncertainty < Duration::from_micros(20), "{:?}", reading.uncertainty);
    }

    #[test]
    fn a_wall_clock_that_is_set_shows_as_drift() {
        let earlier = ClockReading::take();
        let at = earlier.at + Duration::from_secs(10);
        let later = |wall| ClockReading { at, wall, uncertainty: Duration::ZERO, ..earlier };
        let drift = |wall: SystemTime| later(wall).drift(&earlier);
        assert!((drift(earlier.wall + Duration::from_secs(10))).abs() < 1e-9);
        assert!((drift(earlier.wall + Duration::from_millis(10_500)) - 0.5).abs() < 1e-9);
        assert!((drift(earlier.wall - Duration::from_secs(3)) + 13.0).abs() < 1e-9);
    }
}
