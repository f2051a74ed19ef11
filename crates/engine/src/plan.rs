//! The plan of one phase: what Python hands to the engine, as JSON. Durations are seconds, rates are per second.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

/// One phase of a workload, for one rank.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The run's seed; with the stream and the request's number it fixes everything random.
    pub seed: u64,
    /// This generator process among `ranks`, from 0.
    #[serde(default)]
    pub rank: u64,
    /// How many generator processes share the schedule.
    #[serde(default = "one")]
    pub ranks: u64,
    /// Worker threads of this process, each with a runtime of its own.
    #[serde(default = "one")]
    pub threads: u64,
    /// The phase's name; it keys the phase's randomness and labels its records.
    pub phase: String,
    /// Seconds since the run began at which this phase begins, for the records.
    #[serde(default)]
    pub offset: f64,
    /// Seconds of warm-up: load that is recorded apart from the measurement.
    #[serde(default)]
    pub warmup: f64,
    /// How long requests in flight at the end are waited for before they are recorded as in flight.
    #[serde(default = "thirty")]
    pub drain: f64,
    /// Whom to talk to, and by which protocol.
    pub target: Target,
    /// Corpora by name; see [`crate::corpus`].
    #[serde(default)]
    pub corpora: BTreeMap<String, Value>,
    /// Variables by name; see [`crate::variables`].
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// Operations by name, each a form that the driver maps.
    pub operations: BTreeMap<String, Value>,
    /// The streams that fork at the phase's start and join at its end.
    pub streams: Vec<Stream>,
}

/// Whom to talk to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The driver's name: `search`, `null`, ...
    pub driver: String,
    /// `host:port` of each node.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Seconds after which a request counts as timed out, unless its operation says otherwise.
    #[serde(default = "sixty")]
    pub timeout: f64,
}

/// One stream of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Names the stream in records; keys its randomness together with the phase's name.
    pub name: String,
    /// Operations and their weights; a mix of one is the common case.
    pub mix: Vec<(String, f64)>,
    /// When requests are due.
    pub pacing: Pacing,
    /// When the stream is over.
    pub stop: Stop,
}

/// When requests are due.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pacing {
    /// Each client sends its next request when the last is answered and its think time is over.
    Closed {
        /// How many clients, over all generators.
        clients: u64,
        /// Seconds between an answer and the next request.
        #[serde(default)]
        think_time: f64,
    },
    /// Requests are due at instants that do not depend on the answers.
    Open {
        /// Requests per second, over all generators.
        rate: f64,
        /// How arrivals are spaced.
        #[serde(default)]
        arrivals: Arrivals,
        /// A request that is due while so many (over all generators) are in flight is dropped, and counted.
        #[serde(default = "many")]
        max_in_flight: u64,
    },
}

/// How the arrivals of an open stream are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly: request k is due at k / rate.
    #[default]
    Constant,
    /// As a Poisson process: independent exponential gaps with mean 1 / rate.
    Poisson,
}

/// When a stream is over.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Stop {
    /// So many seconds after the warm-up.
    Duration(f64),
    /// After so many requests, over all generators.
    Requests(u64),
    /// When each document of the operation's corpus has been sent once.
    Exhausted,
}

/// A plan that cannot be carried out: says which part, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError(pub String);

impl PlanError {
    /// Puts the place in front of the message: `operation "range": unknown variable "lo"`.
    pub fn within(self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

fn one() -> u64 {
    1
}

fn thirty() -> f64 {
    30.0
}

fn sixty() -> f64 {
    60.0
}

fn many() -> u64 {
    1024
}
