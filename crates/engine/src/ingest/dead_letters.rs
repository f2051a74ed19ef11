//! Dead letters: lines that are not events, and events that the store refuses for good. They are counted by their
//! reason, and kept in a file if the plan names one.

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

/// Why a line is not an event of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Reason {
    /// It is not a JSON object.
    NoObject,
    /// It is nested deeper than [`crate::util::json::whole::DEEPEST`].
    TooDeep,
    /// It does not say its kind.
    NoKind,
    /// The source does not know its kind.
    UnknownKind,
    /// It has no id, or an empty one.
    NoId,
    /// Its id is not Unicode: it has half of a surrogate pair.
    OddId,
    /// It has no time.
    NoTime,
    /// Its time cannot be read.
    OddTime,
    /// It is longer than lines may be.
    TooLong,
    /// Its sender went away in the middle of it.
    CutOff,
    /// The store refused it.
    Refused,
}

impl Reason {
    const ALL: [Self; 11] = [
        Self::NoObject,
        Self::TooDeep,
        Self::NoKind,
        Self::UnknownKind,
        Self::NoId,
        Self::OddId,
        Self::NoTime,
        Self::OddTime,
        Self::TooLong,
        Self::CutOff,
        Self::Refused,
    ];

    /// As it is counted.
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
            "too long",
            "cut off",
            "refused",
        ][self as usize]
    }
}

/// The dead letters of a source.
#[derive(Debug, Default)]
pub struct DeadLetters {
    counts: [AtomicU64; Reason::ALL.len()],
    /// Made with the first letter.
    file: Option<(PathBuf, Mutex<Option<File>>)>,
}

/// Dead letters that are counted and written together.
#[derive(Default)]
pub struct Bundle {
    counts: [u64; Reason::ALL.len()],
    text: String,
}

impl Bundle {
    /// Adds a letter. `words` may say more of the reason. A line that is not UTF-8 is kept as base64, too.
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
    /// None yet. They are added to the file, if one is named.
    pub fn new(path: Option<&Path>) -> Self {
        Self { counts: Default::default(), file: path.map(|path| (path.to_owned(), Mutex::default())) }
    }

    /// Adds a letter to those that will be written together. `words` may say more of the reason.
    pub fn add(&self, bundle: &mut Bundle, reason: Reason, words: &str, line: &[u8], from: impl fmt::Display) {
        bundle.counts[reason as usize] += 1;
        // What is not kept is counted all the same.
        if self.file.is_some() {
            bundle.add(reason, words, line, from);
        }
    }

    /// Counts letters.
    pub fn count(&self, bundle: &mut Bundle) {
        for (counter, count) in self.counts.iter().zip(std::mem::take(&mut bundle.counts)) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Writes letters; an error in words where they cannot be written.
    pub fn write(&self, bundle: &mut Bundle) -> Result<(), String> {
        let dead_letters = std::mem::take(&mut bundle.text);
        let Some((path, file)) = self.file.as_ref().filter(|_| !dead_letters.is_empty()) else { return Ok(()) };
        let mut file = file.lock().expect("no thread panics while it holds the lock");
        let opened = match &mut *file {
            Some(file) => Ok(file),
            none => OpenOptions::new().append(true).create(true).open(path).map(|file| none.insert(file)),
        };
        let written = opened.and_then(|file| file.write_all(dead_letters.as_bytes()));
        written.map_err(|error| format!("dead letters are lost: {}: {error}", path.display()))
    }

    /// How many there are of a reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// How many there are by reason, where there are any.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let counts = Reason::ALL.map(|reason| (reason.name().to_owned(), self.of(reason)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}
