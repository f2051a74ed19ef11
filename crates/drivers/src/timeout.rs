//! How long the answer to an operation is waited for.

use std::time::Duration;

use loadframe_engine::plan::{PlanError, timeout_of};
use serde_json::Value;

/// As an operation's form says, or else as long as the target's other operations wait.
pub fn of_operation(form: &Value, default: Duration) -> Result<Duration, PlanError> {
    match form.get("timeout").filter(|timeout| !timeout.is_null()) {
        Some(given) => given
            .as_f64()
            .and_then(timeout_of)
            .ok_or_else(|| PlanError::new(format!("\"timeout\" wants seconds above 0, not {given}"))),
        None => Ok(default),
    }
}
