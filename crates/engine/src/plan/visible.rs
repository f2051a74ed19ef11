//! Reads that look for what a write before them has written.

use std::time::Duration;

use serde::Deserialize;

use super::seconds;

/// How long, and how often, an operation looks until its answer is a success.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Visible {
    /// Between an answer and the next look: the resolution of what is measured.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub every: Duration,
    /// After this time since it was scheduled it is given up.
    #[serde(deserialize_with = "seconds::deserialize")]
    pub within: Duration,
}
