//! Plan of one phase, passed from Python to the engine as JSON. Durations are seconds, rates are per second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::plan::access::{Auth, Tls};
use crate::util::draw::hash_name;

pub mod access;
mod back_off;
mod error;
mod journey;
mod seconds;
mod source;
mod tracing;
mod visible;

pub use back_off::BackOff;
pub use error::{PlanError, PlanErrorKind};
pub use journey::{Ask, Branch, Clock, Comparison, Missing, Repeat, Step, Test, Timed, When};
pub use source::{
    EventCondition, Events, Expression, FieldTest, FieldType, GeneratorPlan, Kind, LineFormat, Listen, Replay, Source,
    TransformStep,
};
pub use tracing::Tracing;
pub use visible::{Sampling, Visible};

/// Upper limit of durations, s: 30 years. Clocks can still represent it.
pub const NEVER: f64 = 1e9;

/// One phase of a workload, for one rank.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The run's seed. Together with the stream and the request's number it determines all random values.
    pub seed: u64,
    /// Number of this generator process, from 0 to `ranks` - 1.
    #[serde(default)]
    pub rank: u64,
    /// Number of generator processes that share the schedule.
    #[serde(default = "one")]
    pub ranks: u64,
    /// Worker threads of this process. Each has its own runtime.
    #[serde(default = "one")]
    pub threads: u64,
    /// Whether each worker has a core of its own and waits awake shortly before a request is due.
    #[serde(default)]
    pub spin: bool,
    /// Whether to record the generator's overhead by the kernel's timestamps of requests and answers.
    #[serde(default)]
    pub kernel_timestamps: bool,
    /// The phase's name; part of the seed of its draws, and a label in records.
    pub phase: String,
    /// Start of the run, seconds of this machine's CLOCK_MONOTONIC: the origin of recorded times. By default
    /// the start of this phase's load.
    #[serde(default)]
    pub began: Option<f64>,
    /// Start of the load, seconds of this machine's CLOCK_MONOTONIC; by default as soon as possible.
    #[serde(default)]
    pub start: Option<f64>,
    /// Duration of the warm-up, which is recorded separately. The upper limit in an `adjustable` phase.
    #[serde(default, deserialize_with = "seconds::deserialize")]
    pub warmup: Duration,
    /// Whether the caller may end the warm-up and the measured window earlier, while the load runs.
    #[serde(default)]
    pub adjustable: bool,
    /// Time after the start of the load at which open streams pause until the warm-up ends.
    #[serde(default, deserialize_with = "seconds::some")]
    pub pause_after: Option<Duration>,
    /// Wait for requests in flight at the end; after it they are recorded as in flight.
    #[serde(default = "thirty", deserialize_with = "seconds::deserialize")]
    pub drain: Duration,
    /// The target of the requests, and its protocol.
    pub target: Target,
    /// Corpora by name; see [`crate::workload::corpus`].
    #[serde(default)]
    pub corpora: BTreeMap<String, Value>,
    /// Variables by name; see [`crate::workload::variables`].
    #[serde(default)]
    pub variables: Map<String, Value>,
    /// Operations by name, each a form that the driver maps.
    pub operations: BTreeMap<String, Value>,
    /// Operations that repeat until a write is visible, and ingesting operations with visibility probes, by
    /// name.
    #[serde(default)]
    pub visible: BTreeMap<String, Visible>,
    /// Operations with live display of their latest answer.
    #[serde(default)]
    pub answers: BTreeSet<String>,
    /// Operations that record the first execution of each request separately.
    #[serde(default)]
    pub first: BTreeSet<String>,
    /// Operations that record data age, mapped to the ingesting operation of the events they show. The
    /// ingesting operation needs visibility probes.
    #[serde(default)]
    pub shows: BTreeMap<String, String>,
    /// Event sources by name.
    #[serde(default)]
    pub sources: BTreeMap<String, Source>,
    /// The streams; all start with the phase, and it ends after the last.
    pub streams: Vec<Stream>,
    /// Streams that end the phase: the first of these to end does. If empty, the phase ends with its last
    /// stream.
    #[serde(default)]
    pub ends_with: Vec<String>,
    /// Conditions that end the phase early; any one suffices.
    #[serde(default)]
    pub stop_when: Vec<Condition>,
    /// Whether to record every request individually; see [`crate::recording::sample`].
    #[serde(default)]
    pub samples: bool,
    /// Sampling of requests for traces; without it no request carries a trace context.
    #[serde(default)]
    pub trace: Option<Tracing>,
}

impl Plan {
    /// Returns how long after the warm-up stream number `stream` ends at the latest: the shortest duration of
    /// this stream and of the streams that end the phase. `None` if none of them has a duration.
    pub fn clock(&self, stream: usize) -> Option<Duration> {
        let ending = self.streams.iter().filter(|other| self.ends_with.contains(&other.name));
        let ends = ending.chain([&self.streams[stream]]).filter_map(|stream| match stream.stop {
            Stop::Duration(duration) => Some(duration),
            Stop::Requests(_) | Stop::Journeys(_) | Stop::Exhausted | Stop::Ended => None,
        });
        ends.min()
    }

    /// Returns the deadlines of the conditions on missed requests, ascending: times after a request was due.
    pub fn deadlines(&self) -> Vec<Duration> {
        let missed = self.stop_when.iter().filter(|condition| matches!(condition.metric, Metric::MissedShare));
        let seconds: BTreeSet<u64> = missed.map(|condition| condition.seconds).collect();
        seconds.into_iter().map(Duration::from_secs).collect()
    }

    /// Returns a hash of the fields that all ranks of a phase must share, and of the program's version.
    pub fn fingerprint(&self) -> u64 {
        let Self { seed, ranks, threads, phase, warmup, operations, visible, variables, streams, trace, .. } = self;
        let stamps = self.kernel_timestamps;
        let version = env!("CARGO_PKG_VERSION");
        hash_name(&format!(
            "{version} {seed} {ranks} {threads} {phase} {warmup:?} {operations:?} {visible:?} {variables:?} {streams:?} {trace:?} {stamps}"
        ))
    }
}

/// The target of the requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The driver's name: `search`, `null`, ...
    pub driver: String,
    /// The store's software, for protocols that differ between versions.
    #[serde(default)]
    pub store: Option<Store>,
    /// `host:port` of each node.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Default time-out of a request, in seconds above 0; 60 by default. Operations can override it.
    #[serde(default = "sixty", deserialize_with = "timeout")]
    pub timeout: Duration,
    /// TLS settings; without them connections are unencrypted.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// The credentials.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// File with the secret of `auth`, read again when it changes. A rank whose machine lacks it keeps the secret above.
    #[serde(default)]
    pub auth_file: Option<PathBuf>,
    /// Whether bodies of requests are compressed.
    #[serde(default)]
    pub compress: bool,
    /// Selection of the host for each request.
    #[serde(default)]
    pub spread: Spread,
    /// With fixed node selection: index in `hosts` of each client's host, repeated cyclically. By default
    /// client *i* uses host *i* mod *n*. Supported by drivers with interchangeable nodes.
    #[serde(default)]
    pub homes: Vec<u64>,
    /// Maximum number of open connections over all ranks; by default one per client.
    #[serde(default)]
    pub connections: Option<u64>,
    /// Nodes to read from, unless an operation overrides it. The values depend on the driver, for stores with
    /// different node roles.
    #[serde(default)]
    pub read_from: Option<String>,
    /// For the driver `several`: the targets by name.
    #[serde(default)]
    pub targets: BTreeMap<String, Target>,
}

/// A store's software.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Distribution name, as defined by the driver.
    pub distribution: String,
    /// Version, for example `6.8.23`.
    pub version: String,
}

/// Node selection: distribution of requests over the hosts of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Each client uses one host: client i uses host i mod n.
    #[default]
    Fixed,
    /// Request k goes to host k mod n; each client has a connection to each.
    RoundRobin,
    /// A request goes to the host with the fewest requests of this process in flight. Each client has a
    /// connection to each host.
    All,
}

/// One stream of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Name in records; with the phase's name, the seed of the stream's draws.
    pub name: String,
    /// Operations and their weights, often a single one. Empty for a journey.
    #[serde(default)]
    pub mix: Vec<(String, f64)>,
    /// Order of the operations of a mix.
    #[serde(default)]
    pub order: MixOrder,
    /// Operations that a user executes in order, instead of a mix.
    #[serde(default)]
    pub journey: Vec<JourneyStep>,
    /// Journey of users with branches and loops.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The simulated clock of users.
    #[serde(default)]
    pub clock: Option<Clock>,
    /// The load model.
    pub pacing: Pacing,
    /// When the stream is over.
    pub stop: Stop,
    /// Maximum number of retries of a request. Retries and their pauses count towards the response time.
    #[serde(default)]
    pub retries: u32,
    /// Pauses and limits of retries.
    #[serde(default)]
    pub back_off: BackOff,
}

impl Stream {
    /// Returns the number of requests that each arrival sends at the same due time: the sum of the weights of a mix in
    /// the order [`MixOrder::Together`], otherwise 1.
    pub fn group(&self) -> u64 {
        match self.order {
            MixOrder::Together => self.mix.iter().map(|(_, weight)| *weight as u64).sum(),
            MixOrder::Drawn | MixOrder::Permuted => 1,
        }
    }
}

/// Order of the operations of a mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixOrder {
    /// Each request draws its operation by the weights.
    #[default]
    Drawn,
    /// Each client repeats its own permutation of the operations; see [`crate::workload::permuted_mix`].
    Permuted,
    /// Each arrival of an open stream sends every operation at the same due time, as often as its weight.
    Together,
}

/// A step of a journey.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JourneyStep {
    /// Name of the operation.
    pub operation: String,
    /// The think time between this step's answer and the next step.
    #[serde(default)]
    pub think_time: Think,
}

/// Load model of a stream.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pacing {
    /// Closed loop: each client starts its next request or journey after the previous one and its think time.
    Closed {
        /// Number of clients over all ranks.
        clients: Level,
        /// The time between an answer and the next request, or between journeys.
        #[serde(default)]
        think_time: Think,
        /// Time between the starts of a client's iterations; 0 for none. A longer iteration delays the next.
        #[serde(default, with = "seconds", skip_serializing_if = "Duration::is_zero")]
        pacing: Duration,
    },
    /// Open loop: requests or users arrive at times independent of the answers.
    Open {
        /// Requests, journeys or groups per second, over all ranks.
        rate: Level,
        /// Distribution of the arrivals.
        #[serde(default)]
        arrivals: Arrivals,
        /// Maximum number in flight over all ranks. Requests or users due above it are dropped and counted, and all
        /// requests of a group that exceeds it.
        #[serde(default = "many")]
        max_in_flight: u64,
    },
    /// Users run a journey and share clients.
    Users {
        /// Number of users over all ranks.
        users: u64,
        /// Number of clients over all ranks, each with a connection.
        clients: u64,
        /// The time between journeys.
        #[serde(default)]
        think_time: Think,
        /// Time between the starts of a user's journeys; 0 for none. A longer journey delays the next.
        #[serde(default, with = "seconds", skip_serializing_if = "Duration::is_zero")]
        pacing: Duration,
        /// Time between the starts of the first and the last user.
        #[serde(default, with = "seconds")]
        over: Duration,
    },
    /// Requests carry the events of a source, and are due when these arrive.
    Source {
        /// The source's name.
        source: String,
        /// Number of clients over all ranks that send batches, each with a connection.
        workers: u64,
        /// The operation of each kind of event; empty if one operation ingests all kinds.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        routes: BTreeMap<String, String>,
    },
}

/// A number of clients or a rate; see [`crate::pacing::profile`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a level is a number, or {from, stages: [{to, over}], repeats} with times of 0 s or more"
)]
pub enum Level {
    /// A constant level.
    Constant(f64),
    /// Steps and ramps.
    Stages {
        /// Level at the phase's start.
        from: f64,
        /// The stages, in order.
        stages: Vec<Stage>,
        /// Whether the stages repeat, for example a daily pattern. Otherwise the last level holds.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeats: bool,
    },
}

/// A linear change of a level; over 0 seconds it is a step.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The level at its end.
    pub to: f64,
    /// Its duration.
    #[serde(with = "seconds")]
    pub over: Duration,
}

/// A think time.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a think time is 0 s or more, or drawn: {uniform}, {exponential} or {normal} of such times"
)]
pub enum Think {
    /// Constant.
    Constant(#[serde(with = "seconds")] Duration),
    /// Drawn for each request.
    Drawn(ThinkDraw),
}

/// Distribution of think times.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ThinkDraw {
    /// Uniform between two bounds.
    Uniform(#[serde(with = "seconds")] Duration, #[serde(with = "seconds")] Duration),
    /// Exponential with this mean.
    Exponential(#[serde(with = "seconds")] Duration),
    /// Normal with this mean and standard deviation; negative draws count as 0.
    Normal(#[serde(with = "seconds")] Duration, #[serde(with = "seconds")] Duration),
}

impl Default for Think {
    /// Returns a constant think time of 0.
    fn default() -> Self {
        Self::Constant(Duration::ZERO)
    }
}

/// Distribution of the arrivals of an open stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Even: request k is due when the integral of the rate reaches k.
    #[default]
    Constant,
    /// Poisson process: the integral of the rate between arrivals is exponential with mean 1.
    Poisson,
}

/// When a stream is over.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Stop {
    /// This long after the warm-up.
    #[serde(deserialize_with = "seconds::deserialize")]
    Duration(Duration),
    /// After this many requests over all ranks.
    Requests(u64),
    /// After each user has finished this many journeys.
    Journeys(u64),
    /// When each document of the operation's corpus has been sent once, or when a source has ended and all of
    /// its events have been sent.
    Exhausted,
    /// When another stream ends the phase.
    Ended,
}

/// Condition that ends a phase early: a metric exceeds a bound for several seconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The metric of a second.
    pub metric: Metric,
    /// The bound; met when the metric is above it.
    pub above: f64,
    /// For this many consecutive seconds; those without a figure are skipped.
    #[serde(default = "one")]
    pub seconds: u64,
}

/// Metric of one second of a phase.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Failed requests divided by all requests, 0 to 1.
    ErrorShare,
    /// 99th percentile of the response times, seconds. In a second without an answer, the age of the oldest
    /// unanswered request.
    ResponseP99,
    /// Dropped requests.
    Dropped,
    /// Share of the requests of open streams that failed, were dropped, or had no answer within the
    /// condition's `seconds` after they were due, 0 to 1: over the last `seconds` of the measured window.
    MissedShare,
}

/// Returns 1, a default.
fn one() -> u64 {
    1
}

/// Returns 30 s, the default of `drain`.
fn thirty() -> Duration {
    Duration::from_secs(30)
}

/// Returns 60 s, the default of `timeout`.
fn sixty() -> Duration {
    Duration::from_secs(60)
}

/// Reads a time-out in seconds. Refuses 0 or less, and 1e9 or more.
fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    timeout_of(seconds).ok_or_else(|| D::Error::custom(format!("\"timeout\" wants seconds above 0, not {seconds}")))
}

/// Converts a time-out in seconds; `None` unless it is above 0 and below 1e9.
pub fn timeout_of(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
}

/// Returns 1024, the default of `max_in_flight`.
fn many() -> u64 {
    1024
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn times_are_numbers_of_seconds_in_json_and_cannot_be_below_0() {
        for pacing in [
            json!({"closed": {"clients": 2.0, "think_time": 0.25}}),
            json!({"closed": {"clients": 2.0, "think_time": {"uniform": [0.1, 0.3]}}}),
            json!({"closed": {"clients": 2.0, "think_time": {"exponential": 1.5}}}),
            json!({"closed": {
                "clients": {"from": 1.0, "stages": [{"to": 9.0, "over": 2.5}]},
                "think_time": {"normal": [0.0, 1e-6]},
            }}),
        ] {
            assert_eq!(to_value(from_value::<Pacing>(pacing.clone()).unwrap()).unwrap(), pacing);
        }
        for (pacing, cause) in [
            (json!({"closed": {"clients": 1, "think_time": -1}}), "a think time is 0 s or more"),
            (json!({"closed": {"clients": 1, "think_time": {"exponential": -1}}}), "a think time is 0 s or more"),
            (json!({"open": {"rate": {"from": 1, "stages": [{"to": 2, "over": -1}]}}}), "times of 0 s or more"),
            (json!({"open": {"rate": {"from": 1, "stages": [{"to": 2, "over": 1e9}]}}}), "times of 0 s or more"),
        ] {
            let error = from_value::<Pacing>(pacing).unwrap_err().to_string();
            assert!(error.contains(cause), "{error}");
        }
    }
}
