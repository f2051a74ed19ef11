//! Sampling of requests for traces.

use serde::Deserialize;

/// The share of the requests that carry a trace context.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tracing {
    /// Sampled share of the requests of each stream, above 0 and at most 1.
    pub share: f64,
    /// Number of the run; part of the trace ids, which would otherwise be equal in all runs with one seed.
    pub run: u64,
}
