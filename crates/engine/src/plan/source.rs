//! Where events come from, as plans have it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Level, seconds};

/// A source of events, each of which is a line of JSON. It has one of `listen`, `files`, `stdin` and `generate`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Lines come by TCP.
    #[serde(default)]
    pub listen: Option<Listen>,
    /// Lines come from files, plain or compressed (.gz, .bz2, .zst), one after the other.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Lines come from standard input.
    #[serde(default)]
    pub stdin: bool,
    /// Lines are made up.
    #[serde(default)]
    pub generate: Option<Made>,
    /// Of files: lines are due as far apart as their own times are.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// What is read out of a line.
    pub events: Events,
    /// How many events a request carries at most.
    #[serde(default = "batch")]
    pub batch: usize,
    /// How long an event waits for others at most before a request carries it.
    #[serde(default = "flush", deserialize_with = "seconds::deserialize")]
    pub flush: Duration,
    /// How many bytes of events are kept in memory before the source is not read any more.
    #[serde(default = "buffer")]
    pub buffer: u64,
    /// How many bytes may lie on disk when memory is full, before the source is not read any more; 0: none.
    #[serde(default)]
    pub spill: u64,
    /// The folder for that; by default that of the system for temporary files.
    #[serde(default)]
    pub spill_folder: Option<PathBuf>,
    /// Bytes of the longest line that is an event.
    #[serde(default = "longest_line")]
    pub longest_line: usize,
    /// The source ends when no line has come for that long.
    #[serde(default, deserialize_with = "seconds::some")]
    pub idle: Option<Duration>,
    /// With `listen`: the load begins with the first line, which may take so long to come.
    #[serde(default, deserialize_with = "seconds::some")]
    pub wait: Option<Duration>,
    /// The file that lines go to which are not events, or which the store refuses, with the reason. It is added to.
    #[serde(default)]
    pub dead_letters: Option<PathBuf>,
    /// Whether senders by TCP are told how many of their lines are safe.
    #[serde(default)]
    pub acknowledge: bool,
}

/// A port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    /// `host:port`; with port 0 the system chooses one.
    pub address: String,
    /// For TLS: the certificate chain, PEM.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    /// For TLS: the certificate's private key, PEM.
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// How many connections may be open at a time; more are closed at once.
    #[serde(default = "connections")]
    pub connections: usize,
    /// How long a TLS handshake may take.
    #[serde(default = "handshake", deserialize_with = "seconds::deserialize")]
    pub handshake: Duration,
}

/// Events that are made up.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// The generator's name; see [`crate::workload::event::generate`].
    pub generator: String,
    /// New documents per second, over all ranks.
    pub rate: Level,
    /// How many documents, over all ranks; by default there is no end.
    #[serde(default)]
    pub documents: Option<u64>,
    /// By default the plan's.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The instant of the events at the load's start, ISO 8601; by default now.
    #[serde(default)]
    pub start: Option<String>,
    /// Whether they come at the rate, or else whenever there is room for them. Their own times are as far apart as at the
    /// rate in either case.
    #[serde(default = "paced")]
    pub paced: bool,
    /// What the generator knows.
    #[serde(default)]
    pub with: Map<String, Value>,
}

/// Events that are due at their own times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The JSON pointer of an event's own time.
    pub time: String,
    /// How many seconds of theirs go by in one second.
    pub speed: f64,
}

/// What is read out of a line; places are JSON pointers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// The place of its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kinds that there are.
    pub kinds: BTreeMap<String, Kind>,
}

/// A kind of events.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// The place of the id of the document that an event belongs to.
    pub id: String,
    /// The place of the time by which the document is placed.
    pub time: String,
}

fn batch() -> usize {
    4096
}

fn paced() -> bool {
    true
}

fn connections() -> usize {
    1024
}

fn handshake() -> Duration {
    Duration::from_secs(10)
}

fn flush() -> Duration {
    Duration::from_millis(500)
}

fn buffer() -> u64 {
    64 << 20
}

fn longest_line() -> usize {
    1 << 20
}
