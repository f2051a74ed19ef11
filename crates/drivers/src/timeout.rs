//! How long an answer is waited for.

use std::fmt::Display;
use std::time::Duration;

use loadframe_engine::plan::{PlanError, Target};
use serde_json::Value;

/// As the target says, for all operations that do not say otherwise.
pub fn of_target(target: &Target) -> Result<Duration, PlanError> {
    duration(target.timeout).ok_or_else(|| wrong(target.timeout))
}

/// As an operation's form says, or as long as any.
pub fn of_operation(form: &Value, any: Duration) -> Result<Duration, PlanError> {
    match form.get("timeout").filter(|timeout| !timeout.is_null()) {
        Some(own) => own.as_f64().and_then(duration).ok_or_else(|| wrong(own)),
        None => Ok(any),
    }
}

/// Seconds above 0, and so few that no clock overflows.
fn duration(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
}

fn wrong(seconds: impl Display) -> PlanError {
    PlanError(format!("\"timeout\" wants seconds above 0, not {seconds}"))
}
