//! Individual requests, if recorded: the sample of a request, and its file.
//!
//! Samples are part of their second. Memory therefore grows with the requests of a second, not with the
//! length of a run. Rank 0 writes the samples of all ranks.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::driver::Reply;
use crate::recording::slot::Slot;

/// Size of a sample in the file, bytes.
pub const BYTES: usize = 46;

/// One finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sample {
    /// When it was due, ns since the phase's load began; negative for an event that arrived earlier.
    pub scheduled: i64,
    /// When the first byte of its last attempt was written, ns.
    pub sent: i64,
    /// When its answer was read, or it was given up, ns.
    pub done: i64,
    /// Documents stored or returned, in all attempts.
    pub documents: u32,
    /// The client's number in its stream.
    pub client: u32,
    /// The rank that sent it.
    pub rank: u32,
    /// Its operation's index; see [`crate::recording::slot`].
    pub slot: u32,
    /// Index of the host that served it, or [`crate::driver::NO_NODE`].
    pub node: u16,
    /// The HTTP status of its answer; 0 if none.
    pub status: u16,
    /// The class of its failure: index in [`crate::driver::ErrorClass::ALL`], from 1; 0 for a success.
    pub class: u8,
    /// Whether it belongs to the measured segment.
    pub measured: bool,
}

impl Sample {
    /// Creates the sample of a request at `slot`, due at `scheduled` and sent by `client`. Its rank is 0.
    /// `start`: start of the phase. `measured`: it belongs to the measured segment.
    pub fn of(slot: usize, client: u64, start: Instant, scheduled: Instant, measured: bool, reply: &Reply) -> Self {
        Self {
            scheduled: since(start, scheduled),
            sent: since(start, reply.sent),
            done: since(start, reply.done),
            documents: (reply.documents + reply.earlier).try_into().unwrap_or(u32::MAX),
            client: client.try_into().unwrap_or(u32::MAX),
            rank: 0,
            slot: slot as u32,
            node: reply.node,
            status: reply.status.unwrap_or(0),
            class: reply.outcome.as_ref().err().map_or(0, |failure| failure.class as u8 + 1),
            measured,
        }
    }

    /// Returns the sample as in `samples.bin`: its fields in order, little-endian.
    fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let mut rest = &mut bytes[..];
        for instant in [self.scheduled, self.sent, self.done] {
            put(&mut rest, &instant.to_le_bytes());
        }
        for number in [self.documents, self.client, self.rank, self.slot] {
            put(&mut rest, &number.to_le_bytes());
        }
        put(&mut rest, &self.node.to_le_bytes());
        put(&mut rest, &self.status.to_le_bytes());
        put(&mut rest, &[self.class, u8::from(self.measured)]);
        bytes
    }
}

/// Copies bytes to the front of `rest`, and shortens `rest` by them. Panics if `rest` is too short.
fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    let (place, behind) = std::mem::take(rest).split_at_mut(bytes.len());
    place.copy_from_slice(bytes);
    *rest = behind;
}

/// Returns the time from `start` to `instant`, ns; negative if `instant` is earlier.
fn since(start: Instant, instant: Instant) -> i64 {
    match instant.checked_duration_since(start) {
        Some(after) => after.as_nanos() as i64,
        None => -((start - instant).as_nanos() as i64),
    }
}

/// Samples of one rank in one second, with its host names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OfRank {
    /// The rank.
    pub rank: u64,
    /// Its hosts, by their numbers.
    pub hosts: Vec<String>,
    /// Its samples.
    pub samples: Vec<Sample>,
}

/// `samples.bin`: consecutive samples, little-endian. `slots.csv`: one line per slot.
pub struct SampleFile(BufWriter<File>);

impl SampleFile {
    /// Creates the files in `folder`, replacing older ones, and writes `slots.csv`.
    pub fn create(folder: &Path, slots: &[Slot]) -> io::Result<Self> {
        let mut names = File::create(folder.join("slots.csv"))?;
        writeln!(names, "stream,operation")?;
        for slot in slots {
            writeln!(names, "{},{}", slot.stream, slot.name())?;
        }
        File::create(folder.join("samples.bin")).map(BufWriter::new).map(Self)
    }

    /// Appends the samples of a second to `samples.bin`, and flushes it.
    pub fn write(&mut self, samples: &[Sample]) -> io::Result<()> {
        samples.iter().try_for_each(|sample| self.0.write_all(&sample.to_bytes()))?;
        // If this process is killed, the file is complete up to this second.
        self.0.flush()
    }
}
