//! Retries of a stream: which failures, after which pause, and how many.

use std::time::Duration;

use serde::Deserialize;

use super::seconds;
use crate::util::error_class::ErrorClass;

/// Pauses and limits of retries.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BackOff {
    /// Pause before the first retry.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub base: Duration,
    /// Factor between successive pauses: 1 for constant pauses.
    pub factor: f64,
    /// Maximum pause, unless the store requests a longer one.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub cap: Duration,
    /// Maximum share by which chance lengthens a pause, so that clients that failed together do not retry together.
    pub jitter: f64,
    /// Maximum retries per request on average, for each worker thread; `None` for no limit.
    pub budget: Option<f64>,
    /// Retryable failures.
    pub on: Vec<ErrorClass>,
    /// Whether to wait at least as long as the store requests (`Retry-After`), up to 60 s.
    pub respect_retry_after: bool,
}

impl Default for BackOff {
    /// Returns pauses from 50 ms, doubled up to 2 s, plus up to 50 % at random; retries all classes that may succeed
    /// later.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(50),
            factor: 2.0,
            cap: Duration::from_secs(2),
            jitter: 0.5,
            budget: None,
            on: ErrorClass::ALL.into_iter().filter(|class| class.may_pass()).collect(),
            respect_retry_after: true,
        }
    }
}
