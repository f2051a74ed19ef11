//! The timeout of an operation.

use std::time::Duration;

use loadframe_engine::plan::{PlanError, timeout_of};
use serde_json::Value;

/// Reads the key `timeout`, in seconds, from the operation's form; returns the target's `default` if it is missing or
/// null. Refuses 0, negative numbers and other values.
pub fn of_operation(form: &Value, default: Duration) -> Result<Duration, PlanError> {
    match form.get("timeout").filter(|timeout| !timeout.is_null()) {
        Some(given) => given
            .as_f64()
            .and_then(timeout_of)
            .ok_or_else(|| PlanError::new(format!("\"timeout\" wants seconds above 0, not {given}"))),
        None => Ok(default),
    }
}
