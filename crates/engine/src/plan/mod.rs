//! The plan of one phase: what Python hands to the engine, as JSON. Durations are seconds, rates are per second.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::plan::access::{Auth, Tls};
use crate::util::draw::hash_name;

pub mod access;
mod error;
mod journey;
mod seconds;
mod source;
mod visible;

pub use error::{PlanError, PlanErrorKind};
pub use journey::{Ask, Clock, Comparison, Missing, Repeat, Step, Test, Timed, Way, When};
pub use source::{Events, Kind, Listen, Made, Replay, Source};
pub use visible::{Sampling, Visible};

/// Seconds that no phase lasts, and that clocks can still count: 30 years.
pub const NEVER: f64 = 1e9;

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
    /// When the run began, seconds of this machine's CLOCK_MONOTONIC: the zero of the records' times. By default it
    /// begins with this phase's load.
    #[serde(default)]
    pub began: Option<f64>,
    /// When the load begins, seconds of this machine's CLOCK_MONOTONIC; by default as soon as it can.
    #[serde(default)]
    pub start: Option<f64>,
    /// Load that is recorded apart from the measurement.
    #[serde(default, deserialize_with = "seconds::deserialize")]
    pub warmup: Duration,
    /// How long requests in flight at the end are waited for before they are recorded as in flight.
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
    /// The operations that look until what was written is seen, and those whose events are looked for, by name.
    #[serde(default)]
    pub visible: BTreeMap<String, Visible>,
    /// The operations whose newest answers are kept for whoever watches.
    #[serde(default)]
    pub answers: BTreeSet<String>,
    /// The operations whose first executions of each request are recorded apart from later ones.
    #[serde(default)]
    pub first: BTreeSet<String>,
    /// The operations whose answers show events, and the operations that take these in, whose events are looked for: how
    /// old the newest event is that an answer shows is recorded.
    #[serde(default)]
    pub shows: BTreeMap<String, String>,
    /// Where events come from, by name.
    #[serde(default)]
    pub sources: BTreeMap<String, Source>,
    /// The streams that fork at the phase's start and join at its end.
    pub streams: Vec<Stream>,
    /// The streams, the first of which to end ends the phase; without any the phase ends with its last stream.
    #[serde(default)]
    pub ends_with: Vec<String>,
    /// Any of these ends the phase early.
    #[serde(default)]
    pub stop_when: Vec<Condition>,
    /// Whether every request is recorded for itself, too; see [`crate::recording::sample`].
    #[serde(default)]
    pub samples: bool,
}

impl Plan {
    /// The earliest end, after the warm-up, that the clock sets to a stream: its own, or that of one that ends the phase.
    pub fn clock(&self, stream: usize) -> Option<Duration> {
        let ending = self.streams.iter().filter(|other| self.ends_with.contains(&other.name));
        let ends = ending.chain([&self.streams[stream]]).filter_map(|stream| match stream.stop {
            Stop::Duration(duration) => Some(duration),
            Stop::Requests(_) | Stop::Journeys(_) | Stop::Exhausted | Stop::Ended => None,
        });
        ends.min()
    }

    /// A number that stands for what all ranks of a phase must agree on.
    pub fn fingerprint(&self) -> u64 {
        let Self { seed, ranks, threads, phase, warmup, operations, visible, variables, streams, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        hash_name(&format!(
            "{version} {seed} {ranks} {threads} {phase} {warmup:?} {operations:?} {visible:?} {variables:?} {streams:?}"
        ))
    }
}

/// The target of the requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The driver's name: `search`, `null`, ...
    pub driver: String,
    /// What runs there, for protocols that differ between versions.
    #[serde(default)]
    pub store: Option<Store>,
    /// `host:port` of each node.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// When a request counts as timed out, unless its operation says otherwise: seconds above 0, 60 if it is not said.
    #[serde(default = "sixty", deserialize_with = "timeout")]
    pub timeout: Duration,
    /// How the hosts are reached by TLS; without it, unencrypted.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// The credentials.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// Whether bodies of requests are compressed.
    #[serde(default)]
    pub compress: bool,
    /// Which of several hosts a request goes to.
    #[serde(default)]
    pub spread: Spread,
    /// With a fixed spread: the place in `hosts` of each client's host, client by client and from the start again; by
    /// default client *i* has host *i* mod *n*. Drivers whose nodes are all alike know it.
    #[serde(default)]
    pub homes: Vec<u64>,
    /// How many connections may be open at a time, over all generators; by default as many as there are clients.
    #[serde(default)]
    pub connections: Option<u64>,
    /// Which nodes are read from, unless an operation says otherwise; drivers of stores whose nodes differ know the
    /// words.
    #[serde(default)]
    pub read_from: Option<String>,
    /// Of the driver `several`: the targets, by the names that operations have for them.
    #[serde(default)]
    pub targets: BTreeMap<String, Target>,
}

/// A store's software.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// What it calls itself; the driver knows the names.
    pub distribution: String,
    /// Such as `6.8.23`.
    pub version: String,
}

/// How requests are spread over the hosts of a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Each client keeps to one: client i to host i mod n.
    #[default]
    Fixed,
    /// Request k goes to host k mod n; each client has a connection to each.
    RoundRobin,
    /// A request goes to the host with the fewest of this generator's requests in flight; each client has a connection
    /// to each.
    All,
}

/// One stream of requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Names the stream in records; keys its randomness together with the phase's name.
    pub name: String,
    /// Operations and their weights; a mix of one is the common case. Empty where there is a journey.
    #[serde(default)]
    pub mix: Vec<(String, f64)>,
    /// How the operations of a mix follow each other.
    #[serde(default)]
    pub order: MixOrder,
    /// The operations that one user walks through in order, instead of a mix.
    #[serde(default)]
    pub journey: Vec<JourneyStep>,
    /// The journey of users, who go ways of their own.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// The simulated clock of users.
    #[serde(default)]
    pub clock: Option<Clock>,
    /// When requests are due.
    pub pacing: Pacing,
    /// When the stream is over.
    pub stop: Stop,
    /// How often a request that failed for no fault of its own is tried again at once; inside its response time.
    #[serde(default)]
    pub retries: u32,
}

/// How the operations of a mix follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MixOrder {
    /// Each request draws its operation by the weights.
    #[default]
    Drawn,
    /// Each client walks round all of them in an order of its own; see [`crate::workload::permuted_mix`].
    Permuted,
}

/// A step of a journey.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JourneyStep {
    /// What is asked for.
    pub operation: String,
    /// The think time between this step's answer and the next step.
    #[serde(default)]
    pub think_time: Think,
}

/// When requests are due.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Pacing {
    /// Each client sends its next request, or walks its next journey, when the last is over and its think time too.
    Closed {
        /// How many clients, over all generators.
        clients: Level,
        /// The time between an answer and the next request, or between journeys.
        #[serde(default)]
        think_time: Think,
    },
    /// Requests are due, or users arrive for a journey, at instants that do not depend on the answers.
    Open {
        /// Requests or journeys per second, over all generators.
        rate: Level,
        /// How arrivals are spaced.
        #[serde(default)]
        arrivals: Arrivals,
        /// A request (or user) that is due while this many (over all generators) are in flight is dropped and counted.
        #[serde(default = "many")]
        max_in_flight: u64,
    },
    /// Users walk a journey, and share clients.
    Users {
        /// How many, over all generators.
        users: u64,
        /// How many clients, each with its connection, ask for them; over all generators.
        clients: u64,
        /// The time between journeys.
        #[serde(default)]
        think_time: Think,
        /// The first begins with the load, and the last one this long after.
        #[serde(default, with = "seconds")]
        over: Duration,
    },
    /// Requests carry the events of a source, and are due when these arrive.
    Source {
        /// The source's name.
        source: String,
        /// How many clients, each with its connection, send batches of events; over all generators.
        workers: u64,
    },
}

/// A number of clients or a rate; see [`crate::pacing::profile`].
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "a level is a number, or {from, stages: [{to, over}], repeats} with times of 0 s or more"
)]
pub enum Level {
    /// The same throughout.
    Constant(f64),
    /// Steps and ramps.
    Stages {
        /// At the phase's start.
        from: f64,
        /// One after the other.
        stages: Vec<Stage>,
        /// Whether it begins again after the last stage, for rates such as those of the hours of a day; otherwise the
        /// last level holds.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeats: bool,
    },
}

/// A linear change of a level; one over 0 seconds is a step.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The level at its end.
    pub to: f64,
    /// How long it takes.
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
    /// Always the same.
    Constant(#[serde(with = "seconds")] Duration),
    /// Drawn for each request.
    Drawn(ThinkDraw),
}

/// How think times are drawn.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ThinkDraw {
    /// Between two bounds.
    Uniform(#[serde(with = "seconds")] Duration, #[serde(with = "seconds")] Duration),
    /// With this mean.
    Exponential(#[serde(with = "seconds")] Duration),
    /// With this mean and standard deviation; below 0 counts as 0.
    Normal(#[serde(with = "seconds")] Duration, #[serde(with = "seconds")] Duration),
}

impl Default for Think {
    fn default() -> Self {
        Self::Constant(Duration::ZERO)
    }
}

/// How the arrivals of an open stream are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Evenly: request k is due when k are due by the rate so far.
    #[default]
    Constant,
    /// As a Poisson process: the rate so far grows by independent exponential amounts of mean 1.
    Poisson,
}

/// When a stream is over.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Stop {
    /// This long after the warm-up.
    #[serde(deserialize_with = "seconds::deserialize")]
    Duration(Duration),
    /// After this many requests, over all generators.
    Requests(u64),
    /// After each user has walked its journey so often.
    Journeys(u64),
    /// When each document of the operation's corpus has been sent once, or when a source has ended and all of its events
    /// have been sent.
    Exhausted,
    /// When the phase ends, which another stream decides.
    Ended,
}

/// Ends a phase early when a figure of its last seconds passes a bound.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// Which figure of a second.
    pub metric: Metric,
    /// The bound; met when the figure is above it.
    pub above: f64,
    /// For this many consecutive seconds.
    #[serde(default = "one")]
    pub seconds: u64,
}

/// A figure of one second of a phase.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Failed requests over all, 0 to 1.
    ErrorShare,
    /// 99th percentile of the response times, seconds; in a second without an answer the age of the oldest request that
    /// waits for one.
    ResponseP99,
    /// Requests that were dropped.
    Dropped,
}

fn one() -> u64 {
    1
}

fn thirty() -> Duration {
    Duration::from_secs(30)
}

fn sixty() -> Duration {
    Duration::from_secs(60)
}

fn timeout<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    timeout_of(seconds).ok_or_else(|| D::Error::custom(format!("\"timeout\" wants seconds above 0, not {seconds}")))
}

/// The duration of a time-out in seconds: above 0, and so short that no clock overflows; `None` otherwise.
pub fn timeout_of(seconds: f64) -> Option<Duration> {
    (seconds > 0.0 && seconds < 1e9).then(|| Duration::from_secs_f64(seconds))
}

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
