//! External events, such as the lines of a log, as passed from a source to a driver.
//!
//! Events are handled in batches. A batch keeps its lines in one buffer, so that a million events a second
//! need few allocations.

pub mod generate;

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::util::trace::Trace;

/// One line of a source, with the fields extracted from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When its last byte arrived: the scheduled time of its request.
    pub arrived: Instant,
    /// Range of the line in [`Batch::bytes`], without its end.
    pub line: Range<usize>,
    /// Range of its document's id in [`Batch::bytes`]: the contents of a JSON string with its escapes, or the
    /// digits of an integer.
    pub id: Range<usize>,
    /// Its kind: an index in [`Batch::kinds`].
    pub kind: usize,
    /// Time that selects its document's index or partition, such as the time of the bid for a click;
    /// milliseconds since 1970.
    pub time: i64,
    /// Arrival by the wall clock, milliseconds since 1970.
    pub arrival: i64,
}

impl Event {
    /// Returns the event with its line copied from `from`, the buffer that its ranges refer to, to the end of `to`.
    /// The new ranges refer to `to`.
    #[must_use]
    pub fn copied(&self, from: &[u8], to: &mut Vec<u8>) -> Self {
        let start = to.len();
        to.extend_from_slice(&from[self.line.clone()]);
        let id = start + self.id.start - self.line.start..start + self.id.end - self.line.start;
        Self { line: start..to.len(), id, ..self.clone() }
    }
}

/// Events of one request.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The lines, one after the other.
    pub bytes: Vec<u8>,
    /// The events in order of arrival.
    pub events: Vec<Event>,
    /// Names of the source's event kinds, such as `bid`, `win` and `click`. A document has a field for each
    /// kind of event received for it.
    pub kinds: Arc<[String]>,
    /// The trace context that the request carries, if it is sampled.
    pub trace: Option<Trace>,
}

impl Batch {
    /// Returns the line of an event of this batch.
    #[must_use]
    pub fn line(&self, event: &Event) -> &[u8] {
        &self.bytes[event.line.clone()]
    }

    /// Returns the id of the document of an event of this batch, escaped as in a JSON string.
    #[must_use]
    pub fn id(&self, event: &Event) -> &[u8] {
        &self.bytes[event.id.clone()]
    }

    /// Returns the name of the kind of an event of this batch.
    #[must_use]
    pub fn kind(&self, event: &Event) -> &str {
        &self.kinds[event.kind]
    }
}
