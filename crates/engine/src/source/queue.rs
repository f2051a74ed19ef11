//! What lies between the readers of a source and the clients that send its events: a bounded buffer, out of which events
//! come in batches.
//!
//! Readers hand over the lines of one reading at a time, and clients take batches, so that the lock is taken some hundred
//! times less often than there are events.
//!
//! What memory has no room for goes through the [`spill`](super::spill), if there is one: from then on everything, until
//! that is empty again, so that no event waits there while younger ones pass it by. Where the spill has no room either,
//! readers wait.

mod spilling;
mod waiting;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::chunk::{Chunk, Taken};
use super::sampler::Sampler;
use super::spill::Spill;

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
    /// Whoever reads the spill back waits for something in it and for room in memory.
    drain: Condvar,
    /// Locked before the state, and while it is written or read.
    spill: Option<Mutex<Spill>>,
    batch: usize,
    flush: Duration,
    most: u64,
    kinds: Arc<[String]>,
}

/// Events of a chunk that no batch has taken yet.
#[derive(Debug)]
struct Piece {
    chunk: Arc<Chunk>,
    left: Range<usize>,
    /// When it came.
    since: Instant,
}

/// How much lies in a queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Events that no client has, on disk or not.
    pub waiting: usize,
    /// The most bytes of events that there ever were in memory.
    pub most_bytes: u64,
    /// Events on disk.
    pub spilled: usize,
    /// What ever was written there.
    pub written: Written,
}

/// What was written to disk since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Events.
    pub events: u64,
    /// Bytes.
    pub bytes: u64,
    /// The most bytes at a time.
    pub most: u64,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Events in the pieces.
    waiting: usize,
    /// Events on disk, and on their way there.
    spilled: usize,
    /// Those that are there.
    readable: usize,
    /// Whether the spill has no room, or could not be written.
    spill_full: bool,
    written: Written,
    /// Events that were in the pieces before.
    given: u64,
    /// When the last of these had arrived.
    newest: Option<Instant>,
    sampler: Option<Sampler>,
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

impl Piece {
    /// When a batch that it begins is sent though it is not full: not before it came, which may be late.
    fn due(&self, flush: Duration) -> Instant {
        (self.chunk.events[self.left.start].arrived + flush).max(self.since)
    }
}

impl State {
    /// Whether what comes goes to the spill, if there is one.
    fn overflows(&self, most: u64) -> bool {
        self.bytes >= most || self.spilled > 0
    }

    /// The events of a batch that are looked for; see [`Taken::sampled`].
    fn sampled(&mut self, pieces: &[(Arc<Chunk>, Range<usize>)]) -> Vec<(u32, u64)> {
        let Some(sampler) = &mut self.sampler else { return Vec::new() };
        let (mut sampled, mut before) = (Vec::new(), 0);
        for (chunk, range) in pieces {
            let events = &chunk.events[range.clone()];
            sampler.choose(events, |place| {
                let place = before + place;
                sampled.push((place as u32, self.given + place as u64));
            });
            before += events.len();
        }
        sampled
    }
}

impl Queue {
    /// A queue for `readers` that holds about `most` bytes in memory.
    pub fn new(batch: usize, flush: Duration, most: u64, kinds: Arc<[String]>, readers: usize) -> Self {
        Self {
            state: Mutex::new(State { readers, ..State::default() }),
            events: Notify::new(),
            room: Notify::new(),
            bell: Condvar::new(),
            drain: Condvar::new(),
            spill: None,
            batch,
            flush,
            most,
            kinds,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// With a spill.
    #[must_use]
    pub fn with(self, spill: Option<Spill>) -> Self {
        Self { spill: spill.map(Mutex::new), ..self }
    }

    /// From now on events are sampled, in the order in which they are given out.
    pub fn sample(&self, sampler: Sampler) {
        self.state().sampler = Some(sampler);
    }

    /// Adds events to those in memory.
    fn keep(&self, mut state: MutexGuard<'_, State>, chunk: Chunk) {
        let count = chunk.events.len();
        if count == 0 {
            return;
        }
        let first = state.waiting == 0;
        let before = state.waiting / self.batch;
        state.waiting += count;
        state.bytes += chunk.length();
        state.most_bytes = state.most_bytes.max(state.bytes);
        let ready = state.waiting / self.batch > before || state.bytes >= self.most;
        state.pieces.push_back(Piece { chunk: Arc::new(chunk), left: 0..count, since: Instant::now() });
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
        let due = state.pieces.front().map(|piece| piece.due(self.flush));
        let full = state.waiting >= self.batch;
        let ready = over || full || state.bytes >= self.most || due.is_some_and(|due| due <= now);
        if state.waiting == 0 {
            let nothing_left = over && state.away == 0 && state.spilled == 0;
            return if nothing_left { Next::Ended } else { Next::Wait(None) };
        }
        if !ready {
            return Next::Wait(due);
        }
        let mut pieces = Vec::new();
        let mut wanted = self.batch;
        let mut last = None;
        while let Some(piece) = state.pieces.front_mut().filter(|_| wanted > 0) {
            let count = piece.left.len().min(wanted);
            pieces.push((piece.chunk.clone(), piece.left.start..piece.left.start + count));
            last = Some(piece.since);
            piece.left.start += count;
            wanted -= count;
            if piece.left.is_empty() {
                state.pieces.pop_front();
            }
        }
        let sampled = state.sampled(&pieces);
        state.waiting -= self.batch - wanted;
        state.given += (self.batch - wanted) as u64;
        state.newest = pieces.last().map(|(chunk, range)| chunk.events[range.end - 1].arrived);
        state.away += 1;
        let more = state.waiting > 0;
        drop(state);
        if more {
            self.events.notify_one();
        }
        // It was ready when it was full, or when its first event had waited for long enough.
        let full_since = last.filter(|_| full);
        let ready = [full_since, due].into_iter().flatten().min().filter(|ready| *ready <= now);
        let mut taken = Taken::together(&pieces, self.kinds.clone(), ready);
        taken.sampled = sampled;
        Next::Batch(taken)
    }

    /// A batch comes back, with what is left of it.
    pub fn put_back(&self, mut taken: Taken) {
        taken.ready = None;
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
        // What could not be spilled may find room there now, as on a disk that was full.
        state.spill_full &= !room;
        drop(state);
        if room {
            self.there_is_room();
            self.drain.notify_one();
        }
        if last {
            self.events.notify_waiters();
        }
    }

    /// Whether events come: the last one no longer ago than that, or some that have come are not in the store yet.
    pub fn flows(&self, now: Instant, within: Duration) -> bool {
        let state = self.state();
        let waits = state.waiting + state.spilled + state.away + state.kept.len() > 0;
        waits || state.newest.is_some_and(|newest| now.saturating_duration_since(newest) <= within)
    }

    /// How much there is and was.
    pub fn standing(&self) -> Standing {
        let state = self.state();
        let kept = |taken: &Taken| taken.left.as_ref().map_or(taken.batch.events.len(), Vec::len);
        let kept: usize = state.kept.iter().map(kept).sum();
        Standing {
            waiting: state.waiting + state.spilled + kept,
            most_bytes: state.most_bytes,
            spilled: state.spilled,
            written: state.written,
        }
    }
}
