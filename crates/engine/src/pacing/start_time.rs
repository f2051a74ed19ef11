//! Start time of a phase: the origin of its time axis, by each clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::pacing::clock::ClockReading;
use crate::plan::{NEVER, Plan, PlanError};

/// Time for workers to start, if the plan sets no start time.
const RUN_UP: Duration = Duration::from_millis(30);

/// Maximum distance of a start time from now, s. Beyond it, the time is not from this machine's clock.
const FAR: f64 = 86_400.0;

/// Start time of a phase.
#[derive(Clone, Copy, Debug)]
pub struct StartTime {
    /// Both clocks at the creation of the phase. Recorded times are relative to the monotonic clock; this
    /// pair relates them to the wall clock.
    pub clock: ClockReading,
    /// By the monotonic clock.
    pub at: Instant,
    /// In seconds of CLOCK_MONOTONIC.
    pub monotonic: f64,
    /// By the wall clock.
    pub wall: SystemTime,
    /// Offset from the run's start. Time before the load, for example for reading a corpus, is not part of
    /// the phase.
    pub offset: Duration,
}

impl StartTime {
    /// Creates the start time of a phase: `start`, in seconds of CLOCK_MONOTONIC, or 30 ms from now for `None`.
    /// `start` may be past. Refuses one more than a day away, and a start of the run (`plan.began`) after it.
    pub fn new(plan: &Plan, start: Option<f64>) -> Result<Self, PlanError> {
        let clock = ClockReading::take();
        let ahead = match start {
            Some(start) => start - clock.monotonic,
            None => RUN_UP.as_secs_f64(),
        };
        if ahead.is_nan() || ahead.abs() > FAR {
            return Err(PlanError::new(format!(
                "the load is to start at {} s of the monotonic clock, which is {ahead} s away: give an instant of this \
                 machine's clock",
                clock.monotonic + ahead
            )));
        }
        let by = Duration::from_secs_f64(ahead.abs());
        let (at, wall) = match ahead >= 0.0 {
            true => (Some(clock.at + by), clock.wall + by),
            false => (clock.at.checked_sub(by), clock.wall.checked_sub(by).unwrap_or(UNIX_EPOCH)),
        };
        let monotonic = clock.monotonic + ahead;
        let at = at.ok_or_else(|| {
            PlanError::new(format!("the start, {monotonic} s of the monotonic clock, is out of range"))
        })?;
        Ok(Self { clock, at, monotonic, wall, offset: after(plan, monotonic)? })
    }

    /// Returns the run's start by the wall clock; 1970 if it is out of range.
    pub fn began(&self) -> SystemTime {
        self.wall.checked_sub(self.offset).unwrap_or(UNIX_EPOCH)
    }
}

/// Returns the time from the run's start to `monotonic`, in seconds of CLOCK_MONOTONIC; 0 if the plan gives no start of
/// the run. Refuses a run's start in the future.
fn after(plan: &Plan, monotonic: f64) -> Result<Duration, PlanError> {
    let Some(began) = plan.began else { return Ok(Duration::ZERO) };
    match Duration::try_from_secs_f64(monotonic - began) {
        Ok(offset) if offset.as_secs_f64() < NEVER => Ok(offset),
        _ => Err(PlanError::new(format!("the start of the run, {began} s of the monotonic clock, is in the future"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a plan whose run began at `began`, seconds of CLOCK_MONOTONIC.
    fn plan(began: Option<f64>) -> Plan {
        serde_json::from_value(json!({
            "seed": 1, "phase": "p", "began": began, "target": {"driver": "null"}, "operations": {}, "streams": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_start_that_is_named_is_kept_whether_it_is_past_or_not() {
        let now = ClockReading::take();
        for ahead in [2.0, -0.5] {
            let start_time = StartTime::new(&plan(Some(now.monotonic - 10.0)), Some(now.monotonic + ahead)).unwrap();
            assert!((start_time.offset.as_secs_f64() - 10.0 - ahead).abs() < 1e-6);
            let expected = if ahead > 0.0 {
                now.at + Duration::from_secs_f64(ahead)
            } else {
                now.at - Duration::from_secs_f64(-ahead)
            };
            let off = start_time.at.max(expected) - start_time.at.min(expected);
            assert!(off < Duration::from_micros(100), "{off:?}");
        }
    }

    #[test]
    fn a_default_start_is_soon() {
        let start_time = StartTime::new(&plan(None), None).unwrap();
        assert_eq!(start_time.offset, Duration::ZERO);
        assert!(start_time.at > Instant::now() && start_time.at < Instant::now() + 2 * RUN_UP);
    }

    #[test]
    fn an_instant_of_another_clock_is_refused() {
        let error = StartTime::new(&plan(None), Some(1_790_000_000.0)).unwrap_err().message;
        assert!(error.contains("this machine's clock"), "{error}");
        let error = StartTime::new(&plan(Some(1e9)), None).unwrap_err().message;
        assert!(error.contains("is in the future"), "{error}");
        assert!(StartTime::new(&plan(None), Some(f64::NAN)).is_err());
    }
}
