//! Ties the monotonic clock, which measures durations, to the wall clock, which dates instants.
//!
//! The two cannot be read at once. A reading of the wall clock between two of the monotonic clock is wrong by at most
//! half the distance of these, and the narrowest of several tries by least. What it cannot know is how far the wall
//! clock is from those of other machines.

use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// With this many tries it is unlikely that all of them are interrupted.
const TRIES: usize = 16;

/// Both clocks at one instant.
#[derive(Clone, Copy, Debug)]
pub struct ClockReading {
    /// By the monotonic clock.
    pub at: Instant,
    /// The same in seconds of CLOCK_MONOTONIC, as other programs on this machine read it.
    pub monotonic: f64,
    /// By the wall clock.
    pub wall: SystemTime,
    /// By how much `wall` may be off.
    pub uncertainty: Duration,
}

impl ClockReading {
    /// Reads both clocks.
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

    /// By how many seconds the wall clock has gained on the monotonic one since an earlier reading: it was set, or its
    /// rate is being corrected.
    pub fn drift(&self, earlier: &Self) -> f64 {
        let wall = match self.wall.duration_since(earlier.wall) {
            Ok(forward) => forward.as_secs_f64(),
            Err(back) => -back.duration().as_secs_f64(),
        };
        wall - self.at.saturating_duration_since(earlier.at).as_secs_f64()
    }
}

/// What `Instant` is made of and does not tell.
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
