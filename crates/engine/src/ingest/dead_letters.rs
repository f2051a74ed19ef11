//! Dead letters: invalid lines, and events that the store refused permanently. They are counted by reason,
//! and written to a file if the plan names one.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::util::json::whole::Invalid;

/// Reason of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// The line is not a JSON object.
    NoObject,
    /// The line is nested deeper than [`crate::util::json::whole::DEEPEST`].
    TooDeep,
    /// The kind is missing.
    NoKind,
    /// The source does not define the kind.
    UnknownKind,
    /// The id is missing or empty.
    NoId,
    /// The id is not Unicode: it has half of a surrogate pair.
    OddId,
    /// The time is missing.
    NoTime,
    /// The time cannot be parsed.
    OddTime,
    /// A step of the transformation cannot process the line.
    Transform,
    /// No pattern of a grok step fits the line.
    NoMatch,
    /// A line of text is not UTF-8.
    NoText,
    /// The line exceeds the maximum length.
    TooLong,
    /// The input ended in the middle of the line.
    CutOff,
    /// The store refused the event.
    Refused,
}

impl Reason {
    const ALL: [Self; 14] = [
        Self::NoObject,
        Self::TooDeep,
        Self::NoKind,
        Self::UnknownKind,
        Self::NoId,
        Self::OddId,
        Self::NoTime,
        Self::OddTime,
        Self::Transform,
        Self::NoMatch,
        Self::NoText,
        Self::TooLong,
        Self::CutOff,
        Self::Refused,
    ];

    /// Returns the name used in counts and files.
    pub fn name(self) -> &'static str {
        [
            "not a JSON object",
            "nested too deep",
            "no type",
            "unknown type",
            "no id",
            "unreadable id",
            "no time",
            "unreadable time",
            "transform failed",
            "no match",
            "not UTF-8",
            "too long",
            "cut off",
            "refused",
        ][self as usize]
    }
}

/// Reason of a dead letter, with details that may be empty.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// Details, such as the step and the field.
    pub words: String,
}

impl From<Reason> for Refusal {
    /// Creates a refusal without details.
    fn from(reason: Reason) -> Self {
        Self { reason, words: String::new() }
    }
}

impl From<Invalid> for Reason {
    /// Converts the reason why a line is not a valid object.
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::NoObject => Self::NoObject,
            Invalid::TooDeep => Self::TooDeep,
        }
    }
}

/// Dead letters of a source.
#[derive(Debug, Default)]
pub struct DeadLetters {
    counts: [AtomicU64; Reason::ALL.len()],
    /// Created with the first letter.
    file: Option<(PathBuf, Mutex<Option<File>>)>,
}

/// Dead letters to count and write together.
#[derive(Default)]
pub struct Bundle {
    counts: [u64; Reason::ALL.len()],
    text: String,
}

impl Bundle {
    /// Returns the size of the text to write, bytes.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Adds the text of a letter, as a line of JSON. `words` details the reason and may be empty. A line that is not
    /// UTF-8 is also kept as base64. `from`: name of the line's origin.
    fn add(&mut self, reason: Reason, words: &str, line: &[u8], from: impl fmt::Display) {
        let colon = if words.is_empty() { "" } else { ": " };
        let reason = format!("{}{colon}{words}", reason.name());
        let text = String::from_utf8_lossy(line);
        let mut letter = json!({"reason": reason, "line": text, "source": from.to_string()});
        if std::str::from_utf8(line).is_err() {
            letter["base64"] = STANDARD.encode(line).into();
        }
        writeln!(self.text, "{letter}").expect("text can be written to");
    }
}

impl DeadLetters {
    /// Creates an empty set. Letters are appended to the file at `path`, if given.
    pub fn new(path: Option<&Path>) -> Self {
        Self { counts: Default::default(), file: path.map(|path| (path.to_owned(), Mutex::default())) }
    }

    /// Counts a dead letter in a bundle, and adds its text if the letters are written to a file. `words` details the
    /// reason and may be empty. `from`: name of the line's origin.
    pub fn add(&self, bundle: &mut Bundle, reason: Reason, words: &str, line: &[u8], from: impl fmt::Display) {
        bundle.counts[reason as usize] += 1;
        // Letters are counted even without a file.
        if self.file.is_some() {
            bundle.add(reason, words, line, from);
        }
    }

    /// Adds the counts of a bundle to the counts of the source, and sets the bundle's counts to 0.
    pub fn count(&self, bundle: &mut Bundle) {
        for (counter, count) in self.counts.iter().zip(std::mem::take(&mut bundle.counts)) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Appends the letters of a bundle to the file, if there is one, and removes them from the bundle. Opens the file
    /// at the first letter. Returns a message with the path if the file cannot be opened or written; these letters are
    /// lost.
    pub fn write(&self, bundle: &mut Bundle) -> Result<(), String> {
        let dead_letters = std::mem::take(&mut bundle.text);
        let Some((path, file)) = self.file.as_ref().filter(|_| !dead_letters.is_empty()) else { return Ok(()) };
        let mut file = file.lock().expect("no thread panics while it holds the lock");
        let opened = match &mut *file {
            Some(file) => Ok(file),
            none => OpenOptions::new().append(true).create(true).open(path).map(|file| none.insert(file)),
        };
        let written = opened.and_then(|file| file.write_all(dead_letters.as_bytes()));
        written.map_err(|error| format!("cannot write dead letters: {}: {error}", path.display()))
    }

    /// Returns the number of letters with this reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// Returns the number of letters by the name of their reason, without zeros.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let counts = Reason::ALL.map(|reason| (reason.name().to_owned(), self.of(reason)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
