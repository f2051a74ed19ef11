//! Events that come from outside, such as the lines of a log: what a source hands to a driver.
//!
//! Events travel in batches. A batch keeps its lines in one piece of memory, so that a million events a second cost no
//! allocation each.

pub mod generate;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// One line of a source, and what was read out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When its last byte arrived: the scheduled instant of the request that carries it.
    pub arrived: Instant,
    /// The line, without its end, in [`Batch::bytes`].
    pub line: Range<usize>,
    /// The id of the document that it belongs to, in [`Batch::bytes`]: what stands between the quotes of a JSON text,
    /// escapes included, or the digits of a whole number.
    pub id: Range<usize>,
    /// Its kind: a place in [`Batch::kinds`].
    pub kind: usize,
    /// The instant by which its document is placed, such as that of the bid which a click belongs to: milliseconds
    /// since 1970.
    pub time: i64,
    /// When it arrived by the wall clock: milliseconds since 1970.
    pub arrival: i64,
}

impl Event {
    /// The event with its line copied from its batch, `from`, to the end of another, `to`.
    #[must_use]
    pub fn copied(&self, from: &[u8], to: &mut Vec<u8>) -> Self {
        let start = to.len();
        to.extend_from_slice(&from[self.line.clone()]);
        let id = start + self.id.start - self.line.start..start + self.id.end - self.line.start;
        Self { line: start..to.len(), id, ..self.clone() }
    }
}

/// Events that go into the store with one request.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The lines, one behind the other.
    pub bytes: Vec<u8>,
    /// The events, in the order of their arrival.
    pub events: Vec<Event>,
    /// The names of the kinds of events that the source knows, such as `bid`, `win` and `click`. A document has a field
    /// of that name for each kind of event that has come for it.
    pub kinds: Arc<[String]>,
}

impl Batch {
    /// An event's line.
    #[must_use]
    pub fn line(&self, event: &Event) -> &[u8] {
        &self.bytes[event.line.clone()]
    }

    /// The id of an event's document, as it stands in JSON between quotes.
    #[must_use]
    pub fn id(&self, event: &Event) -> &[u8] {
        &self.bytes[event.id.clone()]
    }

    /// The name of an event's kind.
    #[must_use]
    pub fn kind(&self, event: &Event) -> &str {
        &self.kinds[event.kind]
    }
}
