//! Spill: events on disk while memory is full.
//!
//! Chunks are appended to unnamed files. Only this process sees the files, and they disappear however it
//! ends. The spill uses several files, because a file's space is freed when all of it was read.
//! Acknowledgement tokens stay in memory.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::mem::take;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::acks::AckToken;
use super::chunk::Chunk;
use crate::workload::event::Event;

/// Number of files that share the size limit. A partly read file still occupies its whole space.
const FILES: u64 = 64;

/// Disk space to leave free, bytes: the run is recorded on the same disk.
const SPARED: u64 = 64 << 20;

/// The spill of one source.
#[derive(Debug)]
pub struct Spill {
    /// Path of the files, without the file number.
    path: PathBuf,
    most: u64,
    /// Origin of the stored times.
    origin: Instant,
    files: VecDeque<SpillFile>,
    made: u64,
    /// Bytes on disk.
    held: u64,
}

/// One spill file.
#[derive(Debug)]
struct SpillFile {
    file: File,
    written: u64,
    read: u64,
    /// Events written but not read back.
    events: usize,
    tickets: Vec<Arc<AckToken>>,
    /// Index in `tickets` of each token, by its address.
    places: HashMap<usize, u32>,
}

/// Header before the lines of a chunk.
#[derive(Serialize, Deserialize)]
struct Head {
    ticket: Option<u32>,
    events: Vec<Written>,
}

/// An event on disk. The lines follow the header in the order of the events.
#[derive(Serialize, Deserialize)]
struct Written {
    arrived: Duration,
    line: usize,
    /// Range of the id, relative to the start of its line.
    id: (usize, usize),
    kind: usize,
    time: i64,
    arrival: i64,
}

/// Size of the two lengths in front of a chunk, bytes: header and lines.
const LENGTHS: usize = 16;

/// Events that could not be read back.
#[derive(Debug)]
pub struct UnreadableEvents {
    /// Number of events.
    pub events: usize,
    /// The cause.
    pub error: io::Error,
}

impl Spill {
    /// Creates a spill without files. `path`: path prefix of the files, which are created when needed. `most`: maximum
    /// size on disk, bytes.
    pub fn new(path: PathBuf, most: u64) -> Self {
        Self { path, most, origin: Instant::now(), files: VecDeque::new(), made: 0, held: 0 }
    }

    /// Returns the number of bytes on disk.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Appends a chunk; returns its size on disk in bytes, or `None` if the spill is full. Fails if the disk has less
    /// than 64 MiB to spare besides, or cannot be written.
    pub fn write(&mut self, chunk: &Chunk) -> io::Result<Option<u64>> {
        let mut lines = Vec::with_capacity(chunk.bytes.len());
        let events = chunk.events.iter().map(|event| {
            let Event { arrived, line, id, kind, time, arrival } = event.copied(&chunk.bytes, &mut lines);
            let arrived = arrived.saturating_duration_since(self.origin);
            let id = (id.start - line.start, id.end - line.start);
            Written { arrived, line: line.len(), id, kind, time, arrival }
        });
        let events: Vec<Written> = events.collect();
        let count = events.len();
        let part = match self.files.pop_back() {
            Some(part) if part.written < self.most / FILES => part,
            full => {
                self.files.extend(full);
                self.file()?
            }
        };
        self.files.push_back(part);
        let part = self.files.back_mut().expect("it was just put there");
        let ticket = chunk.ticket.as_ref().map(|ticket| part.place(ticket));
        let head = postcard::to_allocvec(&Head { ticket, events }).map_err(odd)?;
        let mut frame = Vec::with_capacity(LENGTHS + head.len() + lines.len());
        frame.extend_from_slice(&(head.len() as u64).to_le_bytes());
        frame.extend_from_slice(&(lines.len() as u64).to_le_bytes());
        frame.extend_from_slice(&head);
        frame.extend_from_slice(&lines);
        let length = frame.len() as u64;
        if self.held + length > self.most {
            return Ok(None);
        }
        let disk = rustix::fs::fstatvfs(&part.file)?;
        if disk.f_bavail * disk.f_frsize < SPARED + length {
            let cause = format!("{} MB of the disk are reserved for the recording", SPARED >> 20);
            return Err(io::Error::new(io::ErrorKind::StorageFull, cause));
        }
        if let Err(error) = part.file.write_all_at(&frame, part.written) {
            // Free the space of a partial write.
            let _ = part.file.set_len(part.written);
            return Err(error);
        }
        part.written += length;
        part.events += count;
        self.held += length;
        Ok(Some(length))
    }

    /// Creates a file without a name: it disappears when it is closed. Fails if the folder is not writable.
    fn file(&mut self) -> io::Result<SpillFile> {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{}", self.made));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        remove_file(&path)?;
        self.made += 1;
        Ok(SpillFile { file, written: 0, read: 0, events: 0, tickets: Vec::new(), places: HashMap::new() })
    }

    /// Reads and removes the oldest chunk; returns `None` if the spill is empty. If a file cannot be read, drops the
    /// rest of it and returns the number of its events with the error.
    pub fn read(&mut self) -> Result<Option<Chunk>, UnreadableEvents> {
        let Some(part) = self.files.iter_mut().find(|part| part.read < part.written) else { return Ok(None) };
        let read = part.next(self.origin).map_err(|error| {
            part.read = part.written;
            UnreadableEvents { events: part.events, error }
        });
        self.give_back();
        read.map(Some)
    }

    /// Closes files that were read to their end, which frees their space.
    fn give_back(&mut self) {
        while let Some(part) = self.files.front().filter(|part| part.read == part.written) {
            self.held -= part.written;
            self.files.pop_front();
        }
    }

    /// Closes all files, which deletes their events.
    pub fn close(&mut self) {
        take(&mut self.files);
        self.held = 0;
    }
}

/// Converts an encoding error into an I/O error with the same message.
fn odd(error: postcard::Error) -> io::Error {
    io::Error::other(error.to_string())
}

impl SpillFile {
    /// Returns the index of a token in this file; adds the token if it is new.
    fn place(&mut self, ticket: &Arc<AckToken>) -> u32 {
        *self.places.entry(Arc::as_ptr(ticket) as usize).or_insert_with(|| {
            self.tickets.push(ticket.clone());
            self.tickets.len() as u32 - 1
        })
    }

    /// Reads the next chunk of the file and advances past it; fails at the end of the file. `origin`: origin of the
    /// stored times.
    fn next(&mut self, origin: Instant) -> io::Result<Chunk> {
        let mut lengths = [0; LENGTHS];
        self.file.read_exact_at(&mut lengths, self.read)?;
        let (head, lines) = lengths.split_at(LENGTHS / 2);
        let length = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("a half of the lengths has 8 bytes"));
        let (head, lines) = (length(head), length(lines));
        let mut bytes = vec![0; (head + lines) as usize];
        self.file.read_exact_at(&mut bytes, self.read + LENGTHS as u64)?;
        let Head { ticket, events } = postcard::from_bytes(&bytes[..head as usize]).map_err(odd)?;
        bytes.drain(..head as usize);
        let mut start = 0;
        let events = events.into_iter().map(|Written { arrived, line, id, kind, time, arrival }| {
            let event = Event {
                arrived: origin + arrived,
                line: start..start + line,
                id: start + id.0..start + id.1,
                kind,
                time,
                arrival,
            };
            start += line;
            event
        });
        let events: Vec<Event> = events.collect();
        let ticket = ticket.map(|place| self.tickets[place as usize].clone());
        self.read += LENGTHS as u64 + head + lines;
        self.events -= events.len();
        Ok(Chunk { bytes, events, ticket })
    }
}
