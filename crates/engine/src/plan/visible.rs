//! Reads that look for what was written before, by a request or by the events of a source.

use std::time::Duration;

use serde::Deserialize;

use super::{Plan, PlanError, seconds};

/// How long, and how often, an operation looks until its answer is a success, or until events are seen.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visible {
    /// Between an answer and the next look: the resolution of what is measured.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub every: Duration,
    /// After this time since it was scheduled, or since the event arrived, it is given up.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub within: Duration,
    /// Of an operation that takes events in: one event in each such time is looked for.
    #[serde(default, deserialize_with = "seconds::some")]
    pub sample: Option<Duration>,
}

impl Plan {
    /// How events that an operation takes in are looked for, if they are.
    pub fn sampling(&self, operation: &str) -> Result<Option<Sampling>, PlanError> {
        let Some(Visible { every, within, sample }) = self.visible.get(operation).copied() else { return Ok(None) };
        match sample {
            Some(sample) if !sample.is_zero() => Ok(Some(Sampling { every, within, sample })),
            _ => Err(PlanError::new(
                "visible: an operation that takes events in wants to know one in how long it \
                                     looks for: give \"sample\" more than 0",
            )),
        }
    }
}

/// How events are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Sampling {
    /// See [`Visible::every`].
    pub every: Duration,
    /// See [`Visible::within`].
    pub within: Duration,
    /// See [`Visible::sample`].
    pub sample: Duration,
}
