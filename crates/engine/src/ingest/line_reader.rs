//! Line reader: cuts the bytes of one connection or file into lines and hands over their events.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use memchr::memchr_iter;

use super::Source;
use super::acks::Acks;
use super::chunk::Chunk;
use super::dead_letters::{Bundle, Reason, Refusal};
use crate::pacing::schedule::Stride;
use crate::workload::event::Event;

/// Number of bytes per read.
pub const READING: usize = 64 << 10;

/// The UTF-8 byte order mark, which some programs write before the first line.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads the lines of one connection or file.
pub struct LineReader<'a> {
    source: &'a Source,
    from: From,
    /// Bytes not cut yet; holds no line end between reads.
    buffer: Vec<u8>,
    /// Beginning of an overlong line. The rest of the line is skipped.
    too_long: Option<Vec<u8>>,
    /// Whether the next line is the first.
    first: bool,
    /// Acknowledgement state, if the sender wants acknowledgements.
    pub acks: Option<Rc<RefCell<Acks>>>,
}

/// Origin of the lines, for dead letters.
#[derive(Clone, Debug)]
pub enum From {
    /// Address of a sender.
    Sender(String),
    /// Path of a file and number of its last line.
    File(String, u64),
}

impl fmt::Display for From {
    /// Writes the sender's address, or `FILE:LINE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sender(name) => f.write_str(name),
            Self::File(name, line) => write!(f, "{name}:{line}"),
        }
    }
}

impl From {
    /// Returns whether this rank uses the current line: of a file each rank uses every n-th line, of a sender all.
    fn is_mine(&self, share: Stride) -> bool {
        match self {
            Self::Sender(_) => true,
            Self::File(_, line) => (line - 1) % share.of == share.index,
        }
    }

    /// Advances the line number, if the lines are of a file.
    fn next(&mut self) {
        if let Self::File(_, line) = self {
            *line += 1;
        }
    }
}

/// Returns the wall clock, milliseconds since 1970; 0 if it is set before 1970.
pub fn wall() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

impl<'a> LineReader<'a> {
    /// Creates a reader with an empty buffer. `from`: origin of the lines, for dead letters.
    pub fn new(source: &'a Source, from: From) -> Self {
        Self { source, from, buffer: Vec::new(), too_long: None, first: true, acks: None }
    }

    /// Returns the number of complete lines of a file so far; 0 for a sender.
    pub fn line(&self) -> u64 {
        match self.from {
            From::File(_, line) => line,
            From::Sender(_) => 0,
        }
    }

    /// Returns the buffer to append to, with at least 64 KiB of spare capacity.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer.reserve(READING);
        &mut self.buffer
    }

    /// Appends the bytes that `read` writes into a slice of 64 KiB; returns their number, or the error of `read`.
    pub fn fill<E>(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<usize, E> {
        let before = self.buffer.len();
        self.buffer.resize(before + READING, 0);
        let count = read(&mut self.buffer[before..]);
        self.buffer.truncate(before + count.as_ref().map_or(0, |count| *count));
        count
    }

    /// Queues the events of the complete lines, after `count` bytes were appended to the buffer.
    /// Keeps the incomplete last line. Invalid and overlong lines become dead letters.
    pub fn arrived(&mut self, count: usize) {
        let mut reading = ReadChunk::new();
        // Ranks that share a file read all of it, and each counts the bytes of its own lines.
        let shared = self.source.share.of > 1;
        if !shared {
            self.source.add_bytes(count);
        }
        let mut start = 0;
        let fresh = self.buffer.len() - count;
        for end in memchr_iter(b'\n', &self.buffer[fresh..]) {
            let end = fresh + end;
            self.from.next();
            let is_mine = self.from.is_mine(self.source.share);
            if shared && is_mine {
                self.source.add_bytes(end + 1 - start);
            }
            match self.too_long.take() {
                _ if !is_mine => {}
                Some(beginning) => reading.refuse(self.source, Reason::TooLong, &beginning, &self.from),
                None => {
                    let start = start + self.mark(start, end);
                    reading.line(self.source, (&self.buffer, start, end), &self.from, false);
                }
            }
            self.first = false;
            start = end + 1;
        }
        self.hand_over(reading, start);
        // A byte order mark and a carriage return do not count. `ReadChunk::line` checks the length without them.
        if self.buffer.len() > self.source.plan.longest_line.saturating_add(MARK.len() + 1) {
            let kept = self.source.plan.longest_line;
            self.too_long.get_or_insert_with(|| self.buffer[..kept].to_vec());
        }
        if self.too_long.is_some() {
            self.buffer = Vec::new();
        }
    }

    /// Returns the length of a byte order mark at `start`, if the line at `start..end` of the buffer is the first;
    /// otherwise 0.
    fn mark(&self, start: usize, end: usize) -> usize {
        if self.first && self.buffer[start..end].starts_with(MARK) { MARK.len() } else { 0 }
    }

    /// Queues the last line, which may lack its line end. `whole`: the input is complete; otherwise the line is a dead
    /// letter unless it is a complete object.
    pub fn end(&mut self, whole: bool) {
        let mut reading = ReadChunk::new();
        self.from.next();
        let end = self.buffer.len();
        let beginning = self.too_long.take();
        if !self.from.is_mine(self.source.share) {
            return;
        }
        if self.source.share.of > 1 {
            self.source.add_bytes(end);
        }
        if let Some(beginning) = beginning {
            let reason = if whole { Reason::TooLong } else { Reason::CutOff };
            reading.refuse(self.source, reason, &beginning, &self.from);
        } else {
            reading.line(self.source, (&self.buffer, self.mark(0, end), end), &self.from, !whole);
        }
        self.hand_over(reading, end);
    }

    /// Queues the events of a read, writes its dead letters, and removes the first `end` bytes from the buffer.
    fn hand_over(&mut self, mut reading: ReadChunk, end: usize) {
        let Self { source, buffer, acks, .. } = self;
        if reading.lines == 0 {
            buffer.drain(..end);
            return;
        }
        // Tokens stay in memory. While events go to disk, share one token among many reads.
        let together = source.queue.spills();
        // Invalid lines are settled when their dead letters are stored.
        let dead = reading.lines > reading.events.len() as u64 + reading.dropped;
        let waits_for = reading.events.len() + usize::from(dead);
        let ticket = acks.as_ref().map(|acks| acks.borrow_mut().read(reading.lines, waits_for, together));
        let of_letters = ticket.clone().filter(|_| dead);
        let rest = buffer[end..].to_vec();
        // Small reads must not keep large buffers.
        let bytes = if source.reader.transforms() {
            *buffer = rest;
            reading.transformed
        } else if end < buffer.capacity() / 2 {
            let bytes = buffer[..end].to_vec();
            buffer.clear();
            buffer.extend_from_slice(&rest);
            bytes
        } else {
            std::mem::replace(buffer, rest)
        };
        let chunk = Chunk { bytes, events: reading.events, ticket };
        let (lines, dropped) = (reading.lines, reading.dropped);
        if source.take_up(lines, dropped, chunk.trimmed(), &mut reading.dead_letters) {
            of_letters.iter().for_each(|ticket| ticket.settle());
        }
    }
}

/// Events and dead letters of one read.
struct ReadChunk {
    events: Vec<Event>,
    lines: u64,
    /// Lines whose events the transformation drops.
    dropped: u64,
    dead_letters: Bundle,
    /// The lines of the events, if the source transforms lines. Otherwise events refer to the lines as read.
    transformed: Vec<u8>,
    now: Instant,
    arrival: i64,
}

impl ReadChunk {
    /// Creates an empty chunk that arrives now.
    fn new() -> Self {
        Self {
            events: Vec::new(),
            lines: 0,
            dropped: 0,
            dead_letters: Bundle::default(),
            transformed: Vec::new(),
            now: Instant::now(),
            arrival: wall(),
        }
    }

    /// Adds the line at `start..end` of the buffer, as an event, a dropped line or a dead letter. Ignores an empty
    /// line. `cut`: its end may be missing.
    fn line(&mut self, source: &Source, (buffer, start, end): (&[u8], usize, usize), from: &From, cut: bool) {
        let line = source.reader.content(&buffer[start..end]);
        if line.is_empty() {
            return;
        }
        let before = self.transformed.len();
        match source.parse(line, cut, &mut self.transformed) {
            Ok(None) => {
                self.lines += 1;
                self.dropped += 1;
            }
            Ok(Some(fields)) => {
                self.lines += 1;
                let (start, end) = if source.reader.transforms() {
                    (before, self.transformed.len())
                } else {
                    let start = line.as_ptr() as usize - buffer.as_ptr() as usize;
                    (start, start + line.len())
                };
                self.events.push(Event {
                    arrived: self.now,
                    line: start..end,
                    id: start + fields.id.start..start + fields.id.end,
                    kind: fields.kind,
                    time: fields.time,
                    arrival: self.arrival,
                });
            }
            Err(refusal) => self.refuse(source, refusal, &line[..line.len().min(source.plan.longest_line)], from),
        }
    }

    /// Counts a line, and adds it as a dead letter. `refusal`: the reason. `from`: the line's origin.
    fn refuse(&mut self, source: &Source, refusal: impl Into<Refusal>, line: &[u8], from: &From) {
        let refusal = refusal.into();
        self.lines += 1;
        source.dead_letters.add(&mut self.dead_letters, refusal.reason, &refusal.words, line, from);
    }
}
