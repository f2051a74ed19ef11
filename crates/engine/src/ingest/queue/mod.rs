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

use super::chunk::{Chunk, InFlightBatch};
use super::sampler::Sampler;
use super::spill::Spill;

/// Back-off before the first retry of a batch; it doubles with each retry that places nothing.
const SHORTEST_BACK_OFF: Duration = Duration::from_millis(100);

/// The longest back-off of a batch, while few batches wait.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(2);

/// Many waiting batches together are retried about once in this time.
const BETWEEN_RETRIES: Duration = Duration::from_millis(20);

/// What a client finds.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(InFlightBatch),
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
    waker: Condvar,
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
pub struct QueueState {
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
    /// Batches that wait for their retry.
    kept: Vec<InFlightBatch>,
    /// Clients that take batches, and how many of them have one that is retried.
    clients: usize,
    retrying: usize,
    /// Whether a client took a retry last.
    retried: bool,
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

    /// When the next retry may be taken; `None` if none may.
    ///
    /// Retries leave one client to fresh events: a retry may hang until its time-out.
    fn next_retry(&self) -> Option<Instant> {
        let allowed = self.retrying == 0 || self.retrying + 1 < self.clients;
        self.kept.iter().map(|kept| kept.retry_at).min().filter(|_| allowed)
    }

    /// Removes the batch whose retry is due first.
    fn take_retry(&mut self) -> Option<InFlightBatch> {
        let (place, _) = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.retry_at)?;
        self.away += 1;
        self.retrying += 1;
        self.retried = true;
        Some(self.kept.swap_remove(place))
    }

    /// The events of a batch that are looked for; see [`InFlightBatch::sampled`].
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
            waker: Condvar::new(),
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

    /// Counts a client that takes batches.
    pub fn join(&self) {
        self.state().clients += 1;
    }

    /// The next batch, if there is one: fresh events first, then batches whose retry is due. A retry that is overdue by
    /// the longest back-off goes before fresh events, but never two in a row.
    pub fn take(&self, now: Instant) -> Next {
        let mut state = self.state();
        let over = state.closed || state.readers == 0;
        let due = state.pieces.front().map(|piece| piece.due(self.flush));
        let full = state.waiting >= self.batch;
        let ready = over || full || state.bytes >= self.most || due.is_some_and(|due| due <= now);
        let fresh = state.waiting > 0 && ready;
        let retry = state.next_retry();
        let overdue = !state.retried && retry.is_some_and(|retry| retry + LONGEST_BACK_OFF <= now);
        if retry.is_some_and(|retry| retry <= now) && (!fresh || overdue) {
            let kept = state.take_retry().expect("a retry is due");
            self.hand_on(&state);
            return Next::Batch(kept);
        }
        if !fresh {
            let nothing_left =
                over && state.waiting == 0 && state.away == 0 && state.spilled == 0 && state.kept.is_empty();
            return if nothing_left { Next::Ended } else { Next::Wait(due.into_iter().chain(retry).min()) };
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
        state.retried = false;
        self.hand_on(&state);
        drop(state);
        // It was ready when it was full, or when its first event had waited for long enough.
        let full_since = last.filter(|_| full);
        let ready = [full_since, due].into_iter().flatten().min().filter(|ready| *ready <= now);
        let mut taken = InFlightBatch::together(&pieces, self.kinds.clone(), ready);
        taken.sampled = sampled;
        Next::Batch(taken)
    }

    /// Wakes another client if there is more to do: the client that takes a batch no longer waits for the rest.
    fn hand_on(&self, state: &State) {
        if state.waiting > 0 || !state.kept.is_empty() {
            self.events.notify_one();
        }
    }

    /// Puts a batch back, with what is left of it, to be retried after its back-off. `stuck`: the request placed none of
    /// its events.
    pub fn put_back(&self, mut taken: InFlightBatch, stuck: bool) {
        taken.ready = None;
        let mut state = self.state();
        state.away -= 1;
        state.retrying -= usize::from(taken.back_off.is_some());
        let doubled = taken.back_off.filter(|_| stuck).map(|before| before * 2);
        let longest = LONGEST_BACK_OFF.max(BETWEEN_RETRIES * state.kept.len() as u32);
        let back_off = doubled.unwrap_or(SHORTEST_BACK_OFF).min(longest);
        taken.back_off = Some(back_off);
        taken.retry_at = Instant::now() + back_off;
        state.kept.push(taken);
        drop(state);
        self.events.notify_one();
    }

    /// Nothing is left of a batch.
    pub fn done(&self, taken: &InFlightBatch) {
        let mut state = self.state();
        state.away -= 1;
        state.retrying -= usize::from(taken.back_off.is_some());
        let was_full = state.bytes >= self.most;
        state.bytes -= taken.batch.bytes.len() as u64;
        let (room, last) = (was_full && state.bytes < self.most, state.away == 0);
        let retries = !state.kept.is_empty();
        // What could not be spilled may find room there now, as on a disk that was full.
        state.spill_full &= !room;
        drop(state);
        if room {
            self.there_is_room();
            self.drain.notify_one();
        }
        if last {
            self.events.notify_waiters();
        } else if retries {
            self.events.notify_one();
        }
    }

    /// Whether events come: the last one no longer ago than that, or some that have come are not in the store yet.
    pub fn flows(&self, now: Instant, within: Duration) -> bool {
        let state = self.state();
        let waits = state.waiting + state.spilled + state.away + state.kept.len() > 0;
        waits || state.newest.is_some_and(|newest| now.saturating_duration_since(newest) <= within)
    }

    /// How much there is and was.
    pub fn standing(&self) -> QueueState {
        let state = self.state();
        let kept = |taken: &InFlightBatch| taken.left.as_ref().map_or(taken.batch.events.len(), Vec::len);
        let kept: usize = state.kept.iter().map(kept).sum();
        QueueState {
            waiting: state.waiting + state.spilled + kept,
            most_bytes: state.most_bytes,
            spilled: state.spilled,
            written: state.written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::event::Event;

    fn event(id: u8) -> Chunk {
        let line = vec![b'0' + id];
        let event = Event { arrived: Instant::now(), line: 0..1, id: 0..1, kind: 0, time: 0, arrival: 0 };
        Chunk { bytes: line, events: vec![event], ticket: None }
    }

    /// A queue of `clients`, whose batches have one event each, with these events.
    fn queue(clients: usize, events: std::ops::Range<u8>) -> Queue {
        let queue = Queue::new(1, Duration::ZERO, 1 << 20, Arc::new(["bid".to_owned()]), 1);
        (0..clients).for_each(|_| queue.join());
        events.for_each(|id| queue.push(event(id), || ()).unwrap());
        queue
    }

    fn taken(queue: &Queue, now: Instant) -> Option<InFlightBatch> {
        if let Next::Batch(taken) = queue.take(now) { Some(taken) } else { None }
    }

    fn line(taken: Option<&InFlightBatch>) -> Option<u8> {
        taken.map(|taken| taken.batch.bytes[0] - b'0')
    }

    #[test]
    fn fresh_events_come_before_retries_unless_these_are_long_overdue() {
        let queue = queue(3, 0..6);
        let stuck = taken(&queue, Instant::now()).unwrap();
        queue.put_back(stuck, true);
        let soon = Instant::now() + SHORTEST_BACK_OFF;
        assert_eq!(line(taken(&queue, soon).as_ref()), Some(1), "the retry is due, and waits for fresh events");
        let late = soon + LONGEST_BACK_OFF;
        let retried = taken(&queue, late).unwrap();
        assert_eq!(line(Some(&retried)), Some(0));
        queue.put_back(retried, true);
        let later = late + 10 * LONGEST_BACK_OFF;
        assert_eq!(line(taken(&queue, later).as_ref()), Some(2), "never two retries in a row");
        assert_eq!(line(taken(&queue, later).as_ref()), Some(0));
    }

    #[test]
    fn retries_leave_one_client_to_fresh_events_and_their_back_off_grows() {
        let queue = queue(3, 0..3);
        let batches: Vec<InFlightBatch> = (0..3).filter_map(|_| taken(&queue, Instant::now())).collect();
        batches.into_iter().for_each(|batch| queue.put_back(batch, true));
        let Next::Wait(Some(due)) = queue.take(Instant::now()) else { panic!("no retry is due yet") };
        let first = taken(&queue, due + LONGEST_BACK_OFF).unwrap();
        let _second = taken(&queue, due + LONGEST_BACK_OFF).unwrap();
        assert!(matches!(queue.take(due + LONGEST_BACK_OFF), Next::Wait(None)), "two of three clients retry");
        let before = first.back_off;
        queue.put_back(first, true);
        let again = taken(&queue, due + 10 * LONGEST_BACK_OFF).unwrap();
        assert_eq!((before, line(Some(&again))), (Some(SHORTEST_BACK_OFF), Some(2)), "the one that waited longest");
        let kept = queue.state().kept[0].back_off;
        assert_eq!(kept, Some(2 * SHORTEST_BACK_OFF));
    }
}
