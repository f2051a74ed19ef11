//! Input and output of a source's queue: chunks of events and batches.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::acks::AckToken;
use crate::workload::event::{Batch, Event};

/// Events that one read returned.
#[derive(Debug)]
pub struct Chunk {
    /// The bytes read.
    pub bytes: Vec<u8>,
    /// The events in `bytes`.
    pub events: Vec<Event>,
    /// Token to settle when the events are stored or refused.
    pub ticket: Option<Arc<AckToken>>,
}

impl Chunk {
    /// Returns the chunk; with a new buffer for its events' lines if the old one is more than four times their size.
    #[must_use]
    pub fn trimmed(self) -> Self {
        if self.length() >= self.bytes.capacity() as u64 / 4 {
            return self;
        }
        let mut bytes = Vec::with_capacity(self.length() as usize);
        let events = self.events.iter().map(|event| event.copied(&self.bytes, &mut bytes)).collect();
        Self { bytes, events, ticket: self.ticket }
    }

    /// Returns the total length of the events' lines, bytes.
    pub fn length(&self) -> u64 {
        self.events.iter().map(|event| event.line.len() as u64).sum()
    }
}

/// A batch that is being sent to the store.
#[derive(Debug)]
pub struct InFlightBatch {
    /// The events.
    pub batch: Batch,
    /// When the batch first could have been taken; `None` if unknown.
    pub ready: Option<Instant>,
    /// Indices of the events still to send; `None` for all.
    pub left: Option<Vec<u32>>,
    /// The back-off before its last retry; `None` before the first.
    pub back_off: Option<Duration>,
    /// Earliest time of the next retry.
    pub retry_at: Instant,
    /// Sampled events: index, and number of events sent before it.
    pub sampled: Vec<(u32, u64)>,
    /// Acknowledgement tokens, each with the end index of its events.
    tickets: Vec<(usize, Arc<AckToken>)>,
}

impl InFlightBatch {
    /// Builds a batch from ranges of the events of chunks, and copies their lines. `kinds`: names of the kinds of
    /// events. `ready`: when the batch first could have been taken; `None` if unknown.
    pub fn together(pieces: &[(Arc<Chunk>, Range<usize>)], kinds: Arc<[String]>, ready: Option<Instant>) -> Self {
        let events = || pieces.iter().flat_map(|(chunk, range)| &chunk.events[range.clone()]);
        let mut batch = Batch {
            bytes: Vec::with_capacity(events().map(|event| event.line.len()).sum()),
            events: Vec::with_capacity(events().count()),
            kinds,
            trace: None,
        };
        let mut tickets = Vec::new();
        for (chunk, range) in pieces {
            for event in &chunk.events[range.clone()] {
                batch.events.push(event.copied(&chunk.bytes, &mut batch.bytes));
            }
            tickets.extend(chunk.ticket.clone().map(|ticket| (batch.events.len(), ticket)));
        }
        Self { batch, ready, left: None, back_off: None, retry_at: Instant::now(), sampled: Vec::new(), tickets }
    }

    /// Settles the event with index `place`: the store has it or refused it permanently.
    /// The sender's acknowledgements need this; does nothing for a source without them.
    pub fn settle(&self, place: usize) {
        let after = self.tickets.partition_point(|(end, _)| *end <= place);
        if let Some((_, ticket)) = self.tickets.get(after) {
            ticket.settle();
        }
    }

    /// Returns the arrival time of the oldest event still to send; `None` without any.
    pub fn oldest(&self) -> Option<Instant> {
        let events = &self.batch.events;
        match &self.left {
            None => events.iter().map(|event| event.arrived).min(),
            Some(left) => left.iter().map(|place| events[*place as usize].arrived).min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_between_few_events_are_freed() {
        let mut bytes = vec![b'x'; 60_000];
        bytes.extend_from_slice(b"{\"id\": 7}");
        let event =
            Event { arrived: Instant::now(), line: 60_000..60_009, id: 60_007..60_008, kind: 0, time: 1, arrival: 2 };
        let chunk = Chunk { bytes, events: vec![event.clone()], ticket: None }.trimmed();
        assert!(chunk.bytes.capacity() < 100, "{}", chunk.bytes.capacity());
        assert_eq!((&chunk.bytes[..], chunk.events[0].id.clone()), (&b"{\"id\": 7}"[..], 7..8));
        let whole = Chunk { bytes: chunk.bytes, events: vec![Event { line: 0..9, id: 7..8, ..event }], ticket: None };
        let before = whole.bytes.as_ptr();
        assert_eq!(whole.trimmed().bytes.as_ptr(), before, "what is mostly events is not copied");
    }
}
