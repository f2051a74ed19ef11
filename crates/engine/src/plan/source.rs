//! Event sources of a plan.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Number, Value};

use super::{Level, seconds};

/// A source of events, one JSON object per line. Exactly one of `listen`, `files`, `stdin` and `generate` is
/// set.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Receive lines over TCP.
    #[serde(default)]
    pub listen: Option<Listen>,
    /// Read lines from files, plain or compressed (.gz, .bz2, .zst), one after the other.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// Read lines from standard input.
    #[serde(default)]
    pub stdin: bool,
    /// Generate events.
    #[serde(default)]
    pub generate: Option<GeneratorPlan>,
    /// Replay files: lines are due at the intervals between their own times.
    #[serde(default)]
    pub replay: Option<Replay>,
    /// The fields to extract from a line.
    pub events: Events,
    /// Maximum number of events per request.
    #[serde(default = "batch")]
    pub batch: usize,
    /// Maximum time that an event waits for its request to fill.
    #[serde(default = "flush", deserialize_with = "seconds::deserialize")]
    pub flush: Duration,
    /// Maximum size of the events in memory, bytes. Above it, the source is not read.
    #[serde(default = "buffer")]
    pub buffer: u64,
    /// Maximum size of the events on disk while memory is full, bytes; 0 disables the spill.
    #[serde(default)]
    pub spill: u64,
    /// Folder of the spill; by default the system's temporary folder.
    #[serde(default)]
    pub spill_folder: Option<PathBuf>,
    /// Maximum length of a line, bytes.
    #[serde(default = "longest_line")]
    pub longest_line: usize,
    /// The source ends after this long without a line.
    #[serde(default, deserialize_with = "seconds::some")]
    pub idle: Option<Duration>,
    /// With `listen`: start the load with the first line, and fail if none arrives within this time.
    #[serde(default, deserialize_with = "seconds::some")]
    pub wait: Option<Duration>,
    /// File for invalid lines and refused events, with the reason. It is appended to.
    #[serde(default)]
    pub dead_letters: Option<PathBuf>,
    /// Whether TCP senders receive the number of acknowledged lines.
    #[serde(default)]
    pub acknowledge: bool,
}

/// A TCP port to listen on.
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
    /// Maximum number of open connections; further ones are closed at once.
    #[serde(default = "connections")]
    pub connections: usize,
    /// Time limit of a TLS handshake.
    #[serde(default = "handshake", deserialize_with = "seconds::deserialize")]
    pub handshake: Duration,
}

/// Generated events.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GeneratorPlan {
    /// The generator's name; see [`crate::workload::event::generate`].
    pub generator: String,
    /// New documents per second, over all ranks.
    pub rate: Level,
    /// Total number of documents over all ranks; unlimited by default.
    #[serde(default)]
    pub documents: Option<u64>,
    /// The seed; the plan's by default.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Event time at the load's start, ISO 8601; now by default.
    #[serde(default)]
    pub start: Option<String>,
    /// Whether events are generated at the rate, or as fast as the queue has room. Their own times follow the
    /// rate in both cases.
    #[serde(default = "paced")]
    pub paced: bool,
    /// Parameters of the generator.
    #[serde(default)]
    pub with: Map<String, Value>,
}

/// Replay of events at the intervals of their own times.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// JSON pointer to the event's time.
    pub time: String,
    /// Log seconds per second.
    pub speed: f64,
}

/// Fields to extract from a line, as JSON pointers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    /// Pointer to the kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// Format of the lines.
    #[serde(default)]
    pub format: LineFormat,
    /// The kinds by name.
    pub kinds: BTreeMap<String, Kind>,
    /// Steps for the lines of all kinds, before the kind is read.
    #[serde(default)]
    pub transform: Vec<TransformStep>,
}

/// Format of a source's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineFormat {
    /// A JSON object.
    #[default]
    Json,
    /// Text, which becomes the field `message` of an object.
    Text,
}

/// A kind of events.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Pointer to the id of the document that an event updates.
    pub id: String,
    /// Pointer to the time that selects the document's index or partition.
    pub time: String,
    /// Steps for the lines of this kind, before id and time are read.
    #[serde(default)]
    pub transform: Vec<TransformStep>,
}

/// A step of a line's transformation. Fields are JSON pointers whose names are members of objects.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case", deny_unknown_fields)]
pub enum TransformStep {
    /// Move a field, if it exists.
    Rename {
        /// The field.
        field: String,
        /// Its new name.
        to: String,
    },
    /// Remove a field, if it exists.
    Drop {
        /// The field.
        field: String,
    },
    /// Change the type of a field.
    Convert {
        /// The field.
        field: String,
        /// Its new type.
        to: FieldType,
    },
    /// Set a field to a value of other fields.
    Derive {
        /// The field.
        field: String,
        /// Its value.
        value: Expression,
    },
    /// Set a field to a constant.
    Add {
        /// The field.
        field: String,
        /// The constant.
        value: Value,
    },
    /// Drop the event if a condition holds.
    DropEvent {
        /// The condition.
        condition: EventCondition,
    },
    /// Set fields to the parts of a text that the first fitting pattern captures.
    Grok {
        /// The text.
        field: String,
        /// Patterns, in the order in which they are tried.
        patterns: Vec<String>,
        /// Further patterns by name.
        #[serde(default)]
        custom: BTreeMap<String, String>,
    },
}

/// A condition on the fields of a line.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EventCondition {
    /// Test of a field.
    Field {
        /// The field.
        field: String,
        /// The test.
        test: FieldTest,
    },
    /// The negation of a condition.
    Not(Box<EventCondition>),
    /// All conditions hold.
    All(Vec<EventCondition>),
    /// At least one condition holds.
    Any(Vec<EventCondition>),
}

/// Test of a field.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldTest {
    /// It equals one of the values.
    Equals(Vec<Value>),
    /// A regular expression matches a part of it.
    Matches(String),
    /// It exists.
    Exists,
    /// It is missing.
    Missing,
    /// It is a number below.
    Below(Number),
    /// It is a number of at most.
    AtMost(Number),
    /// It is a number above.
    Above(Number),
    /// It is a number of at least.
    AtLeast(Number),
}

/// Type of a converted field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// An integer of 64 bits.
    Integer,
    /// A finite number with a fraction.
    Float,
    /// `true` or `false`.
    Boolean,
    /// A string.
    Text,
    /// ISO 8601 in UTC.
    Time,
}

/// Value of a derived field.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Expression {
    /// A time in UTC, formatted as strftime does.
    Date {
        /// The time.
        of: String,
        /// The format, such as `%Y.%m.%d`.
        format: String,
        /// The format of the time, unless it is ISO 8601 or milliseconds since 1970.
        #[serde(default)]
        from: Option<String>,
    },
    /// One part of a split text.
    Part {
        /// The text.
        of: String,
        /// The separator.
        split: String,
        /// Index of the part, from 0.
        at: usize,
    },
    /// Texts with a separator between them.
    Join {
        /// The texts.
        of: Vec<String>,
        /// The separator.
        with: String,
    },
    /// Sum of numbers.
    Sum(Vec<String>),
    /// Product of numbers.
    Product(Vec<String>),
}

impl Expression {
    /// Returns the fields that the expression reads, as JSON pointers.
    pub fn operands(&self) -> &[String] {
        match self {
            Self::Date { of, .. } | Self::Part { of, .. } => std::slice::from_ref(of),
            Self::Join { of, .. } | Self::Sum(of) | Self::Product(of) => of,
        }
    }
}

/// Returns the default number of events per request: 4096.
fn batch() -> usize {
    4096
}

/// Returns the default of [`GeneratorPlan::paced`]: true.
fn paced() -> bool {
    true
}

/// Returns the default limit of open connections: 1024.
fn connections() -> usize {
    1024
}

/// Returns the default time limit of a TLS handshake: 10 s.
fn handshake() -> Duration {
    Duration::from_secs(10)
}

/// Returns the default time that an event waits for its request to fill: 0.5 s.
fn flush() -> Duration {
    Duration::from_millis(500)
}

/// Returns the default size of the events in memory: 64 MiB.
fn buffer() -> u64 {
    64 << 20
}

/// Returns the default length limit of a line: 1 MiB.
fn longest_line() -> usize {
    1 << 20
}
