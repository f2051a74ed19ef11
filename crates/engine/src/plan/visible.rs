//! Visibility checks: reads that wait until a write or an event is visible.

use std::time::Duration;

use serde::Deserialize;

use super::{Plan, PlanError, seconds};

/// Poll interval and time limit of a visibility check.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visible {
    /// Time between an answer and the next poll: the resolution of the measurement.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub every: Duration,
    /// Time limit, from the scheduled time or the event's arrival.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub within: Duration,
    /// For ingesting operations: probe one event per this interval.
    #[serde(default, deserialize_with = "seconds::some")]
    pub sample: Option<Duration>,
}

impl Plan {
    /// Returns the settings of the visibility probes of an ingesting operation; `None` if the plan checks no
    /// visibility for it. Refuses a check without `sample`, or with a sample of 0.
    pub fn sampling(&self, operation: &str) -> Result<Option<Sampling>, PlanError> {
        let Some(Visible { every, within, sample }) = self.visible.get(operation).copied() else { return Ok(None) };
        match sample {
            Some(sample) if !sample.is_zero() => Ok(Some(Sampling { every, within, sample })),
            _ => Err(PlanError::new(
                "visible: an ingesting operation needs \"sample\", the probing interval: give seconds above 0",
            )),
        }
    }
}

/// Settings of visibility probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// See [`Visible::every`].
    pub every: Duration,
    /// See [`Visible::within`].
    pub within: Duration,
    /// See [`Visible::sample`].
    pub sample: Duration,
}
