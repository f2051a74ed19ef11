//! Events that memory has no room for, on disk until it has.
//!
//! Readings are written one behind the other into files that have no names: only this process sees them, and nothing is
//! left of them however it ends. There are several, since the space of one is given back when all of it was read. Who
//! waits for the events of a reading (its ticket) stays in memory.

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

/// A file has this part of all that may be on disk: the rest of one that is being read is space that is not given back.
const FILES: u64 = 64;

/// So much of the disk stays free, bytes: the run is recorded there, too.
const SPARED: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub struct Spill {
    /// The path of a file without its number.
    path: PathBuf,
    most: u64,
    /// Instants are written as times since then.
    origin: Instant,
    files: VecDeque<SpillFile>,
    made: u64,
    /// Bytes on disk.
    held: u64,
}

/// One file.
#[derive(Debug)]
struct SpillFile {
    file: File,
    written: u64,
    read: u64,
    /// Events that were written and not read.
    events: usize,
    tickets: Vec<Arc<AckToken>>,
    /// Where in `tickets` each is, by its address.
    places: HashMap<usize, u32>,
}

/// What stands before the lines of a reading.
#[derive(Serialize, Deserialize)]
struct Head {
    ticket: Option<u32>,
    events: Vec<Written>,
}

/// An event on disk; its line lies behind those of the events before it.
#[derive(Serialize, Deserialize)]
struct Written {
    arrived: Duration,
    line: usize,
    /// Its id, from the beginning of its line.
    id: (usize, usize),
    kind: usize,
    time: i64,
    arrival: i64,
}

/// Bytes of the two lengths in front of a reading: of its head and of its lines.
const LENGTHS: usize = 16;

/// Events that cannot be read back.
#[derive(Debug)]
pub struct Lost {
    /// How many.
    pub events: usize,
    /// Why.
    pub error: io::Error,
}

impl Spill {
    /// No file is made before one is needed. `path` is where, with the beginning of their names.
    pub fn new(path: PathBuf, most: u64) -> Self {
        Self { path, most, origin: Instant::now(), files: VecDeque::new(), made: 0, held: 0 }
    }

    /// Bytes on disk.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Writes a reading; returns how many bytes that were, or `None` and writes nothing where there is no room.
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
            let cause = format!("the last {} MB of the disk are left to the record", SPARED >> 20);
            return Err(io::Error::new(io::ErrorKind::StorageFull, cause));
        }
        if let Err(error) = part.file.write_all_at(&frame, part.written) {
            // What did get there must not take up space.
            let _ = part.file.set_len(part.written);
            return Err(error);
        }
        part.written += length;
        part.events += count;
        self.held += length;
        Ok(Some(length))
    }

    fn file(&mut self) -> io::Result<SpillFile> {
        let mut path = self.path.clone().into_os_string();
        path.push(format!(".{}", self.made));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
        remove_file(&path)?;
        self.made += 1;
        Ok(SpillFile { file, written: 0, read: 0, events: 0, tickets: Vec::new(), places: HashMap::new() })
    }

    /// The reading that was written first of those that are there; `None` if none is.
    pub fn read(&mut self) -> Result<Option<Chunk>, Lost> {
        let Some(part) = self.files.iter_mut().find(|part| part.read < part.written) else { return Ok(None) };
        let read = part.next(self.origin).map_err(|error| {
            part.read = part.written;
            Lost { events: part.events, error }
        });
        self.give_back();
        read.map(Some)
    }

    /// Closes files of which nothing is left to be read.
    fn give_back(&mut self) {
        while let Some(part) = self.files.front().filter(|part| part.read == part.written) {
            self.held -= part.written;
            self.files.pop_front();
        }
    }

    /// Closes all files.
    pub fn close(&mut self) {
        take(&mut self.files);
        self.held = 0;
    }
}

fn odd(error: postcard::Error) -> io::Error {
    io::Error::other(error.to_string())
}

impl SpillFile {
    /// The place of a ticket.
    fn place(&mut self, ticket: &Arc<AckToken>) -> u32 {
        *self.places.entry(Arc::as_ptr(ticket) as usize).or_insert_with(|| {
            self.tickets.push(ticket.clone());
            self.tickets.len() as u32 - 1
        })
    }

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
