//! Bounded buffer between the readers of a source and the clients that send its events.
//!
//! Readers add whole chunks and clients take batches, so the lock is taken several hundred times less often
//! than once per event.
//!
//! When memory is full, events pass through the `spill`, if one is configured. From then on
//! all events do, until the spill is empty: this keeps their order. When the spill is full too, readers wait.

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

/// Initial back-off of a batch. It doubles after each retry that stores no event.
const SHORTEST_BACK_OFF: Duration = Duration::from_millis(100);

/// Maximum back-off of a batch, while few batches wait.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(2);

/// Average interval between retries of all waiting batches together.
const BETWEEN_RETRIES: Duration = Duration::from_millis(20);

/// Time after the end of a source in which the store must settle an event. After that, the rest is left over, so that a
/// store that does not recover ends the phase.
const PATIENCE: Duration = Duration::from_secs(300);

/// Answer to a client that asks for a batch.
#[derive(Debug)]
pub enum Next {
    /// A batch to send.
    Batch(InFlightBatch),
    /// Wait, at most until the instant if one is given.
    Wait(Option<Instant>),
    /// The queue is empty and will stay so, or the store has settled no event for [`PATIENCE`] after the source's end.
    Ended,
}

/// Queue of one source.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    /// Wakes clients that wait for events or for the end.
    events: Notify,
    /// Wakes async readers that wait for room.
    room: Notify,
    /// Wakes blocking readers that wait for room, an instant or the end.
    waker: Condvar,
    /// Wakes the thread that reads the spill back: it waits for spilled chunks and for room in memory.
    drain: Condvar,
    /// Lock order: the spill before the state. Held during disk reads and writes.
    spill: Option<Mutex<Spill>>,
    batch: usize,
    flush: Duration,
    most: u64,
    kinds: Arc<[String]>,
}

/// Events of a chunk that are not in a batch yet.
#[derive(Debug)]
struct Piece {
    chunk: Arc<Chunk>,
    left: Range<usize>,
    /// Arrival time of the chunk.
    since: Instant,
}

/// Queue length and totals.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueState {
    /// Events that no client has taken, in memory or on disk.
    pub waiting: usize,
    /// Peak size of the events in memory, bytes.
    pub most_bytes: u64,
    /// Events on disk.
    pub spilled: usize,
    /// Totals written to disk.
    pub written: Written,
}

/// Totals written to the spill.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Number of events.
    pub events: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Peak size of the spill, bytes.
    pub most: u64,
}

#[derive(Debug, Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Events in the pieces.
    waiting: usize,
    /// Events on disk or being written.
    spilled: usize,
    /// Events on disk that can be read.
    readable: usize,
    /// Whether the spill is full or failed to write.
    spill_full: bool,
    written: Written,
    /// Events already taken from the pieces.
    given: u64,
    /// Arrival time of the last event taken.
    newest: Option<Instant>,
    sampler: Option<Sampler>,
    /// Batches that wait for a retry.
    kept: Vec<InFlightBatch>,
    /// Clients that take batches, and the number of clients that retry a batch.
    clients: usize,
    retrying: usize,
    /// Whether the last batch taken was a retry.
    retried: bool,
    /// Batches held by clients.
    away: usize,
    /// Size of all unsettled events, bytes.
    bytes: u64,
    /// Peak of `bytes`.
    most_bytes: u64,
    readers: usize,
    closed: bool,
    /// Whether the source ended before the queue was closed.
    ended: bool,
    /// Whether clients have stopped taking events.
    finished: bool,
    /// When the source ended, or later, when an event was last settled.
    progress: Option<Instant>,
}

impl Piece {
    /// Returns when a partial batch that starts with this piece is sent: `flush` after its first event arrived, but not
    /// before the piece was added, which may be late.
    fn due(&self, flush: Duration) -> Instant {
        (self.chunk.events[self.left.start].arrived + flush).max(self.since)
    }
}

impl State {
    /// Returns whether memory is full or events are on disk, so that new events go to the spill if one is configured.
    /// `most`: maximum size in memory, bytes.
    fn overflows(&self, most: u64) -> bool {
        self.bytes >= most || self.spilled > 0
    }

    /// Returns when the next retry may be taken; `None` if no batch waits for one, or if too many clients retry.
    ///
    /// Retries leave one client free for new events: a retry may block until its time-out.
    fn next_retry(&self) -> Option<Instant> {
        let allowed = self.retrying == 0 || self.retrying + 1 < self.clients;
        self.kept.iter().map(|kept| kept.retry_at).min().filter(|_| allowed)
    }

    /// Removes and returns the batch with the earliest retry time; `None` without any.
    /// Counts its client as retrying.
    fn take_retry(&mut self) -> Option<InFlightBatch> {
        let (place, _) = self.kept.iter().enumerate().min_by_key(|(_, kept)| kept.retry_at)?;
        self.away += 1;
        self.retrying += 1;
        self.retried = true;
        Some(self.kept.swap_remove(place))
    }

    /// Applies the sampler to the events of a batch. Returns the index of each sampled event, and the number of events
    /// sent before it; nothing without a sampler.
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
    /// Creates a queue for `readers` readers that holds about `most` bytes in memory. `batch`: maximum number of events
    /// per batch. `flush`: maximum time that an event waits for its batch to fill.
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

    /// Locks the state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    /// Returns the queue with a spill; `None` for none.
    #[must_use]
    pub fn with(self, spill: Option<Spill>) -> Self {
        Self { spill: spill.map(Mutex::new), ..self }
    }

    /// Samples events from now on, in the order in which clients take them.
    pub fn sample(&self, sampler: Sampler) {
        self.state().sampler = Some(sampler);
    }

    /// Adds the events of a chunk to memory, and wakes a client if a batch may be ready. Releases the lock `state`.
    /// Does nothing for a chunk without events.
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

    /// Becomes ready when the result of [`Queue::take`] may have changed.
    pub fn changed(&self) -> Notified<'_> {
        self.events.notified()
    }

    /// Registers a client that takes batches.
    pub fn join(&self) {
        self.state().clients += 1;
    }

    /// Returns the next batch at `now`, or until when to wait, or that the queue has ended. Does not block.
    /// New events form a batch if they fill it, if the first has waited for the flush time, if memory is full, or after
    /// the end of the source. New events come first, then batches due for a retry. A retry that is overdue by 2 s
    /// precedes new events, but never twice in a row. The queue also ends if no event was settled for 300 s after the
    /// end of the source.
    pub fn take(&self, now: Instant) -> Next {
        let mut state = self.state();
        let over = state.closed || state.readers == 0;
        if over && now > *state.progress.get_or_insert(now) + PATIENCE {
            drop(state);
            // The others may wait without a limit.
            self.events.notify_waiters();
            return Next::Ended;
        }
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
            let is_drained =
                over && state.waiting == 0 && state.away == 0 && state.spilled == 0 && state.kept.is_empty();
            return if is_drained { Next::Ended } else { Next::Wait(due.into_iter().chain(retry).min()) };
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
        // A batch is ready once it is full or its first event has waited for the flush time.
        let full_since = last.filter(|_| full);
        let ready = [full_since, due].into_iter().flatten().min().filter(|ready| *ready <= now);
        let mut in_flight = InFlightBatch::together(&pieces, self.kinds.clone(), ready);
        in_flight.sampled = sampled;
        Next::Batch(in_flight)
    }

    /// Wakes another client if there is more to take, because this client stops waiting.
    fn hand_on(&self, state: &State) {
        if state.waiting > 0 || !state.kept.is_empty() {
            self.events.notify_one();
        }
    }

    /// Returns a batch with its remaining events to the queue, for a retry after its back-off.
    /// `stuck`: the request settled no event, so the back-off doubles, up to 2 s or more if many batches wait.
    /// Otherwise it starts again at 100 ms.
    pub fn put_back(&self, mut in_flight: InFlightBatch, stuck: bool) {
        in_flight.ready = None;
        let mut state = self.state();
        state.away -= 1;
        state.retrying -= usize::from(in_flight.back_off.is_some());
        let doubled = in_flight.back_off.filter(|_| stuck).map(|before| before * 2);
        let longest = LONGEST_BACK_OFF.max(BETWEEN_RETRIES * state.kept.len() as u32);
        let back_off = doubled.unwrap_or(SHORTEST_BACK_OFF).min(longest);
        in_flight.back_off = Some(back_off);
        in_flight.retry_at = Instant::now() + back_off;
        state.progress = state.progress.filter(|_| stuck);
        state.kept.push(in_flight);
        drop(state);
        self.events.notify_one();
    }

    /// Removes a batch after all of its events were settled, which frees its memory.
    pub fn done(&self, in_flight: &InFlightBatch) {
        let mut state = self.state();
        state.away -= 1;
        state.retrying -= usize::from(in_flight.back_off.is_some());
        let was_full = state.bytes >= self.most;
        state.bytes -= in_flight.batch.bytes.len() as u64;
        state.progress = None;
        let (room, last) = (was_full && state.bytes < self.most, state.away == 0);
        let retries = !state.kept.is_empty();
        // Try the spill again: a full disk may have room now.
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

    /// Returns whether events are flowing at `now`: the last event taken arrived during the last `within`, or some are
    /// not stored yet.
    pub fn flows(&self, now: Instant, within: Duration) -> bool {
        let state = self.state();
        let waits = state.waiting + state.spilled + state.away + state.kept.len() > 0;
        waits || state.newest.is_some_and(|newest| now.saturating_duration_since(newest) <= within)
    }

    /// Returns the current number of events without a client, peak sizes in bytes, and totals of the spill.
    /// The number includes events on disk and in batches that wait for a retry.
    pub fn standing(&self) -> QueueState {
        let state = self.state();
        let kept = |in_flight: &InFlightBatch| in_flight.left.as_ref().map_or(in_flight.batch.events.len(), Vec::len);
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

    /// Creates a chunk with one event; its line is the digit `id`.
    fn event(id: u8) -> Chunk {
        let line = vec![b'0' + id];
        let event = Event { arrived: Instant::now(), line: 0..1, id: 0..1, kind: 0, time: 0, arrival: 0 };
        Chunk { bytes: line, events: vec![event], ticket: None }
    }

    /// Creates a queue for `clients` with these events and batches of one event.
    fn queue(clients: usize, events: std::ops::Range<u8>) -> Queue {
        let queue = Queue::new(1, Duration::ZERO, 1 << 20, Arc::new(["bid".to_owned()]), 1);
        (0..clients).for_each(|_| queue.join());
        events.for_each(|id| queue.push(event(id), || ()).unwrap());
        queue
    }

    /// Takes the next batch at `now`; `None` without one.
    fn take_batch(queue: &Queue, now: Instant) -> Option<InFlightBatch> {
        if let Next::Batch(in_flight) = queue.take(now) { Some(in_flight) } else { None }
    }

    /// Returns the digit that is the first line of a batch.
    fn line(in_flight: Option<&InFlightBatch>) -> Option<u8> {
        in_flight.map(|in_flight| in_flight.batch.bytes[0] - b'0')
    }

    #[test]
    fn a_source_that_has_ended_stays_so_when_it_is_closed_again() {
        let ended = queue(1, 0..1);
        ended.close_by_itself();
        ended.close_by_itself();
        ended.close();
        assert!(ended.ran_out());
        let cut = queue(1, 0..1);
        cut.close();
        cut.close_by_itself();
        assert!(!cut.ran_out(), "the clock had closed it");
    }

    #[test]
    fn fresh_events_come_before_retries_unless_these_are_long_overdue() {
        let queue = queue(3, 0..6);
        let stuck = take_batch(&queue, Instant::now()).unwrap();
        queue.put_back(stuck, true);
        let soon = Instant::now() + SHORTEST_BACK_OFF;
        assert_eq!(line(take_batch(&queue, soon).as_ref()), Some(1), "the retry is due, and waits for fresh events");
        let late = soon + LONGEST_BACK_OFF;
        let retried = take_batch(&queue, late).unwrap();
        assert_eq!(line(Some(&retried)), Some(0));
        queue.put_back(retried, true);
        let later = late + 10 * LONGEST_BACK_OFF;
        assert_eq!(line(take_batch(&queue, later).as_ref()), Some(2), "never two retries in a row");
        assert_eq!(line(take_batch(&queue, later).as_ref()), Some(0));
    }

    #[test]
    fn the_end_of_the_patience_wakes_clients_that_wait_without_a_limit() {
        let queue = queue(3, 0..1);
        queue.state().closed = true;
        let now = Instant::now();
        let stuck = take_batch(&queue, now).unwrap();
        queue.put_back(stuck, true);
        let _away = take_batch(&queue, now + LONGEST_BACK_OFF).unwrap();
        let mut waiting = std::pin::pin!(queue.changed());
        waiting.as_mut().enable();
        // A notification that is stored for one client does not count.
        let mut other = std::pin::pin!(queue.changed());
        let _ = other.as_mut().enable();
        assert!(matches!(queue.take(now + PATIENCE + LONGEST_BACK_OFF), Next::Ended));
        assert!(waiting.as_mut().enable() && other.as_mut().enable());
    }

    #[test]
    fn a_store_that_settles_nothing_after_the_end_of_the_source_ends_the_queue() {
        let queue = queue(1, 0..3);
        queue.state().closed = true;
        let mut now = Instant::now();
        let stored = take_batch(&queue, now).unwrap();
        now += PATIENCE;
        queue.done(&stored);
        let stuck = take_batch(&queue, now).unwrap();
        queue.put_back(stuck, true);
        assert!(take_batch(&queue, now + PATIENCE).is_some(), "a settled event prolongs the time");
        assert!(matches!(queue.take(now + PATIENCE + LONGEST_BACK_OFF), Next::Ended));
        assert!(queue.standing().waiting > 0);
    }

    #[test]
    fn retries_leave_one_client_to_fresh_events_and_their_back_off_grows() {
        let queue = queue(3, 0..3);
        let batches: Vec<InFlightBatch> = (0..3).filter_map(|_| take_batch(&queue, Instant::now())).collect();
        batches.into_iter().for_each(|batch| queue.put_back(batch, true));
        let Next::Wait(Some(due)) = queue.take(Instant::now()) else { panic!("no retry is due yet") };
        let first = take_batch(&queue, due + LONGEST_BACK_OFF).unwrap();
        let _second = take_batch(&queue, due + LONGEST_BACK_OFF).unwrap();
        assert!(matches!(queue.take(due + LONGEST_BACK_OFF), Next::Wait(None)), "two of three clients retry");
        let before = first.back_off;
        queue.put_back(first, true);
        let again = take_batch(&queue, due + 10 * LONGEST_BACK_OFF).unwrap();
        assert_eq!((before, line(Some(&again))), (Some(SHORTEST_BACK_OFF), Some(2)), "the longest-waiting batch");
        let kept = queue.state().kept[0].back_off;
        assert_eq!(kept, Some(2 * SHORTEST_BACK_OFF));
    }
}
