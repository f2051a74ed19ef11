//! Bytes that are read before the phase in search of the first event; the phase reads them again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::line::Reader;
use super::line_reader::{MARK, READING};
use super::transform::Transform;
use crate::plan::{PlanError, Source};

/// The recognition of events of a source, and the limits of the search for its first.
#[derive(Debug)]
pub struct Search {
    reader: Reader,
    longest_line: usize,
    buffer: u64,
    stopped: AtomicBool,
}

/// The first bytes of a connection or of standard input, and the part of them without an event.
#[derive(Debug, Default)]
pub struct Ahead {
    /// The bytes read so far.
    pub bytes: Vec<u8>,
    /// Number of bytes in complete lines without an event.
    pub searched: usize,
}

impl Search {
    /// Creates the search for a source. Refuses invalid pointers and steps.
    pub fn new(plan: &Source) -> Result<Self, PlanError> {
        let reader = Reader::new(&plan.events, plan.replay.as_ref().map(|replay| replay.time.as_str()))?;
        Ok(Self {
            reader: reader.with(Transform::new(&plan.events, plan.longest_line)?),
            longest_line: plan.longest_line,
            buffer: plan.buffer,
            stopped: AtomicBool::new(false),
        })
    }

    /// Returns whether a line is text: its end may be missing although it is an event.
    pub fn reads_text(&self) -> bool {
        self.reader.reads_text()
    }

    /// Makes `check` fail from now on.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Fails if `stop` was called, or if `bytes` exceeds the source's buffer.
    /// `bytes`: number of bytes read from `place` without an event.
    pub fn check(&self, bytes: usize, place: &str) -> Result<(), PlanError> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(PlanError::new(format!("the search for an event at {place} was stopped")));
        }
        if bytes as u64 > self.buffer {
            return Err(PlanError::new(format!("no line in the first {bytes} bytes at {place} is an event")));
        }
        Ok(())
    }

    /// Returns the error for a source that ended without an event.
    pub fn none(&self, place: &str) -> PlanError {
        PlanError::new(format!("no line of {place} is an event"))
    }
}

impl Ahead {
    /// Creates it without bytes.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), searched: 0 }
    }

    /// Appends the bytes that `read` writes into a slice of 64 KiB; returns their number, or the error of `read`.
    pub fn fill<E>(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        let before = self.bytes.len();
        self.bytes.resize(before + READING, 0);
        let count = read(&mut self.bytes[before..]);
        self.bytes.truncate(before + count.as_ref().map_or(0, |count| *count));
        count
    }

    /// Returns whether any complete line is an event of the source, and remembers how far it searched.
    /// `whole`: the last line is complete without a line end.
    pub fn has_event(&mut self, search: &Search, whole: bool) -> bool {
        let mut searched = self.searched;
        let has_event = self.bytes[searched..].split_inclusive(|byte| *byte == b'\n').any(|line| {
            let ended = line.ends_with(b"\n");
            let marked = line.strip_prefix(MARK).filter(|_| searched == 0);
            let content = search.reader.content(marked.unwrap_or(line));
            // The phase does not read an unfinished line if it ends before the line does.
            let event = (ended || whole)
                && content.len() <= search.longest_line
                && matches!(search.reader.parse(content, &mut Vec::new()), Ok(Some(_)));
            searched += if ended && !event { line.len() } else { 0 };
            event
        });
        self.searched = searched;
        has_event
    }

    /// Frees memory: removes the searched lines except the first byte, and all bytes beyond `longest` + 64 KiB.
    pub fn forget(&mut self, longest: usize) {
        // The first byte stays: a byte order mark only counts at the start.
        self.bytes.drain(1..self.searched.max(1));
        self.searched = self.searched.min(1);
        self.bytes.truncate(longest.saturating_add(READING));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    const BID: &str = r#"{"type":"bid","id":"a","time":5}"#;

    #[test]
    fn an_event_is_found_among_other_lines_and_not_before_it_is_whole() {
        let kinds = json!({"bid": {"id": "/id", "time": "/time"}});
        let source = json!({"stdin": true, "events": {"type": "/type", "kinds": kinds}, "longest_line": 60});
        let search = Search::new(&from_value(source).unwrap()).unwrap();
        let finds = |lines: &str| {
            // Bytes can arrive one by one.
            let mut slowly = Ahead::default();
            let has_event = lines.bytes().any(|byte| {
                slowly.bytes.push(byte);
                slowly.has_event(&search, false)
            });
            assert_eq!(Ahead { bytes: lines.into(), searched: 0 }.has_event(&search, false), has_event, "{lines}");
            has_event
        };
        for lines in [format!("{BID}\n"), format!("no event\n\n{BID}\n"), format!("\u{feff}{BID}\n{{")] {
            assert!(finds(&lines), "{lines}");
        }
        assert!(Ahead { bytes: BID.into(), searched: 0 }.has_event(&search, true));
        let long = format!("{BID}\n").replace("\"a\"", &format!("\"{}\"", "a".repeat(60)));
        let marked = format!("{{}}\n\u{feff}{BID}\n");
        for lines in ["", "\n", "GET / HTTP/1.1\r\n\r\n", "{}\n", BID, &long, &marked] {
            assert!(!finds(lines), "{lines}");
        }
    }
}
