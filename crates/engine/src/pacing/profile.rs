//! A level that changes over time: steps and ramps of a rate or of a number of clients, in closed form.
//!
//! The level is piecewise linear. The integral of a rate is the number of due requests, and the inverse of
//! the integral is the due time of a request. Both have closed forms, so the due time of request k needs
//! neither simulation nor state. Within a stage that starts at level `v` and changes by `a` per second:
//!
//! ```text
//!     x(t) = v t + a t^2 / 2        t(x) = 2 x / (v + sqrt(v^2 + 2 a x))
//! ```
//!
//! This form of the root, multiplied by the conjugate, is accurate for small `a` and for `v = 0`.

use crate::plan::{Level, PlanError, Stage};

/// A level over time, in seconds since the phase began.
#[derive(Clone, Debug)]
pub struct Profile {
    pieces: Vec<Piece>,
    /// The level after the last stage.
    last: Piece,
    /// Whether the stages repeat instead.
    repeats: bool,
}

#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Start and length.
    start: f64,
    length: f64,
    /// Level at the start, and its change per second.
    level: f64,
    slope: f64,
    /// Integral up to the start.
    before: f64,
}

impl Profile {
    /// Creates the profile of a plan's level. Refuses a level below 0, above 1e9 or constantly 0, and repeated stages
    /// without load.
    pub fn new(level: &Level) -> Result<Self, PlanError> {
        let (from, stages, repeats): (f64, &[Stage], bool) = match level {
            Level::Constant(value) => (*value, &[], false),
            Level::Stages { from, stages, repeats } => (*from, stages, *repeats),
        };
        let mut pieces = Vec::new();
        let (mut start, mut before, mut level) = (0.0, 0.0, from);
        for value in stages.iter().map(|stage| stage.to).chain([from]) {
            if !(0.0..=1e9).contains(&value) {
                return Err(PlanError::new(format!("a level of {value}: give 0 or more, up to 1e9")));
            }
        }
        for stage in stages {
            let length = stage.over.as_secs_f64();
            if length > 0.0 {
                let slope = (stage.to - level) / length;
                pieces.push(Piece { start, length, level, slope, before });
                start += length;
                before += (level + stage.to) / 2.0 * length;
            }
            level = stage.to;
        }
        let last = Piece { start, length: f64::INFINITY, level, slope: 0.0, before };
        if before <= 0.0 && (level <= 0.0 || repeats) {
            return Err(PlanError::new("a level of 0 throughout sends nothing: give more than 0"));
        }
        Ok(Self { pieces, last, repeats })
    }

    /// Returns the highest level of all stages.
    pub fn greatest(&self) -> f64 {
        self.all()
            .flat_map(|p| [p.level, if p.length.is_finite() { p.end_level() } else { p.level }])
            .fold(0.0, f64::max)
    }

    /// Returns the level at a time, s after the phase's start.
    pub fn level_at(&self, time: f64) -> f64 {
        let time = if self.repeats { time % self.last.start } else { time };
        let piece = self.all().find(|piece| time < piece.start + piece.length).unwrap_or(&self.last);
        piece.level + piece.slope * (time - piece.start)
    }

    /// Returns the time at which the integral of the level reaches `x`, s; `None` if never.
    pub fn inverse(&self, x: f64) -> Option<f64> {
        if !self.repeats {
            return self.within(x);
        }
        let Piece { start: period, before: area, .. } = self.last;
        let rest = (x % area).max(0.0);
        let periods = ((x - rest) / area).round();
        // A value rounded onto the end of a period belongs to the first rise in the next one.
        match self.within(rest).filter(|time| *time < period) {
            Some(time) => Some(periods * period + time),
            None => self.within(0.0).map(|time| (periods + 1.0) * period + time),
        }
    }

    /// Returns the time at which the integral reaches `x` in the first pass of the stages or after it, s; `None` if
    /// never.
    fn within(&self, x: f64) -> Option<f64> {
        let index = self.pieces.partition_point(|piece| piece.before <= x).saturating_sub(1);
        // At the end of a piece, or after the last, x belongs to the next one.
        for piece in self.pieces.iter().skip(index).chain([&self.last]) {
            let rest = (x - piece.before).max(0.0);
            let root = (piece.level * piece.level + 2.0 * piece.slope * rest).max(0.0).sqrt();
            let time = match piece.level + root {
                0.0 if rest == 0.0 && piece.slope > 0.0 => 0.0,
                0.0 => continue,
                sum => 2.0 * rest / sum,
            };
            if time < piece.length && piece.reaches(rest) {
                return Some(piece.start + time);
            }
        }
        None
    }

    /// Returns the periods in which the level is at least `y` (above 0), in seconds after the phase's start.
    /// Each has a start and an end, in ascending order. The last end may be infinite; empty if never. Repetitions of
    /// the stages are left out.
    pub fn at_least(&self, y: f64) -> Vec<(f64, f64)> {
        let mut stretches: Vec<(f64, f64)> = Vec::new();
        for piece in self.all() {
            let crossing = piece.start + (y - piece.level) / piece.slope;
            let end = piece.start + piece.length;
            let (from, to) = match (piece.level >= y, piece.slope != 0.0 && piece.end_level() >= y) {
                (true, _) if piece.slope == 0.0 => (piece.start, end),
                (true, true) => (piece.start, end),
                (true, false) => (piece.start, crossing),
                (false, true) => (crossing, end),
                (false, false) => continue,
            };
            match stretches.last_mut() {
                Some(last) if last.1 >= from => last.1 = to,
                _ => stretches.push((from, to)),
            }
        }
        stretches.retain(|(from, to)| to > from);
        stretches
    }

    /// Iterates over the pieces in order, with the last level at the end.
    fn all(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().chain([&self.last])
    }
}

impl Piece {
    /// Returns the level at the end of the piece.
    fn end_level(&self) -> f64 {
        self.level + self.slope * self.length
    }

    /// Returns whether the integral over the whole piece exceeds `rest`; true for the endless last piece.
    fn reaches(&self, rest: f64) -> bool {
        self.length.is_infinite() || rest < (self.level + self.end_level()) / 2.0 * self.length
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Creates a profile with these stages, each a level and its duration in seconds.
    fn profile(from: f64, stages: &[(f64, f64)]) -> Profile {
        let stages = stages.iter().map(|&(to, over)| Stage { to, over: Duration::from_secs_f64(over) }).collect();
        Profile::new(&Level::Stages { from, stages, repeats: false }).unwrap()
    }

    #[test]
    fn a_constant_rate_is_even() {
        let profile = Profile::new(&Level::Constant(4.0)).unwrap();
        assert_eq!([0.0, 1.0, 2.0].map(|x| profile.inverse(x)), [Some(0.0), Some(0.25), Some(0.5)]);
    }

    /// On a ramp, request x is due when the integral of the rate reaches x.
    #[test]
    fn a_ramp_reaches_its_requests_where_the_area_under_it_says() {
        // 0 to 10 in 10 s: t^2 / 2 requests by t, 50 in all; then 10 a second.
        let ramp = profile(0.0, &[(10.0, 10.0)]);
        for t in [0.5, 3.0, 7.0, 9.99] {
            assert!((ramp.inverse(t * t / 2.0).unwrap() - t).abs() < 1e-9);
        }
        assert!((ramp.inverse(60.0).unwrap() - 11.0).abs() < 1e-9);
        // Down to 0: the last request is never due.
        let down = profile(10.0, &[(0.0, 10.0)]);
        assert!((down.inverse(50.0 - 1e-9).unwrap() - 10.0).abs() < 1e-3);
        assert_eq!(down.inverse(50.5), None);
    }

    #[test]
    fn a_gap_without_load_is_skipped() {
        // 10 a second for a second, 0 for five, then 10 a second.
        let gap = profile(10.0, &[(10.0, 1.0), (0.0, 0.0), (0.0, 5.0), (10.0, 0.0)]);
        assert!((gap.inverse(9.0).unwrap() - 0.9).abs() < 1e-9);
        assert!((gap.inverse(10.0).unwrap() - 6.0).abs() < 1e-9);
        assert!((gap.inverse(11.0).unwrap() - 6.1).abs() < 1e-9);
    }

    #[test]
    fn the_inverse_is_monotonic_over_steps_and_ramps() {
        let mixed =
            profile(5.0, &[(50.0, 3.0), (50.0, 2.0), (1.0, 4.0), (1.0, 0.0), (30.0, 0.0), (30.0, 2.0), (0.0, 1.0)]);
        let mut last = -1.0;
        let mut x = 0.0;
        while let Some(t) = mixed.inverse(x) {
            assert!(t > last, "request at {x} is due at {t}, not after {last}");
            (last, x) = (t, x + 0.25);
        }
        let total = 82.5 + 100.0 + 102.0 + 60.0 + 15.0;
        assert!((x - total).abs() <= 0.25, "{x} of {total}");
    }

    /// `at_least` returns the periods in which a client is active.
    #[test]
    fn clients_are_there_while_the_level_is() {
        let up_and_down = profile(0.0, &[(4.0, 4.0), (4.0, 2.0), (0.0, 4.0)]);
        assert_eq!(up_and_down.at_least(1.0), [(1.0, 9.0)]);
        assert_eq!(up_and_down.at_least(4.0), [(4.0, 6.0)]);
        let steps = profile(2.0, &[(2.0, 5.0), (1.0, 0.0), (1.0, 5.0), (2.0, 0.0)]);
        assert_eq!(steps.at_least(1.0), [(0.0, f64::INFINITY)]);
        assert_eq!(steps.at_least(2.0), [(0.0, 5.0), (10.0, f64::INFINITY)]);
        assert_eq!(steps.at_least(3.0), []);
        assert_eq!(steps.greatest(), 2.0);
    }

    #[test]
    fn hours_of_a_day_come_again_each_day() {
        // A night without load, a morning of 10 a second, an afternoon that rises to 20: 25 requests in 5 s.
        let hours = [(0.0, 2.0), (10.0, 0.0), (10.0, 1.0), (20.0, 1.0), (0.0, 0.0), (0.0, 1.0)];
        let stages: Vec<_> =
            hours.iter().map(|&(to, over)| Stage { to, over: Duration::from_secs_f64(over) }).collect();
        let day = Profile::new(&Level::Stages { from: 0.0, stages, repeats: true }).unwrap();
        let once = profile(0.0, &hours);
        assert_eq!(once.inverse(25.5), None, "without another day nothing more comes");
        for request in 0..25 {
            let first = once.inverse(f64::from(request)).unwrap();
            for days in [0, 1, 2, 400] {
                let due = day.inverse(f64::from(request) + 25.0 * f64::from(days)).unwrap();
                assert!((due - first - 5.0 * f64::from(days)).abs() < 1e-6, "request {request} of day {days}: {due}");
            }
        }
        let all: Vec<_> = (0..200).map(|request| day.inverse(f64::from(request) / 3.0).unwrap()).collect();
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!(day.greatest(), 20.0);
        let nothing = Level::Stages { from: 5.0, stages: vec![Stage { to: 9.0, over: Duration::ZERO }], repeats: true };
        assert!(Profile::new(&nothing).is_err(), "days of no length");
    }

    #[test]
    fn a_ramp_to_nothing_and_from_nothing_is_refused() {
        let nothing =
            Level::Stages { from: 0.0, stages: vec![Stage { to: 0.0, over: Duration::from_secs(5) }], repeats: false };
        assert!(Profile::new(&nothing).is_err());
        assert!(Profile::new(&Level::Constant(-1.0)).is_err());
        assert!(Profile::new(&Level::Constant(2e9)).unwrap_err().to_string().contains("up to 1e9"));
        assert!(Profile::new(&Level::Constant(f64::NAN)).is_err());
    }
}
