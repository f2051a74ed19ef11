//! What lies between the readers of a source and the clients that send its events: a bounded buffer, out of which events
//! come in batches.
//!
//! Readers hand over the lines of one reading at a time, and clients take batches, so that the lock is taken some hundred
//! times less often than there are events.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::safe::Ticket;
use crate::event::{Batch, Event};

/// Events of one reading.
#[derive(Debug)]
pub struct Chunk {
    /// What was read.
    pub bytes: Vec<u8>,
    /// The events in it.
    pub events: Vec<Event>,
    /// Who wants to know when they are safe.
    pub ticket: Option<Arc<Ticket>>,
}

/// A batch on its way into the store.
#[derive(Debug)]
pub struct Taken {
    /// The events.
    pub batch: Batch,
    /// Those that an earlier request has left, by their places; `None` is all.
    pub left: Option<Vec<u32>>,
    /// The tickets of the events before each place.
    tickets: Vec<(usize, Arc<Ticket>)>,
}

impl Taken {
    /// An event has come to its end: the store has it or refuses it for good.
    pub fn settle(&self, place: usize) {
        let after = self.tickets.partition_point(|(end, _)| *end <= place);
        if let Some((_, ticket)) = self.tickets.get(after) {
            ticket.settle();
        }
    }

    /// When the oldest event arrived that is left.
    pub fn oldest(&self) -> Option<Instant> {
        let events = &self.batch.events;
        match &self.left {
            None => events.iter().map(|event| event.arrived).min(),
            Some(left) => left.iter().map(|place| events[*place as usize].arrived).min(),
        }
    }
}

/// What a client finds.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(Taken),
    /// Nothing yet; at that instant at the latest there is something, if one is said.
    Wait(Option<Instant>),
    /// Nothing is left, and nothing will come.
    Ended,
}

/// See the module.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    /// Clients wait for events, or for the end.
    events: Notify,
    /// Readers wait for room.
    room: Notify,
    /// Readers that have a thread of their own wait for room, an instant or the end.
    bell: Condvar,
    batch: usize,
    flush: Duration,
    most: u64,
    kinds: Arc<[String]>,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<(Arc<Chunk>, Range<usize>)>,
    /// Events in the pieces.
    waiting: usize,
    /// Batches that failed for a reason that may pass.
    kept: VecDeque<Taken>,
    /// Batches that clients have.
    away: usize,
    /// Bytes of all events that are not settled.
    bytes: u64,
    /// The most that there ever were.
    most_bytes: u64,
    readers: usize,
    closed: bool,
    /// Whether the source has ended by itself.
    ended: bool,
    /// Whether clients take no more.
    finished: bool,
}

impl Queue {
    /// A queue for `readers` that holds about `most` bytes.
    pub fn new(batch: usize, flush: Duration, most: u64, kinds: Arc<[String]>, readers: usize) -> Self {
        Self {
            state: Mutex::new(State { readers, ..State::default() }),
            events: Notify::new(),
            room: Notify::new(),
            bell: Condvar::new(),
            batch,
            flush,
            most,
            kinds,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Adds the events of a reading.
    pub fn push(&self, chunk: Chunk) {
        let count = chunk.events.len();
        if count == 0 {
            return;
        }
        let mut state = self.state();
        let first = state.waiting == 0;
        let before = state.waiting / self.batch;
        state.waiting += count;
        state.bytes += chunk.events.iter().map(|event| event.line.len() as u64).sum::<u64>();
        state.most_bytes = state.most_bytes.max(state.bytes);
        let ready = state.waiting / self.batch > before || state.bytes >= self.most;
        state.pieces.push_back((Arc::new(chunk), 0..count));
        drop(state);
        if first || ready {
            self.events.notify_one();
        }
    }

    /// Becomes ready when [`Queue::take`] may find something else than before.
    pub fn changed(&self) -> Notified<'_> {
        self.events.notified()
    }

    /// The next batch, if there is one.
    pub fn take(&self, now: Instant) -> Next {
        let mut state = self.state();
        if let Some(kept) = state.kept.pop_front() {
            state.away += 1;
            return Next::Batch(kept);
        }
        let over = state.closed || state.readers == 0;
        let due = state.pieces.front().map(|(chunk, range)| chunk.events[range.start].arrived + self.flush);
        let ready =
            over || state.waiting >= self.batch || state.bytes >= self.most || due.is_some_and(|due| due <= now);
        if state.waiting == 0 {
            return if over && state.away == 0 { Next::Ended } else { Next::Wait(None) };
        }
        if !ready {
            return Next::Wait(due);
        }
        let mut pieces = Vec::new();
        let mut wanted = self.batch;
        while let Some((chunk, range)) = state.pieces.front_mut().filter(|_| wanted > 0) {
            let count = range.len().min(wanted);
            pieces.push((chunk.clone(), range.start..range.start + count));
            range.start += count;
            wanted -= count;
            if range.start == range.end {
                state.pieces.pop_front();
            }
        }
        state.waiting -= self.batch - wanted;
        state.away += 1;
        let more = state.waiting > 0;
        drop(state);
        if more {
            self.events.notify_one();
        }
        Next::Batch(self.together(&pieces))
    }

    fn together(&self, pieces: &[(Arc<Chunk>, Range<usize>)]) -> Taken {
        let count = pieces.iter().map(|(_, range)| range.len()).sum();
        let length =
            pieces.iter().flat_map(|(chunk, range)| &chunk.events[range.clone()]).map(|event| event.line.len());
        let mut batch = Batch {
            bytes: Vec::with_capacity(length.sum()),
            events: Vec::with_capacity(count),
            kinds: self.kinds.clone(),
        };
        let mut tickets = Vec::new();
        for (chunk, range) in pieces {
            for event in &chunk.events[range.clone()] {
                let start = batch.bytes.len();
                batch.bytes.extend_from_slice(&chunk.bytes[event.line.clone()]);
                let id = start + event.id.start - event.line.start..start + event.id.end - event.line.start;
                batch.events.push(Event { line: start..batch.bytes.len(), id, ..event.clone() });
            }
            tickets.extend(chunk.ticket.clone().map(|ticket| (batch.events.len(), ticket)));
        }
        Taken { batch, left: None, tickets }
    }

    /// A batch comes back, with what is left of it.
    pub fn put_back(&self, taken: Taken) {
        let mut state = self.state();
        state.away -= 1;
        state.kept.push_back(taken);
        drop(state);
        self.events.notify_one();
    }

    /// Nothing is left of a batch.
    pub fn done(&self, taken: &Taken) {
        let mut state = self.state();
        state.away -= 1;
        let was_full = state.bytes >= self.most;
        state.bytes -= taken.batch.bytes.len() as u64;
        let (room, last) = (was_full && state.bytes < self.most, state.away == 0);
        drop(state);
        if room {
            self.bell.notify_all();
            self.room.notify_waiters();
        }
        if last {
            self.events.notify_waiters();
        }
    }

    /// How many events wait, and bytes; and how many bytes there ever were at most.
    pub fn standing(&self) -> (usize, u64, u64) {
        let state = self.state();
        (state.waiting, state.bytes, state.most_bytes)
    }

    /// Whether readers have to wait.
    pub fn is_full(&self) -> bool {
        self.state().bytes >= self.most
    }

    /// Waits until there is room; false if nothing is wanted any more.
    pub fn wait_for_room(&self) -> bool {
        let full = |state: &mut State| state.bytes >= self.most && !state.closed;
        let state = self.bell.wait_while(self.state(), full).expect("no thread panics while it holds the lock");
        !state.closed
    }

    /// The same for readers that share a thread.
    pub async fn room(&self) -> bool {
        self.until(|state| state.closed || state.bytes < self.most).await;
        !self.is_closed()
    }

    /// Waits for an instant; false if nothing is wanted any more.
    pub fn sleep_until(&self, due: Instant) -> bool {
        let mut state = self.state();
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if state.closed || left.is_zero() {
                return !state.closed;
            }
            state = self.bell.wait_timeout(state, left).expect("no thread panics while it holds the lock").0;
        }
    }

    /// Returns when nothing is wanted any more.
    pub async fn closed(&self) {
        self.until(|state| state.closed).await;
    }

    /// Returns when clients take no more.
    pub async fn finished(&self) {
        self.until(|state| state.finished).await;
    }

    async fn until(&self, is_so: impl Fn(&State) -> bool) {
        loop {
            let mut told = std::pin::pin!(self.room.notified());
            told.as_mut().enable();
            if is_so(&self.state()) {
                return;
            }
            told.await;
        }
    }

    /// Whether nothing is wanted any more.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// A reader has nothing more.
    pub fn reader_ended(&self) {
        self.state().readers -= 1;
        self.events.notify_waiters();
    }

    /// Nothing is wanted any more; what is there is still given out.
    ///
    /// Clients close it at each of their turns behind the end: only the first tells the others, or they would wake
    /// themselves for ever.
    pub fn close(&self) {
        if !self.is_closed() {
            self.change(|state| state.closed = true);
        }
    }

    /// The source has ended by itself, though it could go on.
    pub fn close_by_itself(&self) {
        self.change(|state| (state.ended, state.closed) = (!state.closed, true));
    }

    /// Clients take no more.
    pub fn finish(&self) {
        self.change(|state| (state.closed, state.finished) = (true, true));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.bell.notify_all();
        self.room.notify_waiters();
        self.events.notify_waiters();
    }

    /// Whether the source came to its end by itself.
    pub fn ran_out(&self) -> bool {
        let state = self.state();
        state.ended || (state.readers == 0 && !state.closed)
    }
}
